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
        /// Whether nothing is left to do but for what is being sent.
        var isComplete: Bool { deliveries.inFlight == 0 }
    }

    private static let prefix = "erasing/"
    /// More devices than a user has, so that one read finds all: those that are registered meanwhile stay.
    private static let devicesAtOnce = 1_000

    let store: any NotificationStore & TraceStore
    let devices: any DeviceStore & OutboxStore
    let outbox: Date?
    let time: any TimeSource

    /// The hashes of users of whom something was being sent when they were erased.
    static func unfinished(in store: any TraceStore) async throws(StoreError) -> [String] {
        try await store.stateNames(beginningWith: prefix).map { String($0.dropFirst(prefix.count)) }
    }

    /// Goes on with an erasure that was begun; returns whether it is complete.
    func resume(hash: String) async throws(StoreError) -> Bool {
        guard let traces = try await begun(hash) else { return true }
        return try await run(traces, hash).isComplete
    }

    /// Erases a user; repeating it does no harm, and erases what has come up since.
    func run(_ user: String, hash: String) async throws(StoreError) -> Report {
        var traces = try await begun(hash) ?? UserTraces(user: user)
        traces.end = nil
        return try await run(traces, hash)
    }

    private func run(_ begun: UserTraces, _ hash: String) async throws(StoreError) -> Report {
        var report = Report()
        var traces = begun
        if traces.end == nil {
            try await removeDevices(&traces, hash, &report)
            traces.end = try await store.tracesEnd()
            try await keep(traces, hash)
        }
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
        }
        traces.notifications.formUnion(report.deliveries.notifications)
        let redaction = EventRedaction(traces)
        report.events = try await store.redactEvents { redaction.redacted($1, number: $0) }
        for device in known.devices {
            report.pendingEntries += try await devices.unplannedCount(ofDevice: device)
            report.pendingEntries += try await devices.entries(ofDevice: device, limit: 1_000).count
        }
        // What is being sent ends with an attempt that names the recipient: it is found by what is kept here.
        if report.isComplete {
            try await store.saveState(Self.prefix + hash, nil)
            try await store.clearRemoved()
        }
        return report
    }

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
    }

    private func begun(_ hash: String) async throws(StoreError) -> UserTraces? {
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
        return traces
    }

    private func keep(_ traces: UserTraces, _ hash: String) async throws(StoreError) {
        try await store.saveState(Self.prefix + hash, Self.stored(traces))
    }

    private static func stored(_ traces: UserTraces) -> [UInt8] {
        var value: JSONObject = [:]
        value["user"] = .string(traces.user)
        value["devices"] = .array(traces.devices.sorted().map { .string($0) })
        value["recipients"] = .array(traces.recipients.sorted().map { .string($0) })
        value["notifications"] = .array(traces.notifications.sorted().map { .integer($0) })
        if let end = traces.end {
            value["last_delivery"] = .integer(end.delivery)
            value["last_event"] = .integer(end.event)
        }
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

    init(_ traces: UserTraces) {
        self.traces = traces
        notifications = Set(traces.notifications.map { NotificationID(rawValue: $0).description })
    }

    /// The event without what it says of the user; nil when it says nothing of the user.
    func redacted(_ event: [UInt8], number: Int64) -> [UInt8]? {
        guard let json = try? JSONValue(parsing: event), let object = json.objectValue,
            object["erased"] == nil, concerns(object), isOlder(number, object)
        else { return nil }
        return Self.stripped(object)
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
