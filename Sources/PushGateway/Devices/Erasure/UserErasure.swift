internal import Foundation
internal import Logging
internal import PushCore
internal import PushQueue

/// Removes what the gateway keeps of one user: devices, tokens, deliveries, events.
///
/// The user may go on meanwhile: what is registered or accepted after the devices were removed stays (``PushQueue/UserTraces/end``).
///
/// What is found is kept in the store until everything is done: ``UserErasures`` goes on where it ended, although the devices
/// that led to the rest are gone by then.
struct UserErasure: Sendable {
    /// What was done in one call.
    struct Report: Sendable {
        var devices = 0
        var tokens = 0
        var deliveries = ErasedDeliveries()
        var events = 0
        /// Changes of the user's devices that wait in the outbox.
        var pendingEntries = 0
        /// Whether the gateway goes on with the search for the rest: the figures are those of the part that is done.
        var isSearching = false
        /// Whether everything was looked at, and nothing is being sent any more that has to be erased.
        var isComplete: Bool { deliveries.inFlight == 0 && !isSearching }
        /// Whether nothing of the user can come up any more: the platforms were told of the removals, too.
        var isFinished: Bool { isComplete && pendingEntries == 0 }
    }

    private static let prefix = "erasing/"
    /// More devices than a user has, so that one read finds all: those that are registered meanwhile stay.
    private static let devicesAtOnce = 1_000

    let store: any NotificationStore & TraceStore
    let devices: any DeviceStore & OutboxStore
    let outbox: Date?
    let time: any TimeSource
    /// The app of each configured backend, by its name.
    let apps: [String: AppName]

    /// The hashes of users whose erasure is not finished (``Report/isFinished``).
    static func unfinished(in store: any TraceStore) async throws(StoreError) -> [String] {
        try await store.stateNames(beginningWith: prefix).map { String($0.dropFirst(prefix.count)) }
    }

    /// Goes on with an erasure that was begun; returns whether it is finished, nil when none is on record.
    func resume(hash: String) async throws(StoreError) -> Bool? {
        guard let (traces, isComplete) = try await begun(hash) else { return nil }
        return isComplete ? try await finish(traces, hash) : try await run(traces, hash).isFinished
    }

    /// Removes a user's devices and puts the erasure on record under a hash, from where ``resume(hash:)`` can do the rest.
    ///
    /// The first record is written before the first device is removed. Repeating it does no harm. Returns the traces to search for, and the counts so far.
    func begin(_ user: String, hash: String) async throws(StoreError) -> (UserTraces, Report) {
        var traces = try await begun(hash)?.traces ?? UserTraces(user: user)
        var report = Report()
        traces.end = nil
        try await removeDevices(&traces, hash, &report)
        return (traces, report)
    }

    /// Erases what was begun.
    ///
    /// - Parameters:
    ///   - begun: What to search for.
    ///   - hash: The name under which the erasure is kept until it is finished.
    ///   - done: What is done already.
    ///   - progress: Gets what is done so far, after each part.
    /// - Returns: What was done.
    /// - Throws: When the store fails or the task is cancelled; what was done before stays so.
    func run(
        _ begun: UserTraces,
        _ hash: String,
        _ done: Report = Report(),
        progress: (Report) -> Void = { _ in }
    ) async throws(StoreError) -> Report {
        var report = done
        var traces = begun
        if traces.end == nil { try await removeDevices(&traces, hash, &report) }
        progress(report)
        let known = traces
        let clock = time
        try await store.eraseDeliveries(of: known) { claim, state in
            EventRedaction.cancelled(claim, as: state, at: clock.now)
        } state: { removed in
            var traces = known
            traces.notifications.formUnion(removed)
            return (Self.prefix + hash, Self.stored(traces))
        } progress: { (part) async throws(StoreError) in
            report.deliveries += part
            progress(report)
        }
        traces.notifications.formUnion(report.deliveries.notifications)
        (report.pendingEntries, report.events) = try await redactEvents(of: traces)
        // What is being sent ends with an attempt that names the recipient: it is found by what is kept here.
        if report.isComplete {
            if report.isFinished {
                try await store.saveState(Self.prefix + hash, nil)
            } else {
                try await store.saveState(Self.prefix + hash, Self.stored(traces, isComplete: true))
            }
            try await store.clearRemoved()
        }
        return report
    }

    /// Takes the user out of the events of the calls that told platforms of the removals, once these are over; returns whether they are.
    private func finish(_ traces: UserTraces, _ hash: String) async throws(StoreError) -> Bool {
        guard try await pendingEntries(of: traces.devices) == 0 else { return false }
        _ = try await redactEvents(of: traces)
        try await store.saveState(Self.prefix + hash, nil)
        return true
    }

    /// Takes the user out of events: those before the end of the traces, and once the platforms were told of the removals, also those of
    /// that; returns how many entries wait to be told, and how many events were changed.
    ///
    /// A device that somebody has registered again meanwhile is theirs: its later events stay.
    private func redactEvents(of traces: UserTraces) async throws(StoreError) -> (pending: Int, events: Int) {
        let pending = try await pendingEntries(of: traces.devices)
        var redaction = EventRedaction(traces, apps)
        if pending == 0 {
            let back = try await devices.devices(traces.devices.sorted())
            redaction.removedDevices = traces.devices.subtracting(back.keys)
            redaction.isUserGone = try await devices.devices(ofUsers: [traces.user], limit: 1).isEmpty
        }
        let ready = redaction
        return (pending, try await store.redactEvents { ready.redacted($1, number: $0) })
    }

    /// How many changes of the devices wait until platforms were told of them.
    private func pendingEntries(of ids: Set<String>) async throws(StoreError) -> Int {
        var count = 0
        for device in ids {
            count += try await devices.unplannedCount(ofDevice: device)
            count += try await devices.entries(ofDevice: device, limit: 1_000).count
        }
        return count
    }

    /// Removes the user's devices; what is accepted or registered after that stays.
    private func removeDevices(
        _ traces: inout UserTraces,
        _ hash: String,
        _ report: inout Report
    ) async throws(StoreError) {
        var page: [Device] = []
        repeat {
            page = try await devices.devices(ofUsers: [traces.user], limit: Self.devicesAtOnce)
            for device in page { traces.add(device) }
            // First what is needed to go on, then what it leads to.
            if !page.isEmpty { try await keep(traces, hash) }
            for device in page where try await devices.delete(device.id, outbox: outbox) {
                report.devices += 1
                report.tokens += device.tokens.count
            }
        } while page.count == Self.devicesAtOnce
        traces.end = try await store.tracesEnd()
        try await keep(traces, hash)
    }

    /// What is kept of an erasure that was begun, and whether it waits for nothing but platforms.
    private func begun(_ hash: String) async throws(StoreError) -> (traces: UserTraces, isComplete: Bool)? {
        guard let bytes = try await store.loadState(Self.prefix + hash), let json = try? JSONValue(parsing: bytes),
            let user = json["user"]?.stringValue
        else { return nil }
        func texts(_ name: String) -> Set<String> { Set((json[name]?.arrayValue ?? []).compactMap(\.stringValue)) }
        var traces = UserTraces(user: user)
        traces.devices = texts("devices")
        traces.recipients.formUnion(texts("recipients"))
        traces.notifications = Set((json["notifications"]?.arrayValue ?? []).compactMap(\.integerValue))
        if let delivery = json["last_delivery"]?.integerValue, let event = json["last_event"]?.integerValue {
            traces.end = UserTraces.End(delivery: delivery, event: event)
        }
        return (traces, json["complete"]?.boolValue ?? false)
    }

    private func keep(_ traces: UserTraces, _ hash: String) async throws(StoreError) {
        try await store.saveState(Self.prefix + hash, Self.stored(traces))
    }

    private static func stored(_ traces: UserTraces, isComplete: Bool = false) -> [UInt8] {
        var value: JSONObject = [:]
        value["user"] = .string(traces.user)
        value["devices"] = .array(traces.devices.sorted().map { .string($0) })
        value["recipients"] = .array(traces.recipients.sorted().map { .string($0) })
        value["notifications"] = .array(traces.notifications.sorted().map { .integer($0) })
        if let end = traces.end {
            value["last_delivery"] = .integer(end.delivery)
            value["last_event"] = .integer(end.event)
        }
        if isComplete { value["complete"] = .bool(true) }
        return JSONValue.object(value).bytes
    }
}

/// Takes out of stored events who they were about; their numbers, types, times and counts stay.
struct EventRedaction: Sendable {
    /// What an event keeps: nothing of it distinguishes one user from another.
    private static let kept = [
        "type", "at", "notification", "delivery", "backend", "state", "reason", "kind", "recipients", "caller",
    ]

    private let traces: UserTraces
    private let notifications: Set<String>
    private let app: AppName
    /// The backends that are configured for other apps, which may have users and devices of the same names.
    private let foreign: Set<String>
    /// Devices whose events are redacted behind the end of the traces too, where they are about telling platforms of the removal.
    var removedDevices: Set<String> = []
    /// Whether what backends announce about the user is redacted behind the end of the traces too.
    var isUserGone = false

    /// Makes a redaction of what there was before the end of the traces; `apps` has the app of each configured backend, by its name.
    init(_ traces: UserTraces, _ apps: [String: AppName]) {
        self.traces = traces
        notifications = Set(traces.notifications.map { NotificationID(rawValue: $0).description })
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
            return isNotice(object, of: removedDevices, isUserGone ? traces.user : nil)
        }
        return object["device"]?.stringValue.map(removedDevices.contains) ?? false
    }

    /// Whether an event is what a backend announced about one of the devices or the user, at any place of its detail.
    ///
    /// Backends and their platforms know the names that these have within their app.
    private func isNotice(_ object: JSONObject, of devices: Set<String>, _ user: String?) -> Bool {
        guard object["type"] == "backend.notice", let backend = object["backend"]?.stringValue,
            !foreign.contains(backend)
        else { return false }
        func isNamed(_ text: String) -> Bool {
            devices.contains(text) || devices.contains(app.key(text)) || user.map { text == app.name($0) } ?? false
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

    /// Whether an event is about what there was before the end of the traces: a delivery that was being sent then ends later.
    private func isOlder(_ number: Int64, _ object: JSONObject) -> Bool {
        guard let end = traces.end, number > end.event else { return true }
        guard let id = object["notification"]?.stringValue.flatMap({ NotificationID($0) }) else { return false }
        return id.rawValue <= end.delivery
    }

    private func concerns(_ object: JSONObject) -> Bool {
        func holds(_ name: String, in values: Set<String>) -> Bool {
            object[name]?.stringValue.map(values.contains) ?? false
        }
        return holds("recipient", in: traces.recipients) || holds("device", in: traces.devices)
            || object["user"]?.stringValue == traces.user || holds("notification", in: notifications)
            || isNotice(object, of: traces.devices, traces.user)
    }

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
