import ChaparCore
import ChaparModules
import ChaparQueue

/// Announces versions to the devices that run older ones, through the gateway's normal path: one announcement at a
/// time.
actor Announcer {
    /// The most devices of one notification.
    private static let partSize = 1000
    /// The most announcements that wait for their turn.
    private static let maximumWaiting = 8

    private let state: (any StateStore)?
    /// Without a store the ledgers live here.
    private var memory: [String: AnnouncementLedger] = [:]
    private var isBusy = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(state: (any StateStore)?) { self.state = state }

    /// The result of an announcement.
    struct Result: Sendable {
        /// Devices of an older version, and those of an unknown version that count as older.
        var eligible = 0
        /// Devices that a notification was accepted for now.
        var sent = 0
        /// Devices that the gateway refused.
        var failed = 0
        /// Older devices that had it before.
        var alreadyAnnounced = 0
        var upToDate = 0
        var unknown = 0
        /// Older devices that no backend reaches.
        var unreachable = 0
        var perBackend: [String: (sent: Int, failed: Int)] = [:]
        /// Why the gateway refused something.
        var refusal: String?
    }

    /// The properties of a device that decide which notification it gets.
    private struct Kind: Hashable {
        var app: AppName
        var backend: String
        var since: ReleaseVersion?
    }

    /// Finds the devices and sends, unless it is a dry run.
    func announce(
        _ app: NotesApp,
        _ request: AnnouncementRequest,
        _ texts: AnnouncementTexts,
        _ gate: any ModuleGate
    ) async throws(ModuleProblem) -> Result {
        guard waiting.count < Self.maximumWaiting else {
            throw ModuleProblem(503, "too_busy", "Other announcements are under way", retryAfter: .seconds(5))
        }
        await enter()
        defer { leave() }
        do throws(PushError) {
            return try await run(app, request, texts, gate)
        } catch {
            guard error.reason == "too_many_recipients" else { throw NotesModule.problem(error) }
            throw ModuleProblem(
                409,
                "too_many_recipients",
                "There are more recipients than allowed",
                detail: error.message
            )
        }
    }

    private func run(
        _ app: NotesApp,
        _ request: AnnouncementRequest,
        _ texts: AnnouncementTexts,
        _ gate: any ModuleGate
    ) async throws(PushError) -> Result {
        let name = "\(app.id)/\(request.version)"
        var ledger: AnnouncementLedger
        if let kept = memory[name] {
            ledger = kept
        } else {
            ledger = try await AnnouncementLedger(app.id, request.version, state: state)
        }
        if !request.isDryRun { try await finish(&ledger, gate) }
        let served = try await served(ledger, gate)
        var result = Result()
        var groups: [Kind: [String]] = [:]
        var order: [Kind] = []
        var cursor: DeviceCursor?
        repeat {
            let page = try await gate.devices(of: app.id, after: cursor, limit: Self.partSize)
            for device in page.devices {
                guard let kind = kind(of: device, request, gate, &result) else { continue }
                if served.contains(device.name) {
                    result.alreadyAnnounced += 1
                } else {
                    if groups[kind] == nil { order.append(kind) }
                    groups[kind, default: []].append(device.name)
                }
            }
            cursor = page.next
        } while cursor != nil
        let count = groups.values.reduce(0) { $0 + $1.count }
        guard count <= request.maximumRecipients else {
            let words = "\(count) devices would get it; max_recipients is \(request.maximumRecipients)."
            throw PushError(.invalidRequest, words, reason: "too_many_recipients")
        }
        guard !request.isDryRun else {
            for kind in order { result.perBackend[kind.backend, default: (0, 0)].sent += 0 }
            return result
        }
        for kind in order {
            let devices = groups[kind] ?? []
            for start in stride(from: 0, to: devices.count, by: Self.partSize) {
                let part = Array(devices[start..<min(start + Self.partSize, devices.count)])
                let backend = request.backends == nil ? nil : kind.backend
                var notification = texts.notification(to: part, since: kind.since, backend: backend)
                if kind.app != .default { notification["app"] = .string(kind.app.rawValue) }
                do throws(PushError) {
                    try await send(notification, part.count, kind.backend, name, &ledger, &result, gate)
                } catch {
                    if state == nil { memory[name] = ledger }
                    throw error
                }
            }
        }
        if state == nil { memory[name] = ledger }
        return result
    }

    /// Counts a device and returns the kind of notification that it should get; nil for none.
    private func kind(
        of device: Device,
        _ request: AnnouncementRequest,
        _ gate: any ModuleGate,
        _ result: inout Result
    ) -> Kind? {
        if device.attributes["notifications_allowed"] == false { return nil }
        // Apps that registered before there was a field for it have it among their attributes.
        let written = device.appVersion ?? device.attributes["app_version"]?.stringValue
        let version = written.flatMap { ReleaseVersion($0, allowsSigns: false) }
        if let version, version >= request.version {
            result.upToDate += 1
            return nil
        }
        if version == nil {
            result.unknown += 1
            guard request.treatsUnknownAsOld else { return nil }
        }
        result.eligible += 1
        guard let backend = gate.backend(for: device, among: request.backends) else {
            result.unreachable += 1
            return nil
        }
        return Kind(app: device.app, backend: backend, since: version)
    }

    private func send(
        _ notification: JSONObject,
        _ count: Int,
        _ backend: String,
        _ name: String,
        _ ledger: inout AnnouncementLedger,
        _ result: inout Result,
        _ gate: any ModuleGate
    ) async throws(PushError) {
        // The number of parts makes the key new when devices get the same request again after a failed delivery.
        let hash = StableHash.text(JSONValue.object(notification).bytes)
        let key = "release-notes/\(name)/\(ledger.parts.count)/\(hash)"
        let number = try await ledger.add(.init(request: notification, key: key))
        do throws(PushError) {
            let id = try await gate.accept(notification, idempotencyKey: key)
            try await ledger.markAccepted(number, id)
            result.sent += count
            result.perBackend[backend, default: (0, 0)].sent += count
        } catch {
            // A part that may have been accepted stays in the ledger, to be handed over again.
            guard error.code == .invalidRequest else { throw error }
            try await ledger.withdraw(number)
            result.failed += count
            result.perBackend[backend, default: (0, 0)].failed += count
            result.refusal = error.message
        }
    }

    /// Hands over again each part that may or may not have been accepted.
    private func finish(_ ledger: inout AnnouncementLedger, _ gate: any ModuleGate) async throws(PushError) {
        for (number, part) in ledger.parts.enumerated() where part.isOpen {
            do throws(PushError) {
                try await ledger.markAccepted(number, try await gate.accept(part.request, idempotencyKey: part.key))
            } catch {
                guard error.code == .invalidRequest else { throw error }
                try await ledger.withdraw(number)
            }
        }
    }

    /// Returns the devices that have the announcement or will get it.
    ///
    /// A device whose delivery failed, expired or was cancelled is not among them.
    private func served(_ ledger: AnnouncementLedger, _ gate: any ModuleGate) async throws(PushError) -> Set<String> {
        var served: Set<String> = []
        for part in ledger.parts where !part.isRefused {
            let states = try await part.states(gate)
            for device in part.devices {
                switch states[device] {
                case .failed?, .expired?, .cancelled?: served.remove(device)
                default: served.insert(device)
                }
            }
        }
        return served
    }

    // MARK: Turns

    private func enter() async {
        guard isBusy else {
            isBusy = true
            return
        }
        await withCheckedContinuation { waiting.append($0) }
    }

    private func leave() {
        if waiting.isEmpty { isBusy = false } else { waiting.removeFirst().resume() }
    }
}

extension AnnouncementLedger.Part {
    fileprivate func states(_ gate: any ModuleGate) async throws(PushError) -> [String: DeliveryState] {
        guard let notification else { return [:] }
        return try await gate.states(of: notification)
    }
}

extension NotesModule {
    /// Announces a version.
    func announce(
        _ app: NotesApp,
        _ body: [UInt8],
        _ gate: any ModuleGate
    ) async throws(ModuleProblem) -> ModuleAnswer {
        let request = try AnnouncementRequest(body, app: app, backends: gate.backends)
        var lists: [String: ReleaseNotes] = [:]
        do throws(PushError) {
            let wanted = Set(request.languages ?? app.languages).union(app.defaultLanguage.map { [$0] } ?? [])
            for language in wanted { lists[language] = try await library.shelf(app.id, language)?.notes }
        } catch {
            throw Self.problem(error)
        }
        guard let texts = AnnouncementTexts(app, request.version, lists, publicURL: options.publicURL) else {
            let detail = "The list of the default language has no \(request.version)."
            throw Self.problem([Finding(pointer: "#/version", code: "no_such_version", detail: detail)])
        }
        let result = try await announcer.announce(app, request, texts, gate)
        return Self.json(200, result.json(request))
    }
}

extension Announcer.Result {
    /// The answer.
    func json(_ request: AnnouncementRequest) -> JSONValue {
        func number(_ value: Int) -> JSONValue { .integer(Int64(value)) }
        var backends = JSONObject()
        for (name, counts) in perBackend.sorted(by: { $0.key < $1.key }) {
            backends[name] = ["sent": number(counts.sent), "failed": number(counts.failed)]
        }
        var json: JSONObject = [
            "version": .string(request.version.description), "dry_run": .bool(request.isDryRun),
            "eligible": number(eligible), "sent": number(sent), "failed": number(failed),
            "already_announced": number(alreadyAnnounced), "up_to_date": number(upToDate), "unknown": number(unknown),
            "unreachable": number(unreachable), "per_backend": .object(backends),
        ]
        if let refusal { json["refusal"] = .string(refusal) }
        // No user is selected by a platform's own filter: it may compare versions as texts, where 1.10 comes before
        // 1.9.
        if let names = request.backends {
            let reason =
                "Devices that only the platform knows are left out: its own filter may compare versions as text."
            var unsupported = JSONObject()
            for name in names { unsupported[name] = .string(reason) }
            json["unsupported"] = .object(unsupported)
        }
        return .object(json)
    }
}
