import Foundation
import NIOCore
import NIOHTTP1
import PushCore
import PushComposition

/// What the world knows of its messages, and what must be true of them.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class Book: @unchecked Sendable {
    /// A notification that a client asked for.
    struct Message {
        let serial: Int
        let body: String
        let recipients: Int
        /// The device that it is for; nil for tokens.
        let device: String?
        let timeToLive: Int
        let plan: DeliveryPlan
        let isUrgent: Bool
        let isScheduled: Bool
        let key: String?
        /// The number that the gateway gave it; nil until it answered.
        var id: String?
        /// When it expires at the latest, by the store's steady clock.
        var expires: Date?
        var acceptedAt: Int64 = 0
        /// When its cancellation was answered, and how many were still on the way.
        var cancelled: (at: Int64, inFlight: Int)?
        var isAskedToCancel = false
        /// Its final states, from the stream of events: by the delivery's place.
        var ended: [Int: String] = [:]
        /// When the next attempt was due, by the store's steady clock, for deliveries that wait for one.
        var due: [Int: Date] = [:]
        var isAnnounced = false

        /// Whether it has ended, or was never accepted.
        var isSettled: Bool { id == nil || ended.count == recipients }

        /// A delivery in the books of the platforms.
        func key(_ place: Int) -> String { "\(serial)/\(device ?? "r\(place)")" }
    }

    /// What must have been reached in a set of runs, else they look at too little.
    enum Sometimes: String, CaseIterable {
        case diedWhileWriting
        case cancelledWhileClaimed
        case repeatedRequest
        case refusedWhileFull
        case expired
        case unknown
        case failed
        case fellBack
        case urgentAtOnce
        case staleOwnerRefused
    }

    /// What goes wrong in a run.
    enum Fault: String, CaseIterable {
        case crash, powerLoss, hanging, flapping, lateAnswer, repeatedAnswer, clockJump, reload, idleReader, burst,
            cancel, diskTrouble, restart, brownout, cut
    }

    private let trace: Trace
    private(set) var messages: [Message] = []
    private var serials: [String: Int] = [:]
    private(set) var failure: String?
    private(set) var reached: Set<Sometimes> = []
    // The auditor, a client that reads every event.
    private var stream: Connection?
    private var lastEvent: Int64 = 0
    private var pending: [UInt8] = []

    init(_ trace: Trace) { self.trace = trace }

    var hasFailed: Bool { failure != nil }

    func fail(_ text: String) {
        guard failure == nil else { return }
        failure = text
        trace.note("FAILED: \(text)")
    }

    /// How often each kind of fault has happened.
    private(set) var faults: [Fault: Int] = [:]

    func count(_ fault: Fault) { faults[fault, default: 0] += 1 }

    func reach(_ state: Sometimes) { reached.insert(state) }

    /// Deliveries that may have been claimed when everything stopped: they were due, as far as the events told.
    private var interrupted: Set<String> = []

    /// The gateway died or ended, and what was open then was cut off; `steady` is the store's time.
    func stopped(steady: Date?) {
        settleUnanswered()
        for message in messages {
            for place in 0..<message.recipients where message.ended[place] == nil {
                if let due = message.due[place], let steady, due > steady.addingTimeInterval(0.5) { continue }
                interrupted.insert(message.key(place))
            }
        }
        stream = nil
        pending = []
    }

    /// The auditor's connection breaks.
    func cutStream() { stream?.close() }

    private func settleUnanswered() {
        for (device, versions) in unanswered { devices[device, default: [nil]] += versions }
        unanswered = [:]
    }

    // MARK: Posts

    func add(_ make: (Int) -> Message) -> Int {
        messages.append(make(messages.count))
        return messages.count - 1
    }

    func accepted(_ serial: Int, _ id: String, _ world: World) {
        if let before = messages[serial].id {
            reach(.repeatedRequest)
            if before != id { fail("message \(serial) was accepted twice, as \(before) and \(id)") }
            return
        }
        messages[serial].id = id
        messages[serial].acceptedAt = world.scheduler.now
        // A scheduled one follows the wall clock, whatever becomes of that.
        messages[serial].expires =
            messages[serial].isScheduled ? nil : world.steady?.addingTimeInterval(Double(messages[serial].timeToLive))
        if let other = serials.updateValue(serial, forKey: id), other != serial {
            fail("\(id) stands for the messages \(other) and \(serial)")
        }
    }

    func cancelled(_ serial: Int, inFlight: Int, _ world: World) {
        messages[serial].cancelled = (world.scheduler.now, inFlight)
        if inFlight > 0 { reach(.cancelledWhileClaimed) }
    }

    func askToCancel(_ serial: Int) { messages[serial].isAskedToCancel = true }

    /// Whether every accepted message has ended, as far as the events tell.
    var isSettled: Bool {
        messages.allSatisfy { $0.isSettled }
    }

    /// Notifications of nobody's, whose events tell nothing.
    private var ignored: Set<String> = []
    func ignore(_ id: String) { ignored.insert(id) }

    // MARK: Devices

    /// What a device is by what was answered last, and what it was after earlier lives; nil is removed.
    private var devices: [String: [String?]] = [:]
    /// Changes of this life whose clients went away: they may still be made.
    private var unanswered: [String: [String?]] = [:]
    private var changing: Set<String> = []
    private var areDevicesKnown = true

    /// Whether a device may be changed now: one request at a time, so that their order is known.
    func begin(_ device: String) -> Bool { changing.insert(device).inserted }

    func changed(_ device: String, to version: String?, status: Int?) {
        changing.remove(device)
        switch status {
        case nil: unanswered[device, default: []].append(version)
        case (200..<300)?, 404?: devices[device] = [version]
        default: break  // Refused: nothing has changed.
        }
    }

    /// A platform that is not configured learns nothing of what happens meanwhile.
    func forgetDevices() { areDevicesKnown = false }

    /// Whether the platform knows of every device what it should.
    func areDevicesTold(_ platform: SimulatedPlatform) -> Bool { pendingEntries(platform) == nil }

    private func pendingEntries(_ platform: SimulatedPlatform) -> String? {
        guard areDevicesKnown else { return nil }
        for (device, versions) in devices.sorted(by: { $0.key < $1.key }) {
            let known = platform.devices[device] ?? nil
            let versions = versions + (unanswered[device] ?? [])
            if !versions.contains(known) {
                return "\(platform.name) has \(device) as \(known ?? "none") instead of \(versions)"
            }
        }
        return nil
    }

    // MARK: Events

    /// Keeps the auditor's stream open.
    func follow(_ world: World) {
        guard stream == nil, world.life?.gateway != nil, world.life?.stopped == nil else { return }
        pending = []
        stream = world.listen(after: lastEvent) { part in
            switch part {
            case .head(let head):
                if head.status == .serviceUnavailable, world.life?.stopped != nil { return }
                if head.status != .ok { self.fail("the stream of events is answered with \(head.status)") }
            case .body(let buffer): self.take(Array(buffer.readableBytesView))
            case .end: self.stream = nil
            }
        } onEnd: {
            self.stream = nil
        }
    }

    private func take(_ bytes: [UInt8]) {
        pending += bytes
        while let end = endOfFrame {
            let frame = String(decoding: pending[..<end], as: UTF8.self)
            pending.removeSubrange(..<(end + 2))
            read(frame)
        }
    }

    private var endOfFrame: Int? {
        pending.withUnsafeBufferPointer { bytes in
            var place = 0
            while place + 1 < bytes.count {
                if bytes[place] == 10, bytes[place + 1] == 10 { return place }
                place += 1
            }
            return nil
        }
    }

    private func read(_ frame: String) {
        var number: Int64?
        var data = ""
        var type = ""
        for line in frame.split(separator: "\n") {
            if line.hasPrefix("id: ") { number = Int64(line.dropFirst(4)) }
            if line.hasPrefix("data: ") { data = String(line.dropFirst(6)) }
            if line.hasPrefix("event: ") { type = String(line.dropFirst(7)) }
        }
        guard let number, !data.isEmpty else { return }
        if type.hasSuffix("gap") { return fail("events are missing: \(frame)") }
        if number != lastEvent + 1 { fail("event \(number) follows event \(lastEvent)") }
        lastEvent = max(lastEvent, number)
        // Operations have random numbers of Foundation's, which the simulation does not draw.
        trace.note("event \(number) \(type.hasPrefix("operation.") ? type : data)")
        guard let event = try? JSONValue(parsing: Array(data.utf8)) else {
            return fail("event \(number) is not JSON: \(data)")
        }
        judge(event, type)
    }

    private func judge(_ event: JSONValue, _ type: String) {
        // The number of one that nobody was answered about may be given again after a crash.
        if type == "notification.accepted", let id = event["notification"]?.stringValue { ignored.remove(id) }
        if type == "notification.accepted", let title = event["title"]?.stringValue, let serial = Int(title) {
            if messages[serial].isAnnounced { fail("message \(serial) is announced twice") }
            messages[serial].isAnnounced = true
            // A client may never have learned it.
            if messages[serial].id == nil, let id = event["notification"]?.stringValue {
                messages[serial].id = id
                serials[id] = serial
            }
            return
        }
        guard type.hasPrefix("delivery."), let id = event["notification"]?.stringValue, !ignored.contains(id) else {
            return
        }
        guard let serial = serials[id] else { return fail("an event of \(id) comes before it is announced") }
        if event["state"]?.stringValue == nil { return }
        let state = String(type.dropFirst(9))
        let place = Int(event["delivery"]?.integerValue ?? -1)
        if event["attempt"]?["reason"]?.stringValue == "gateway_restarted" {
            restarted.insert(messages[serial].key(place))
        }
        if let at = event["attempt"]?["steady_at"]?.stringValue.flatMap({ RFC3339.parse($0) }),
            let wait = event["attempt"]?["retry_after"]?.numberValue
        {
            messages[serial].due[place] = at.addingTimeInterval(wait)
        }
        guard DeliveryState(rawValue: state)?.isFinal ?? false else { return }
        if let before = messages[serial].ended.updateValue(state, forKey: place) {
            fail("delivery \(place) of message \(serial) ends twice: \(before), then \(state)")
        }
        switch state {
        case "expired": reach(.expired)
        case "unknown": reach(.unknown)
        case "failed": reach(.failed)
        default: break
        }
    }

    // MARK: At the end

    /// What must be true when all has ended.
    func judge(_ world: World) {
        if let pendingEntries = pendingEntries(world.platforms[2]) { return fail(pendingEntries) }
        for message in messages where message.id != nil {
            if message.ended.count != message.recipients {
                let open = (0..<message.recipients).filter { message.ended[$0] == nil }
                return fail("message \(message.serial) (\(message.id ?? "")) has not ended: deliveries \(open)")
            }
            for place in 0..<message.recipients { judge(message, place, world) }
        }
    }

    /// Deliveries that a gateway has found without an answer when it started.
    private var restarted: Set<String> = []

    /// Whether an end of the gateway may have left open what became of a delivery.
    private func wasInterrupted(_ key: String, _ world: World) -> Bool {
        interrupted.contains(key) || world.platforms.contains { $0.interrupted.contains(key) }
    }

    /// An urgent message does not wait for others, where nothing else keeps it.
    private func judgeHaste(_ message: Message, _ key: String, _ offered: [Int64], _ world: World) {
        guard message.isUrgent, !message.isScheduled, message.cancelled == nil, let first = offered.min(),
            message.acceptedAt > 0,
            let platform = world.platforms.first(where: { $0.name == message.plan.backends[0] }),
            platform.healthySince < message.acceptedAt - 120_000_000_000,
            !disturbances.contains(where: { $0 > message.acceptedAt - 60_000_000_000 && $0 < first })
        else { return }
        reach(.urgentAtOnce)
        let before = platform.log.drop { $0.at <= message.acceptedAt }.prefix { $0.at < first }
            .count { !(Int($0.key.prefix { $0 != "/" }).map { messages[$0].isUrgent } ?? true) }
        // What is claimed already goes first, and what normal messages are sure of.
        if before > 3 * world.conditions.window + 16 { fail("\(key) is urgent, and \(before) others went before it") }
        // With a rate of 20 a second an urgent one may wait for other urgent ones.
        let ahead = platform.log.drop { $0.at <= message.acceptedAt }.prefix { $0.at < first }.count
        let wait = first - message.acceptedAt
        if wait > 5_000_000_000 + 100_000_000 * Int64(ahead) {
            fail("\(key) is urgent, and waited for \(wait / 1_000_000) ms behind \(ahead) others")
        }
    }

    /// Nothing expires while its platform is well, and had nothing to do for a second of its time.
    private func judgeExpiry(_ message: Message, _ key: String, _ world: World) {
        let end = message.acceptedAt + Int64(message.timeToLive) * 1_000_000_000
        let platforms = world.platforms.filter { message.plan.backends.contains($0.name) }
        guard !message.isScheduled, message.acceptedAt > 0, !platforms.isEmpty,
            platforms.allSatisfy({ $0.healthySince < message.acceptedAt - 120_000_000_000 }),
            !disturbances.contains(where: { $0 > message.acceptedAt - 60_000_000_000 && $0 < end })
        else { return }
        for platform in platforms {
            var last = message.acceptedAt
            for offer in platform.log.drop(while: { $0.at <= message.acceptedAt }).prefix(while: { $0.at < end }) {
                guard offer.at - last < 1_000_000_000 else { break }
                last = offer.at
            }
            guard end - last > 1_000_000_000 else { return }
        }
        fail("\(key) expired, and \(platforms.map(\.name)) could have taken it")
    }

    /// A message that a platform may have is not reported as one that did not arrive.
    private func judgeDoubt(_ message: Message, _ key: String, _ state: String, _ world: World) {
        let holders = world.platforms.filter { $0.taken[key] != nil }
        guard !holders.isEmpty, state == "failed" || state == "expired" else { return }
        // The refusal of a platform covers its own earlier silence.
        let last = world.platforms.max { ($0.offered[key]?.last ?? 0) < ($1.offered[key]?.last ?? 0) }
        if state == "failed", holders.allSatisfy({ $0 === last }) { return }
        fail("\(key) counts as \(state), and \(holders.map(\.name)) has it")
    }

    private func offeredNowhere(_ key: String, _ world: World) -> Bool {
        world.platforms.allSatisfy { $0.offered[key] == nil }
    }

    /// When something happened that may hold up any message: a crash, a shutdown, a reload, trouble of the disk.
    private var disturbances: [Int64] = []
    func disturb(_ now: Int64) { disturbances.append(now) }

    private func judge(_ message: Message, _ place: Int, _ world: World) {
        let key = message.key(place)
        let state = message.ended[place] ?? "?"
        let taken = world.platforms.flatMap { $0.taken[key] ?? [] }
        let isDoubtful = world.platforms.contains { $0.doubtful.contains(key) }
        if Set(world.platforms.filter { $0.taken[key] != nil }.map(\.name)).count > 1 { reach(.fellBack) }
        if state == "accepted_by_platform", taken.isEmpty {
            fail("\(key) counts as accepted, and no platform has it")
        }
        // Beta says of what it does not answer that a repetition does harm.
        let allowsOnce =
            message.plan.onUnknown == .stop || message.plan.onUnknown == nil && message.plan.backends == ["beta"]
        if allowsOnce, taken.count > 1 { fail("\(key) was sent \(taken.count) times, and may be sent once") }
        if restarted.contains(key), !wasInterrupted(key, world) {
            fail("\(key) counts as sent before a start, and waited then")
        }
        judgeDoubt(message, key, state, world)
        if state == "expired", offeredNowhere(key, world) { judgeExpiry(message, key, world) }
        if state == "unknown", !isDoubtful, !wasInterrupted(key, world) {
            fail("\(key) is unknown without a cause")
        }
        if state == "failed" || state == "expired" || state == "cancelled", !taken.isEmpty, !isDoubtful,
            world.lives == 1
        {
            fail("\(key) counts as \(state), and \(world.platforms.filter { $0.taken[key] != nil }.map(\.name)) has it")
        }
        if let expires = message.expires, let late = taken.first(where: { $0 > expires.addingTimeInterval(10) }) {
            fail("\(key) was sent \(late.timeIntervalSince(expires)) s after it expired")
        }
        let offered = world.platforms.flatMap { $0.offered[key] ?? [] }
        if let cancelled = message.cancelled,
            offered.contains(where: { $0 > cancelled.at + (cancelled.inFlight > 0 ? 5_000_000_000 : 0) })
        {
            fail("\(key) was tried after its cancellation was answered")
        }
        judgeHaste(message, key, offered, world)
    }
}
