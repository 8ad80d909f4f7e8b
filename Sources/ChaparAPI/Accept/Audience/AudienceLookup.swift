internal import Foundation
internal import ChaparDelivery
internal import ChaparQueue
internal import ChaparCore

/// The lookup of an audience in the registry: its segments, its size where a limit needs it, and a dry run's devices.
struct AudienceLookup: Sendable {
    /// The longest time of an exact count, unless a request names another one.
    static let longestCount = Duration.seconds(30)
    /// The longest search for a first device.
    private static let longestProbe = Duration.seconds(1)

    let state: GatewayState
    let scope: RequestScope

    init(_ state: GatewayState, _ scope: RequestScope) {
        (self.state, self.scope) = (state, scope)
    }

    /// Resolves the draft's audience and checks what the caller may address; a dry run counts it, too.
    func lookUp(_ draft: inout NotificationDraft, _ issues: inout RequestIssues) async throws(StoreError) {
        guard let request = draft.audienceRequest, issues.isEmpty else { return }
        guard let store = state.audiences else {
            return issues.add(request.pointer, "audience_not_supported", "The store of this gateway has no audiences.")
        }
        let audience = try await resolve(
            request,
            exclude: draft.exclude.map { ($0, "#/to/exclude") },
            list: draft.audienceOptions.list.map { ($0, "#/options/list") },
            of: draft.appName,
            mayBroadcast: scope.caller.has(.broadcast),
            &issues
        )
        guard let audience else { return }
        draft.audience = audience
        draft.isLookedUp = true
        let isDryRun = draft.notification.isDryRun
        let most = scope.caller.maximumAudience.map { Int64($0) }
        var preview = isDryRun ? AudiencePreview(SamplePayloads(draft, scope.snapshot.gateway(for: scope.caller))) : nil
        // One count answers all questions: it goes to the caller's limit, else through every device of a dry run, else
        // to the first device.
        let count = try await AudienceCounter(store).exact(
            audience,
            within: most != nil || isDryRun ? Self.longestCount : Self.longestProbe,
            upTo: most ?? (isDryRun ? .max : 0)
        ) { preview?.add($0) }
        if let most, count.matched > most || count.kind != .exact {
            let detail = "The API key may address at most \(most) devices (max_audience). Narrow the rule."
            return issues.add(request.pointer, "audience_too_large", detail)
        }
        if count.kind == .exact, count.reached == 0 { Self.tellEmpty(request, &draft, &issues) }
        preview?.finish(count)
        draft.audiencePreview = preview
    }

    /// Warns that the audience has no device, or refuses it where the request says so.
    private static func tellEmpty(
        _ request: AudienceRequest,
        _ draft: inout NotificationDraft,
        _ issues: inout RequestIssues
    ) {
        let detail = "No device with a live token matches now."
        if draft.audienceOptions.requiresRecipients {
            issues.add(request.pointer, "audience_empty", detail + " options.require_recipients refuses that.")
        } else {
            draft.warnings.append(Finding(pointer: request.pointer, code: "audience_empty", detail: detail))
        }
    }

    /// Makes an audience of a request's rules, with the rules of segments in the place of their names.
    ///
    /// - Parameters:
    ///   - request: The rule with its pointer.
    ///   - exclude: The rule of the devices that are left out, with its pointer.
    ///   - list: The name of the list that the message is about, with its pointer.
    ///   - app: The app.
    ///   - mayBroadcast: Whether the caller may address a population.
    ///   - issues: Receives the mistakes.
    /// - Returns: The audience; nil with mistakes.
    /// - Throws: The store's failure.
    func resolve(
        _ request: AudienceRequest,
        exclude: (rule: JSONValue, pointer: String)? = nil,
        list: (name: String, pointer: String)? = nil,
        of app: AppName,
        mayBroadcast: Bool = true,
        _ issues: inout RequestIssues
    ) async throws(StoreError) -> Audience? {
        let before = issues.count
        let found = try await state.segments.resolve(request.rule, at: request.pointer, in: app)
        for mistake in found.mistakes {
            issues.add(request.isShorthand ? request.pointer : mistake.pointer, mistake.code, mistake.detail)
        }
        if let rule = found.rule, !rule.isNarrow, !mayBroadcast { issues.add(request.pointer, lacking: .broadcast) }
        var excluded: AudienceRule?
        if let exclude {
            let other = try await state.segments.resolve(exclude.rule, at: exclude.pointer, in: app)
            for mistake in other.mistakes { issues.add(mistake.pointer, mistake.code, mistake.detail) }
            excluded = other.resolved
        }
        var topic: Audience.List?
        if let list {
            if let isDefault = scope.gateway.configuration.lists[list.name] {
                topic = Audience.List(list.name, isDefault: isDefault)
            } else {
                issues.add(list.pointer, "unknown_list", scope.gateway.configuration.unknownList(list.name))
            }
        }
        guard issues.count == before, let rule = found.resolved else { return nil }
        return Audience(
            app: app,
            rule: rule,
            exclude: excluded,
            list: topic,
            services: scope.gateway.services(of: app),
            moment: state.time.now.millisecondsSince1970
        )
    }
}

extension GatewayConfiguration {
    /// Returns the sentence about a list that the configuration does not have.
    func unknownList(_ name: String) -> String {
        didYouMean(name, lists.keys.sorted())
            ?? "The configuration has no such list. Add it under lists, with in or out as its default."
    }
}

/// A count of an audience with a few of its devices for each platform.
struct AudiencePreview: Sendable {
    /// The most samples of a platform.
    static let mostSamples = 5

    /// The count of the devices that the message reaches.
    private(set) var count = AudienceCount(.exact)
    private var samples: [String: [Device]] = [:]
    private var skipped: [AudienceSkip: Int64] = [:]
    private var payloads: SamplePayloads

    /// Makes a preview of a message.
    init(_ payloads: SamplePayloads) { self.payloads = payloads }

    /// Takes the count of the audience, of which the message may not reach all devices.
    mutating func finish(_ whole: AudienceCount) {
        count = whole
        for (cause, number) in skipped {
            count.reached = count.reached.subtracting(clamping: number)
            count.skipped[cause] = (count.skipped[cause] ?? 0).adding(clamping: number)
        }
    }

    /// Takes samples of a window, and counts the devices that the message does not reach.
    mutating func add(_ window: AudienceWindow) {
        for (cause, number) in payloads.skipped(of: window.devices) {
            skipped[cause] = (skipped[cause] ?? 0).adding(clamping: number)
        }
        for subject in window.devices {
            let platform = subject.device.effectivePlatform ?? "unknown"
            guard samples[platform]?.count ?? 0 < Self.mostSamples else { continue }
            samples[platform, default: []].append(subject.device)
        }
    }

    /// Returns the answer to a dry run.
    func answer(_ warnings: [Finding]) -> [UInt8] {
        var payloads = payloads
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("status", "dry_run")
        writer.name("recipients")
        writer.beginObject()
        writer.members(of: count)
        writer.endObject()
        write(&payloads, to: &writer)
        writer.name("warnings")
        writer.findings(warnings)
        writer.endObject()
        return writer.bytes
    }

    /// Writes the samples as a member of an object that the caller has begun.
    private func write(_ payloads: inout SamplePayloads, to writer: inout JSONWriter) {
        writer.name("samples")
        writer.beginArray()
        for (platform, devices) in samples.sorted(by: { $0.key < $1.key }) {
            for device in devices {
                writer.beginObject()
                writer.field("platform", platform)
                writer.field("device", device.name)
                writer.field("user", device.userName)
                writer.field("locale", device.locale)
                payloads.write(for: device, to: &writer)
                writer.endObject()
            }
        }
        writer.endArray()
    }
}

extension JSONWriter {
    /// Writes an array of texts.
    mutating func texts(_ list: [String]) {
        beginArray()
        for text in list { string(text) }
        endArray()
    }

    /// Writes a member with an age in seconds, to the millisecond; null without a beginning.
    mutating func age(_ member: StaticString, since start: Date?, at now: Date) {
        name(member)
        if let start {
            double((max(0, now.timeIntervalSince(start)) * 1000).rounded() / 1000)
        } else {
            null()
        }
    }

    /// Writes the members of a count.
    mutating func members(of count: AudienceCount) {
        name("count")
        integer(Int(clamping: count.reached))
        switch count.kind {
        case .exact: field("kind", "exact")
        case .estimate(let margin):
            field("kind", "estimate")
            name("plus_minus")
            integer(Int(clamping: margin))
        case .atLeast: field("kind", "at_least")
        }
        name("matched")
        integer(Int(clamping: count.matched))
        name("skipped")
        beginObject()
        for cause in AudienceSkip.allCases {
            guard let number = count.skipped[cause], number > 0 else { continue }
            name(cause.rawValue)
            integer(Int(clamping: number))
        }
        endObject()
    }
}
