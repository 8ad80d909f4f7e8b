internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The endpoints that only notifications to an audience have: their progress and counts, pause and resume, and `PATCH`
/// of the pace.
///
/// A campaign is a notification, so ``StatusAPI`` answers about it too, and calls this type for that. A caller sees the
/// campaigns of the senders that ``Caller/maySee(sender:)`` allows; with the scope `read_all` it may also read further
/// campaigns.
package struct CampaignsAPI: Sendable {
    private static let pageSize = 50
    private static let largestPage = 200
    /// The longest time that one request cancels waiting deliveries, in seconds; the fan-out goes on with the rest.
    private static let longestCancellation: TimeInterval = 20
    /// The most campaigns of a key that a cancellation of everything ends at once.
    private static let mostOfKey = 1_000

    let endpoint: SyncEndpoint

    /// Creates the endpoints, which read and change the store of `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private var state: GatewayState { endpoint.state }

    private enum PatchField: Int, RequestField {
        case pace
        static let names = ["pace"]
    }

    private enum NoField: Int, RequestField {
        case none
        static let names: [String] = []
    }

    // MARK: Reading

    /// Returns a campaign that the caller may see; nil when there is none with the id.
    ///
    /// A campaign that only `read_all` finds may be read, not changed.
    func find(
        _ id: NotificationID,
        _ scope: RequestScope,
        toRead: Bool = false
    ) async throws(Problem) -> Campaign? {
        guard let campaigns = state.store.abilities.campaigns else { return nil }
        do throws(StoreError) {
            guard let campaign = try await campaigns.campaign(id) else { return nil }
            let isFound = toRead ? mayFind(campaign, scope) : scope.caller.maySee(sender: campaign.caller)
            return isFound ? campaign : nil
        } catch {
            throw Problem(error)
        }
    }

    /// Whether the caller may find a campaign: it may see the campaign, or it has the scope `read_all` and may use all
    /// backends of the campaign's app, since the deliveries may go through any of them.
    private func mayFind(_ campaign: Campaign, _ scope: RequestScope) -> Bool {
        if scope.caller.maySee(sender: campaign.caller) { return true }
        return scope.caller.has(.readAll) && scope.caller.mayUse(app: campaign.app)
            && scope.snapshot.mayUseWhole(campaign.app, scope.caller)
    }

    /// Answers with a campaign and the number of its deliveries in each state.
    func show(_ campaign: Campaign, _ scope: RequestScope) async throws(Problem) -> Response {
        var counts: [DeliveryState: Int] = [:]
        do throws(StoreError) {
            counts = try await state.store.abilities.campaigns?.counts(of: campaign.id) ?? [:]
        } catch {
            throw Problem(error)
        }
        let now = state.clock.reading
        let showsContent = scope.caller.mayRead(contentsOf: campaign.caller)
        return Response.json { [counts] writer in
            Self.write(campaign, counts, at: now, showsContent: showsContent, to: &writer)
        }
    }

    /// Answers with a page of campaigns, the newest first.
    ///
    /// The answer has no counts, since these need a read of each delivery, and no states of large campaigns that are
    /// over.
    package func list(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["cursor", "limit"])
        let limit = try scope.number("limit", in: 1...Self.largestPage, default: Self.pageSize)
        var before = try scope.cursor { NotificationID($0) }
        var found: [(campaign: Campaign, state: DeliveryState?)] = []
        var hasMore = true
        var rows = Int64(SearchAPI.mostRows)
        let now = state.clock.reading
        do throws(StoreError) {
            // Those of other senders are left out; the page is filled from older ones.
            for _ in 0..<20 where found.count < limit && hasMore {
                let page =
                    try await state.store.abilities.campaigns?.campaigns(before: before, limit: Self.largestPage) ?? []
                for campaign in page where found.count < limit {
                    before = campaign.id
                    guard mayFind(campaign, scope) else { continue }
                    guard Self.isSummed(campaign) else {
                        found.append((campaign, Self.state(of: campaign, [:], at: now.steady)))
                        continue
                    }
                    rows = rows.subtracting(clamping: campaign.enqueued)
                    var counts: [DeliveryState: Int]?
                    if rows >= 0 { counts = try await state.store.abilities.campaigns?.counts(of: campaign.id) }
                    found.append((campaign, counts.map { Self.state(of: campaign, $0, at: now.steady) }))
                }
                hasMore = page.count == Self.largestPage || page.last.map { $0.id != before } ?? false
            }
        } catch {
            throw Problem(error)
        }
        let next = hasMore ? before : nil
        return Response.json { [found] writer in
            writer.name("items")
            writer.beginArray()
            for (campaign, state) in found {
                writer.beginObject()
                writer.field("id", campaign.id.description)
                writer.field("status", state?.rawValue)
                let showsContent = scope.caller.mayRead(contentsOf: campaign.caller)
                Self.writeShared(campaign, at: now, showsContent: showsContent, to: &writer)
                writer.endObject()
            }
            writer.endArray()
            writer.name("next")
            if let next { writer.string(next.description) } else { writer.null() }
        }
    }

    // MARK: Changing

    /// Pauses a campaign, or lets it go on; one that is already so is no mistake.
    package func pause(
        _ request: Request,
        _ id: Substring,
        _ pauses: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        try scope.allowParameters([])
        try await endpoint.body(of: request, scope, NoField.self) { (scanner, _, _) throws(JSONSyntaxError) in
            try scanner.skip()
        }
        let (campaign, isChanged) = try await change(id, scope) { [state] campaign in
            campaign.pause(pauses, at: state.time.steady)
        }
        guard campaign.phase == .running, campaign.endedAt == nil else {
            throw .campaignOver(campaign.phase.word)
        }
        if isChanged { await tell(campaign, pauses ? .paused : .resumed) }
        return try await show(campaign, scope)
    }

    /// Changes the pace of a campaign while it runs, and nothing else of it.
    package func patch(_ request: Request, _ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        var pace: CampaignPace?
        try await endpoint.body(of: request, scope, PatchField.self) {
            (scanner, issues, _) throws(JSONSyntaxError) in
            pace = try PaceReader.read(&scanner, &issues, "#/pace")
        } check: { issues in
            if pace == nil { issues.add("#/pace", "missing", "Give the pace: only it can change while one runs.") }
        }
        guard let pace else { return Response.json { _ in } }
        var issues = RequestIssues()
        let (campaign, isChanged) = try await change(id, scope) { [state] campaign in
            let now = state.time.steady
            issues = RequestIssues()
            guard campaign.endedAt == nil, campaign.isOpen else { return false }
            let (wavesDiffer, overDiffers) = (campaign.pace.waves != pace.waves, campaign.pace.over != pace.over)
            if wavesDiffer, campaign.bound != nil {
                // A campaign that is in its waves would meet devices of another cut twice, or never.
                issues.add("#/pace/waves", "begun", "It has begun: the waves stay as they were given.")
            } else if wavesDiffer || overDiffers {
                pace.check(from: max(now, campaign.dueAt ?? now), until: campaign.expiresAt, &issues)
            }
            return issues.isEmpty && campaign.change(pace: pace, at: now)
        }
        guard issues.isEmpty else { throw Problem(issues) }
        guard isChanged else { throw .campaignOver(campaign.phase.word) }
        return try await show(campaign, scope)
    }

    /// Cancels a campaign: no window follows, and what waits is cancelled.
    func cancel(_ campaign: Campaign) async throws(Problem) -> Cancellation {
        let end = state.time.steady + Self.longestCancellation
        do throws(StoreError) {
            let changed = try await state.store.changeCampaign(campaign.id) { $0.end(.cancelled) }
            if let changed { state.campaigns.note(changed.campaign) }
            var result = Cancellation(cancelled: 0, tooLate: 0)
            var after: Int64?
            while state.time.steady < end, let campaigns = state.store.abilities.campaigns {
                let parts = try await campaigns.parts(of: campaign.id, after: after, limit: 64, onlyOpen: true)
                for part in parts where state.time.steady < end {
                    let done = try await state.store.cancel(part.id) { [time = state.time] claim, end in
                        EventJSON.delivery(claim, state: end, at: time.now, reason: "cancelled_by_caller")
                    }
                    result.cancelled += done?.cancelled ?? 0
                    result.inFlight += done?.inFlight ?? 0
                    after = part.id.delivery(at: part.count - 1)
                }
                guard parts.count == 64 else { break }
            }
            let made = Int(clamping: changed?.campaign.enqueued ?? campaign.enqueued)
            result.tooLate = max(0, made - result.cancelled - result.inFlight)
            return result
        } catch {
            throw Problem(error)
        }
    }

    /// Ends the campaigns of a sender, so that no window follows the cancellation of what it has waiting.
    func endAll(of key: String) async throws(StoreError) {
        guard let campaigns = state.store.abilities.campaigns else { return }
        for campaign in try await campaigns.openCampaigns(limit: Self.mostOfKey) where campaign.caller == key {
            guard let changed = try await state.store.changeCampaign(campaign.id, { $0.end(.cancelled) }) else {
                continue
            }
            state.campaigns.note(changed.campaign)
        }
    }

    private func change(
        _ text: Substring,
        _ scope: RequestScope,
        _ change: (inout Campaign) -> Bool
    ) async throws(Problem) -> (campaign: Campaign, isChanged: Bool) {
        guard let id = NotificationID(text), let campaign = try await find(id, scope) else {
            throw .notFound(
                "There is no notification \(text.prefix(32)) to an audience, or it is older than store.retention."
            )
        }
        do throws(StoreError) {
            guard let result = try await state.store.changeCampaign(campaign.id, change) else {
                throw StoreError.failed("the campaign \(campaign.id) is gone")
            }
            if result.isChanged { state.campaigns.note(result.campaign) }
            return result
        } catch {
            throw Problem(error)
        }
    }

    /// Publishes a change; one that is not published is made nevertheless, and shown by the next event of progress.
    private func tell(_ campaign: Campaign, _ event: EventJSON.CampaignEvent) async {
        try? await state.store.publish([EventJSON.campaign(campaign, event, at: state.time.now)])
    }

    // MARK: Answers

    /// Writes the members of a campaign; `counts` has the number of its deliveries in each state.
    static func write(
        _ campaign: Campaign,
        _ counts: [DeliveryState: Int],
        at now: TimeReading,
        showsContent: Bool,
        to writer: inout JSONWriter
    ) {
        writer.field("id", campaign.id.description)
        writer.field("status", state(of: campaign, counts, at: now.steady).rawValue)
        writer.counts("counts", counts)
        writeShared(campaign, at: now, showsContent: showsContent, to: &writer)
        guard showsContent else { return }
        writer.name("notification")
        writer.raw(campaign.record.content)
    }

    /// Writes what a list has of a campaign, too.
    private static func writeShared(
        _ campaign: Campaign,
        at now: TimeReading,
        showsContent: Bool,
        to writer: inout JSONWriter
    ) {
        writer.field("recipients", Int(clamping: campaign.enqueued))
        writer.name("audience")
        writer.beginObject()
        EventJSON.write(campaign, to: &writer)
        writer.field("keep", campaign.keepsAll ? "all" : "failures")
        writer.name("pace")
        write(campaign.pace, to: &writer)
        writer.endObject()
        writer.name("created_at")
        RFC3339.write(now.wall(campaign.record.acceptedAt), to: &writer)
        if let dueAt = campaign.dueAt {
            writer.name("send_at")
            RFC3339.write(now.wall(dueAt), to: &writer)
        }
        writer.name("expires_at")
        RFC3339.write(now.wall(campaign.expiresAt), to: &writer)
        if let endedAt = campaign.endedAt {
            writer.name("ended_at")
            RFC3339.write(now.wall(endedAt), to: &writer)
        }
        if !campaign.caller.isEmpty { writer.field("caller", campaign.caller) }
        DeliveryWriter.write(campaign.record, showsContent: showsContent, to: &writer)
    }

    private static func write(_ pace: CampaignPace, to writer: inout JSONWriter) {
        writer.beginObject()
        write(pace.perMinute, as: "per_minute", to: &writer)
        writer.field("over", pace.over.map { Int(clamping: $0) })
        if !pace.waves.isEmpty {
            writer.name("waves")
            writer.beginArray()
            for wave in pace.waves {
                writer.beginObject()
                write(Double(wave.upTo) / 100, as: "percent", to: &writer)
                writer.field("wait", Int(clamping: wave.pause))
                writer.endObject()
            }
            writer.endArray()
            write(pace.stopAbove.map { ($0 * 10_000).rounded() / 100 }, as: "stop_above", to: &writer)
        }
        writer.endObject()
    }

    /// Writes a number as the request may have had it: a whole one without a fraction.
    private static func write(_ number: Double?, as name: StaticString, to writer: inout JSONWriter) {
        guard let number else { return }
        if let whole = Int64(exactly: number) { writer.field(name, whole) } else { writer.field(name, number) }
    }

    /// Whether the state of a campaign is the sum of those of its deliveries: it is over, and has some.
    private static func isSummed(_ campaign: Campaign) -> Bool {
        (campaign.endedAt != nil || campaign.phase != .running) && campaign.enqueued > 0
    }

    /// Returns the state of a campaign in the words of deliveries: what goes on, or else the best that any reached.
    private static func state(of campaign: Campaign, _ counts: [DeliveryState: Int], at now: Date) -> DeliveryState {
        if campaign.endedAt == nil, campaign.phase == .running {
            if campaign.windows == 0, let dueAt = campaign.dueAt, now < dueAt { return .scheduled }
            return campaign.windows == 0 ? .queued : .sending
        }
        if counts.values.contains(where: { $0 > 0 }) { return .summary(of: counts) }
        switch campaign.phase {
        // Nothing was left to be done: also where no device matched, which is no mistake.
        case .running, .finished: return .acceptedByPlatform
        case .cancelled: return .cancelled
        case .expired: return .expired
        }
    }
}
