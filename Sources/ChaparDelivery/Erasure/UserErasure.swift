internal import Foundation
internal import Logging
internal import ChaparCore
package import ChaparQueue

/// The removal of the data that the gateway keeps of one user: devices, tokens, deliveries, events.
///
/// The user may stay active: what is registered or accepted after the devices were removed is kept
/// (``ChaparQueue/UserTraces/end``).
///
/// Each call has its own record until it is done. With it ``UserErasures`` continues the call where it stopped,
/// although the user's devices, by which the other data are found, are gone by then. A later call does not change the
/// record.
package struct UserErasure: Sendable {
    /// The counts of one call.
    package struct Report: Sendable {
        package var devices = 0
        package var tokens = 0
        package var deliveries = ErasedDeliveries()
        package var events = 0
        /// The number of changes of each removed device that wait in the outbox; devices without any are missing.
        var pending: [String: Int] = [:]
        /// Whether the gateway still searches for the rest: the counts cover the part that is done.
        package var isSearching = false
        /// The number of changes of the user's devices that wait in the outbox.
        package var pendingEntries: Int { pending.values.reduce(0, +) }
        /// Whether everything was searched, and no delivery that must be erased is being sent.
        package var isComplete: Bool { deliveries.inFlight == 0 && !isSearching }
        /// Whether nothing of the user can reappear: platforms have received the removals, too.
        var isFinished: Bool { isComplete && pendingEntries == 0 }
    }

    /// The next step of a call; the names are stored.
    enum Phase: String {
        /// The user's devices are removed.
        case removing
        /// Deliveries and events are searched, until no delivery that must be erased is being sent.
        case searching
        /// Free space on disk is cleared; platforms have not received all removals.
        case clearing
        /// Events about sending the removals to platforms are redacted, once that is done.
        case telling
        /// Free space on disk is cleared, and the record is removed. It holds nothing of the user any more.
        case ending
    }

    /// The record of one call.
    struct Call: Sendable {
        let name: String
        var traces: UserTraces
        var phase = Phase.removing
    }

    /// The prefix of the names of records; the hash, a slash and an id of the call follow.
    private static let prefix = "erasures/"
    /// The prefix of the names of records that an earlier version wrote; the hash follows.
    private static let earlierPrefix = "erasing/"
    /// The number of devices in one read: more than any user has, so that one read finds all of them.
    ///
    /// Devices that are registered during the erasure are kept.
    private static let devicesAtOnce = 1_000

    let store: any TraceStore
    let devices: any DeviceStore & OutboxStore
    /// The store's audiences, from which the user's tags, lists and segments go; nil when the store has none.
    let audiences: (any AudienceStore)?
    let outbox: Date?
    let time: any TimeSource
    /// The app of each configured backend, by its name.
    let apps: [String: AppName]

    /// Returns the hashes of users with a call on record.
    static func unfinished(in store: any TraceStore) async throws(StoreError) -> Set<String> {
        let earlier = try await store.stateNames(beginningWith: earlierPrefix)
        let names = try await store.stateNames(beginningWith: prefix)
        return Set(earlier.map { String($0.dropFirst(earlierPrefix.count)) })
            .union(names.map { String($0.dropFirst(prefix.count).prefix(while: { $0 != "/" })) })
    }

    /// Returns the names of the records for a hash.
    func records(of hash: String) async throws(StoreError) -> [String] {
        let earlier = try await store.stateNames(beginningWith: Self.earlierPrefix + hash)
        let names = try await store.stateNames(beginningWith: "\(Self.prefix)\(hash)/")
        return earlier + names
    }

    /// Removes a user's devices and puts a call on record, for ``run(_:_:progress:)``; returns the counts so far.
    ///
    /// The record is written before the first device is removed. It does not include devices of earlier calls, since
    /// these may belong to another user by now.
    func begin(_ user: String, hash: String) async throws(StoreError) -> Report {
        var call = Call(name: "\(Self.prefix)\(hash)/\(MessageID.random())", traces: UserTraces(user: user))
        var report = Report()
        try await removeDevices(of: &call, &report)
        call.phase = .searching
        try await keep(call)
        return report
    }

    /// Carries out recorded calls, one after the other.
    ///
    /// Only one task at a time may do so for a hash.
    ///
    /// - Parameters:
    ///   - calls: The recorded calls (``calls(_:)``).
    ///   - done: The counts so far.
    ///   - progress: Receives the counts after each part.
    /// - Returns: The counts. A delivery that several calls found being sent counts for each of them.
    /// - Throws: The store's failure, or the cancellation of the task; finished work and the records stay.
    func run(
        _ calls: [Call],
        _ done: Report = Report(),
        progress: (Report) -> Void = { _ in }
    ) async throws(StoreError) -> Report {
        var report = done
        for call in calls { report = try await run(call, report, progress) }
        return report
    }

    /// Continues a call until it is finished, or has to wait for deliveries or platforms.
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
                // A delivery being sent ends with an attempt that names the recipient; the kept record is needed to
                // find it.
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

    /// Removes the user from events before the end of the traces; returns whether platforms have received the removals
    /// of the devices.
    ///
    /// If they have, the events about these removals are redacted as well. A device that was registered again in the
    /// meantime belongs to its new user, so its later events are kept.
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

    /// Counts the changes of a call's devices that platforms have not received, also in the report.
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

    /// Removes the user's devices; devices and notifications that come after that stay.
    private func removeDevices(of call: inout Call, _ report: inout Report) async throws(StoreError) {
        // Saved with the first record: an interrupted call may continue much later.
        if call.traces.end == nil { call.traces.end = try await store.tracesEnd() }
        var page: [Device] = []
        repeat {
            page = try await devices.devices(ofUsers: [call.traces.user], limit: Self.devicesAtOnce)
            for device in page { call.traces.add(device) }
            // The record is saved before the devices that lead to the rest are removed.
            if !page.isEmpty { try await keep(call) }
            for device in page where try await devices.delete(device.id, outbox: outbox) {
                report.devices += 1
                report.tokens += device.tokens.count
            }
        } while page.count == Self.devicesAtOnce
        if let audiences {
            let labels = try await audiences.labels(ofUser: call.traces.user)
            if !labels.isEmpty {
                _ = try await audiences.relabel([LabelChange(.user(call.traces.user), removed: labels)])
            }
        }
        // A device that exists now was registered since; its later data is not part of the erasure.
        if try await devices.devices(call.traces.devices.sorted()).isEmpty {
            call.traces.end = try await store.tracesEnd()
        }
    }

    /// Returns the recorded calls of a hash; none of them may be in ``begin(_:hash:)`` at the moment.
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
            // An earlier version has no phases, and did not clear the space after some calls that it marks complete.
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

/// The removal of a user from stored events; their numbers, types, times and counts stay.
///
/// Names are compared byte for byte, as in the store: another user's name may differ only in its Unicode form.
struct EventRedaction: Sendable {
    /// The members that an event keeps: none of them distinguishes one user from another.
    private static let kept = [
        "type", "at", "notification", "delivery", "backend", "state", "reason", "kind", "recipients", "caller",
    ]

    private let traces: UserTraces
    private let user: ExactText
    private let devices: Set<ExactText>
    private let recipients: Set<ExactText>
    private let notifications: Set<ExactText>
    private let app: AppName
    /// The backends of other apps, which may have users and devices with the same names.
    private let foreign: Set<String>
    /// The removed devices whose events after the end of the traces are redacted too, if they are about sending the
    /// removal to platforms.
    var removedDevices: Set<ExactText> = []
    /// Whether notices of backends about the user are redacted after the end of the traces too.
    var isUserGone = false

    /// Makes a redaction of events before the end of the traces; `apps` has the app of each configured backend, by its
    /// name.
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

    /// Returns the event without the user's data; nil when it has none.
    func redacted(_ event: [UInt8], number: Int64) -> [UInt8]? {
        guard let json = try? JSONValue(parsing: event), let object = json.objectValue, object["erased"] == nil,
            concerns(object) && isOlder(number, object) || concernsRemoval(object)
        else { return nil }
        return Self.stripped(object)
    }

    /// Whether an event is about a call that sent a removal to a platform, or a notice of a backend since then.
    private func concernsRemoval(_ object: JSONObject) -> Bool {
        guard let type = object["type"]?.stringValue, type.hasPrefix("operation.") else {
            return isNotice(object, of: removedDevices, isUserGone ? user : nil)
        }
        return Self.name(object["device"]).map(removedDevices.contains) ?? false
    }

    /// Whether an event is a backend's notice that has the user or one of the devices anywhere in its detail.
    ///
    /// Backends and their platforms use the ids of users and devices without the app's name.
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

    /// Whether an event is about a delivery from before the end of the traces.
    ///
    /// Such an event may be later than the end, since a delivery that was being sent at the end ends later.
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

    /// Returns the event of a delivery that is cancelled because its user is erased.
    static func cancelled(_ claim: ClaimedDelivery, as state: DeliveryState, at now: Date) -> [UInt8] {
        let event = EventJSON.delivery(claim, state: state, at: now, reason: "user_erased")
        guard let object = (try? JSONValue(parsing: event))?.objectValue else { return event }
        return stripped(object)
    }
}

extension Set<String> {
    /// The same texts, for comparison byte for byte.
    fileprivate var exact: Set<ExactText> { Set<ExactText>(map { ExactText($0) }) }
}
