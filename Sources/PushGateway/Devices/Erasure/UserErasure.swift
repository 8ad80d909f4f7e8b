internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue

/// Removes what the gateway keeps of one user: devices, tokens, deliveries, events.
///
/// The user may go on meanwhile: what is registered or accepted after the devices were removed stays
/// (``PushQueue/UserTraces/end``).
///
/// Each call has a record of its own until all that it is about is done: ``UserErasures`` goes on where it ended,
/// although the devices that led to the rest are gone by then, and a later call changes nothing of it.
struct UserErasure: Sendable {
    /// What was done in one call.
    struct Report: Sendable {
        var devices = 0
        var tokens = 0
        var deliveries = ErasedDeliveries()
        var events = 0
        /// How many changes of each removed device wait in the outbox; a device of which none waits is missing.
        var pending: [String: Int] = [:]
        /// Whether the gateway goes on with the search for the rest: the figures are those of the part that is done.
        var isSearching = false
        /// Changes of the user's devices that wait in the outbox.
        var pendingEntries: Int { pending.values.reduce(0, +) }
        /// Whether everything was looked at, and nothing is being sent any more that has to be erased.
        var isComplete: Bool { deliveries.inFlight == 0 && !isSearching }
        /// Whether nothing of the user can come up any more: the platforms were told of the removals, too.
        var isFinished: Bool { isComplete && pendingEntries == 0 }
    }

    /// The next step for a call; the names stand in the store.
    enum Phase: String {
        /// The user's devices are removed.
        case removing
        /// Deliveries and events are searched, until nothing is being sent any more that has to be erased.
        case searching
        /// The room on disk is cleared; platforms are still to be told of removals.
        case clearing
        /// Events about telling platforms of the removals are redacted, once the platforms were told.
        case telling
        /// The room on disk is cleared, and the record goes. It holds nothing of the user any more.
        case ending
    }

    /// The record of one call.
    struct Call: Sendable {
        let name: String
        var traces: UserTraces
        var phase = Phase.removing
    }

    /// The prefix of the names of records; the hash follows, a slash, and an id of the call.
    private static let prefix = "erasures/"
    /// The prefix of the names of records that an earlier version has written; the hash follows.
    private static let earlierPrefix = "erasing/"
    /// More devices than a user has, so that one read finds all: those that are registered meanwhile stay.
    private static let devicesAtOnce = 1_000

    let store: any StateStore & TraceStore
    let devices: any DeviceStore & OutboxStore
    let outbox: Date?
    let time: any TimeSource
    /// The app of each configured backend, by its name.
    let apps: [String: AppName]

    /// The hashes of users for whom a call is on record.
    static func unfinished(in store: any TraceStore) async throws(StoreError) -> Set<String> {
        let earlier = try await store.stateNames(beginningWith: earlierPrefix)
        let names = try await store.stateNames(beginningWith: prefix)
        return Set(earlier.map { String($0.dropFirst(earlierPrefix.count)) })
            .union(names.map { String($0.dropFirst(prefix.count).prefix(while: { $0 != "/" })) })
    }

    /// The names of the records for a hash.
    func records(of hash: String) async throws(StoreError) -> [String] {
        let earlier = try await store.stateNames(beginningWith: Self.earlierPrefix + hash)
        let names = try await store.stateNames(beginningWith: "\(Self.prefix)\(hash)/")
        return earlier + names
    }

    /// Removes a user's devices and puts a call on record, for ``run(_:_:progress:)``; returns the counts so far.
    ///
    /// The record is written before the first device is removed. Nothing is taken from earlier calls: a device of these
    /// may be another user's by now.
    func begin(_ user: String, hash: String) async throws(StoreError) -> Report {
        var call = Call(name: "\(Self.prefix)\(hash)/\(MessageID.random())", traces: UserTraces(user: user))
        var report = Report()
        try await removeDevices(of: &call, &report)
        call.phase = .searching
        try await keep(call)
        return report
    }

    /// Erases what calls are about, one call after the other.
    ///
    /// One task at a time may do so for a hash.
    ///
    /// - Parameters:
    ///   - calls: The calls that are on record (``calls(_:)``).
    ///   - done: What is done already.
    ///   - progress: Gets what is done so far, after each part.
    /// - Returns: What was done. What several calls found being sent is counted for each.
    /// - Throws: When the store fails or the task is cancelled; what was done before stays so, and the records stay.
    func run(
        _ calls: [Call],
        _ done: Report = Report(),
        progress: (Report) -> Void = { _ in }
    ) async throws(StoreError) -> Report {
        var report = done
        for call in calls { report = try await run(call, report, progress) }
        return report
    }

    /// Goes on with a call until it is finished, or has to wait for deliveries or platforms.
    private func run(
        _ begun: Call,
        _ done: Report,
        _ progress: (Report) -> Void
    ) async throws(StoreError) -> Report {
        var report = done
        var call = begun
        while true {
            switch call.phase {
            case .removing:
                try await removeDevices(of: &call, &report)
                call.phase = .searching
            case .searching:
                let known = call
                let clock = time
                var found = ErasedDeliveries()
                progress(report)
                try await store.eraseDeliveries(of: known.traces) { claim, state in
                    EventRedaction.cancelled(claim, as: state, at: clock.now)
                } state: { removed in
                    var call = known
                    call.traces.notifications.formUnion(removed)
                    return (call.name, Self.stored(call))
                } progress: { (part) async throws(StoreError) in
                    found += part
                    report.deliveries += part
                    progress(report)
                }
                call.traces.notifications.formUnion(found.notifications)
                let isTold = try await redactEvents(of: call, &report)
                // What is being sent ends with an attempt that names the recipient: it is found by what is kept here.
                guard found.inFlight == 0 else { return report }
                call.phase = isTold ? .ending : .clearing
            case .telling:
                guard try await countPending(of: call, &report) == 0 else { return report }
                call.phase = try await redactEvents(of: call, &report) ? .ending : .clearing
            case .clearing, .ending:
                try await store.clearRemoved()
                if call.phase == .ending {
                    try await store.saveState(call.name, nil)
                    return report
                }
                call.phase = .telling
            }
            if call.phase == .ending { call.traces = UserTraces(user: "") }
            try await keep(call)
        }
    }

    /// Takes the user out of events before the end of the traces; returns whether platforms were told of the removals.
    ///
    /// Once they were, events of telling them are redacted as well.
    /// A device that somebody has registered again meanwhile is theirs: its later events stay.
    private func redactEvents(of call: Call, _ report: inout Report) async throws(StoreError) -> Bool {
        let isTold = try await countPending(of: call, &report) == 0
        var redaction = EventRedaction(call.traces, apps)
        if isTold {
            let back = try await devices.devices(call.traces.devices.sorted())
            redaction.removedDevices = call.traces.devices.subtracting(back.keys).exact
            redaction.isUserGone = try await devices.devices(ofUsers: [call.traces.user], limit: 1).isEmpty
        }
        let ready = redaction
        report.events += try await store.redactEvents { ready.redacted($1, number: $0) }
        return isTold
    }

    /// How many changes of a call's devices wait until platforms were told of them, which the report gets as well.
    private func countPending(of call: Call, _ report: inout Report) async throws(StoreError) -> Int {
        var count = 0
        for device in call.traces.devices {
            var waiting = try await devices.unplannedCount(ofDevice: device)
            waiting += try await devices.entries(ofDevice: device, limit: 1_000).count
            report.pending[device] = waiting > 0 ? waiting : nil
            count += waiting
        }
        return count
    }

    /// Removes the user's devices; what is accepted or registered after that stays.
    private func removeDevices(of call: inout Call, _ report: inout Report) async throws(StoreError) {
        // Kept with the first record: a call that is cut here goes on much later.
        if call.traces.end == nil { call.traces.end = try await store.tracesEnd() }
        var page: [Device] = []
        repeat {
            page = try await devices.devices(ofUsers: [call.traces.user], limit: Self.devicesAtOnce)
            for device in page { call.traces.add(device) }
            // First what is needed to go on, then what it leads to.
            if !page.isEmpty { try await keep(call) }
            for device in page where try await devices.delete(device.id, outbox: outbox) {
                report.devices += 1
                report.tokens += device.tokens.count
            }
        } while page.count == Self.devicesAtOnce
        // A device that is there was registered since: what comes to it is no part of the erasure.
        if try await devices.devices(call.traces.devices.sorted()).isEmpty {
            call.traces.end = try await store.tracesEnd()
        }
    }

    /// The calls that are on record under a hash; none of them may be in ``begin(_:hash:)`` at the moment.
    func calls(_ hash: String) async throws(StoreError) -> [Call] {
        var calls: [Call] = []
        for name in try await records(of: hash) {
            let bytes = try await store.loadState(name)
            if let call = Self.read(bytes, name) { calls.append(call) }
        }
        return calls
    }

    private static func read(_ bytes: [UInt8]?, _ name: String) -> Call? {
        guard let bytes, let json = try? JSONValue(parsing: bytes), let user = json["user"]?.stringValue else {
            return nil
        }
        func texts(_ name: String) -> Set<String> { Set((json[name]?.arrayValue ?? []).compactMap(\.stringValue)) }
        var call = Call(name: name, traces: UserTraces(user: user))
        call.traces.devices = texts("devices")
        call.traces.recipients.formUnion(texts("recipients"))
        call.traces.notifications = Set((json["notifications"]?.arrayValue ?? []).compactMap(\.integerValue))
        if let delivery = json["last_delivery"]?.integerValue, let event = json["last_event"]?.integerValue {
            call.traces.end = UserTraces.End(delivery: delivery, event: event)
        }
        if let phase = json["phase"]?.stringValue.flatMap({ Phase(rawValue: $0) }) {
            call.phase = phase
        } else if call.traces.end != nil {
            // An earlier version has no phases, and forgot to clear the room after some that it calls complete.
            call.phase = json["complete"]?.boolValue == true ? .clearing : .searching
        }
        return call
    }

    private func keep(_ call: Call) async throws(StoreError) {
        try await store.saveState(call.name, Self.stored(call))
    }

    private static func stored(_ call: Call) -> [UInt8] {
        let traces = call.traces
        var value: JSONObject = [:]
        value["user"] = .string(traces.user)
        value["devices"] = .array(traces.devices.sorted().map { .string($0) })
        value["recipients"] = .array(traces.recipients.sorted().map { .string($0) })
        value["notifications"] = .array(traces.notifications.sorted().map { .integer($0) })
        if let end = traces.end {
            value["last_delivery"] = .integer(end.delivery)
            value["last_event"] = .integer(end.event)
        }
        value["phase"] = .string(call.phase.rawValue)
        return JSONValue.object(value).bytes
    }
}

/// Takes out of stored events who they were about; their numbers, types, times and counts stay.
///
/// Names are compared byte for byte, as the store does: another user's may differ in its form of Unicode only.
struct EventRedaction: Sendable {
    /// What an event keeps: nothing of it distinguishes one user from another.
    private static let kept = [
        "type", "at", "notification", "delivery", "backend", "state", "reason", "kind", "recipients", "caller",
    ]

    private let traces: UserTraces
    private let user: ExactText
    private let devices: Set<ExactText>
    private let recipients: Set<ExactText>
    private let notifications: Set<ExactText>
    private let app: AppName
    /// The backends that are configured for other apps, which may have users and devices of the same names.
    private let foreign: Set<String>
    /// Devices whose events are redacted behind the end of the traces too, where they are about telling platforms of
    /// the removal.
    var removedDevices: Set<ExactText> = []
    /// Whether what backends announce about the user is redacted behind the end of the traces too.
    var isUserGone = false

    /// Makes a redaction of what there was before the end of the traces; `apps` has the app of each configured backend,
    /// by its name.
    init(_ traces: UserTraces, _ apps: [String: AppName]) {
        self.traces = traces
        user = ExactText(traces.user)
        devices = traces.devices.exact
        recipients = traces.recipients.exact
        notifications = Set(traces.notifications.map { ExactText(NotificationID(rawValue: $0).description) })
        let app = Set(apps.values).first { $0.owns(traces.user) } ?? .default
        self.app = app
        foreign = Set(apps.filter { $0.value != app }.keys)
    }

    /// The event without what it says of the user; nil when it says nothing of the user.
    func redacted(_ event: [UInt8], number: Int64) -> [UInt8]? {
        guard let json = try? JSONValue(parsing: event), let object = json.objectValue, object["erased"] == nil,
            concerns(object) && isOlder(number, object) || concernsRemoval(object)
        else { return nil }
        return Self.stripped(object)
    }

    /// Whether an event is about a call that told a platform of a removal, or what a backend announced since.
    private func concernsRemoval(_ object: JSONObject) -> Bool {
        guard let type = object["type"]?.stringValue, type.hasPrefix("operation.") else {
            return isNotice(object, of: removedDevices, isUserGone ? user : nil)
        }
        return Self.name(object["device"]).map(removedDevices.contains) ?? false
    }

    /// Whether an event is what a backend announced about one of the devices or the user, at any place of its detail.
    ///
    /// Backends and their platforms know the names that these have within their app.
    private func isNotice(_ object: JSONObject, of devices: Set<ExactText>, _ user: ExactText?) -> Bool {
        guard object["type"] == "backend.notice", let backend = object["backend"]?.stringValue,
            !foreign.contains(backend)
        else { return false }
        func isNamed(_ text: String) -> Bool {
            devices.contains(ExactText(text)) || devices.contains(ExactText(app.key(text)))
                || user.map { ExactText(text) == ExactText(app.name($0.text)) } ?? false
        }
        func mentions(_ value: JSONValue) -> Bool {
            switch value {
            case .string(let text): isNamed(text)
            case .array(let values): values.contains(where: mentions)
            case .object(let object): object.contains { mentions($0.value) }
            default: false
            }
        }
        return [object["device"], object["detail"]].contains { $0.map(mentions) ?? false }
    }

    /// Whether an event is about what there was before the end of the traces: a delivery that was being sent then ends
    /// later.
    private func isOlder(_ number: Int64, _ object: JSONObject) -> Bool {
        guard let end = traces.end, number > end.event else { return true }
        guard let id = object["notification"]?.stringValue.flatMap({ NotificationID($0) }) else { return false }
        return id.rawValue <= end.delivery
    }

    private func concerns(_ object: JSONObject) -> Bool {
        func holds(_ name: String, in values: Set<ExactText>) -> Bool {
            Self.name(object[name]).map(values.contains) ?? false
        }
        return holds("recipient", in: recipients) || holds("device", in: devices)
            || Self.name(object["user"]) == user || holds("notification", in: notifications)
            || isNotice(object, of: devices, user)
    }

    private static func name(_ value: JSONValue?) -> ExactText? { value?.stringValue.map { ExactText($0) } }

    private static func stripped(_ object: JSONObject) -> [UInt8] {
        var rest = JSONObject()
        for name in kept { if let value = object[name] { rest[name] = value } }
        rest["erased"] = .bool(true)
        return JSONValue.object(rest).bytes
    }

    /// The event of a delivery that is cancelled because its user is erased.
    static func cancelled(_ claim: ClaimedDelivery, as state: DeliveryState, at now: Date) -> [UInt8] {
        let event = EventJSON.delivery(claim, state: state, at: now, reason: "user_erased")
        guard let object = (try? JSONValue(parsing: event))?.objectValue else { return event }
        return stripped(object)
    }
}

extension Set<String> {
    /// The same texts, compared byte for byte.
    fileprivate var exact: Set<ExactText> { Set<ExactText>(map { ExactText($0) }) }
}
