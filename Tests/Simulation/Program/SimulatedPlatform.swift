import Foundation
import ChaparCore

/// A simulated push platform: it stays over all incarnations of the gateway, accepts messages, and fails as its
/// behavior says.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class SimulatedPlatform: @unchecked Sendable {
    /// How it answers: every fault of the sandbox's simulators, as a plugin sees them.
    enum Behavior: Int, CaseIterable {
        case healthy
        /// Overloaded: refuses everything for now.
        case busy
        /// Asks for a pause of the whole backend.
        case rateLimited
        /// Asks for a pause of one recipient.
        case recipientLimited
        /// Gives no answer for longer than any lease.
        case hanging
        /// Accepts a message, and the answer is lost.
        case losing
        /// Its answer cannot be read; it may have accepted the message.
        case unreadable
        /// Accepts messages and answers after the lease has ended.
        case late
        /// Answers twice.
        case repeating
        /// No connection can be made.
        case unreachable
        /// Refuses the account.
        case parked
        /// Refuses the message.
        case refusing
        /// Reports the token as unregistered.
        case invalidating
        /// Overloaded for every other message, at random.
        case flapping
        /// Answers after seconds.
        case slow
        /// A brown-out: of one batch it accepts some, refuses most and does not answer others.
        case brownout
    }

    let name: String
    private(set) var behavior = Behavior.healthy
    /// When it took each message, by serial number and recipient, and by the store's steady clock.
    private(set) var taken: [String: [Date]] = [:]
    /// When it first refused each message for good.
    private(set) var refused: [String: Int64] = [:]
    /// Messages without an answer in time: `unknown` is an allowed outcome for them.
    private(set) var unresolved: Set<String> = []
    /// When each message was handed over, whatever came of it.
    private(set) var offered: [String: [Int64]] = [:]
    /// Messages that were in flight when the gateway crashed.
    private(set) var interrupted: Set<String> = []
    private var open: Set<String> = []
    /// Messages that are with it now.
    private(set) var underWay = 0
    /// The pause that it has asked for: since when, and until when.
    private(set) var pause: (from: Int64, until: Int64)?
    /// Since when it has been healthy.
    private(set) var healthySince: Int64 = 0
    /// The version of each device by the last synchronisation; nil for one that was removed.
    private(set) var devices: [String: String?] = [:]
    func keep(_ device: String, _ version: String?) {
        devices[device] = .some(version)
        trace.record("\(name) keeps \(device) as \(version ?? "none")")
    }

    /// The tokens that it reported as unregistered.
    private(set) var invalidated: Set<String> = []
    func invalidate(_ key: String) { invalidated.insert(String(key.drop { $0 != "/" }.dropFirst())) }

    /// A violation of what it asked for.
    private(set) var complaint: String?

    private let trace: Trace

    init(_ name: String, _ trace: Trace) {
        self.name = name
        self.trace = trace
    }

    /// Hears of each message that it takes.
    var onTake: ((String) -> Void)?

    func take(_ key: String, steady: Date) {
        trace.record("\(name) takes \(key)")
        taken[key, default: []].append(steady)
        onTake?(key)
    }

    /// Everything that was handed over, in order.
    private(set) var log: [(at: Int64, key: String)] = []

    func offer(_ key: String, at now: Int64) {
        log.append((now, key))
        trace.record("\(name) is offered \(key)")
        offered[key, default: []].append(now)
        open.insert(key)
        if let pause, now > pause.from + 200_000_000, now < pause.until - 50_000_000 {
            complaint =
                "\(name) asked to be left alone for another \((pause.until - now) / 1_000_000) ms, and got \(key)"
        }
    }

    func close(_ key: String) { open.remove(key) }

    /// Whether a message is with it now.
    func holds(_ key: String) -> Bool { open.contains(key) }

    func requestPause(_ seconds: Int, at now: Int64) {
        let until = now + Int64(seconds) * 1_000_000_000
        if until > pause?.until ?? 0 { pause = (now, until) }
    }

    /// The pause need not be kept any longer.
    func forgetPause() { pause = nil }

    /// How often it was told how to behave.
    private(set) var order = 0
    private var metOrders: Set<Int> = []
    /// Hears of the first message that meets what it was told.
    var onMeeting: ((Behavior) -> Void)?

    /// A message has met the behaviour of an order.
    func meet(_ behavior: Behavior, order: Int) {
        if metOrders.insert(order).inserted { onMeeting?(behavior) }
    }

    func set(_ behavior: Behavior, at now: Int64) {
        order += 1
        if behavior != .healthy { healthySince = .max } else if healthySince == .max { healthySince = now }
        self.behavior = behavior
    }

    func leaveUnresolved(_ key: String) { unresolved.insert(key) }
    func refuseForGood(_ key: String, at now: Int64) { refused[key] = refused[key] ?? now }
    func begin(_ count: Int) { underWay += count }
    func end(_ count: Int) { underWay -= count }
    /// The gateway crashed: nothing is in flight any more.
    func forgetUnderWay() {
        underWay = 0
        interrupted.formUnion(open)
        open = []
        pause = nil  // It is persisted once a second only.
    }
}

/// The backend between one incarnation of a gateway and a platform.
struct SimulatedBackend: PushBackend {
    let kind: BackendKind = "simulated"
    let audience: BackendAudience
    let platform: SimulatedPlatform
    let scheduler: Scheduler
    let time: any TimeSource
    /// The steady time of the store, which goes on over restarts.
    let steady: @Sendable () -> Date
    let isHarmful: Bool
    /// Whether devices are synchronised with it.
    let keepsDevices: Bool

    /// Only one platform is listened to, which some messages go to alone and others first.
    var receipts: (any ReceiptReader)? { platform.name == "alpha" ? SimulatedReceipts() : nil }

    var devices: (any DeviceRegistrar)? {
        keepsDevices ? SimulatedRegistrar(platform: platform, scheduler: scheduler, time: time) : nil
    }

    var operationPolicy: RetrySchedule {
        RetrySchedule(delays: [.seconds(1), .seconds(5)], sweep: .seconds(20), maximumAttempts: 10_000, jitter: 0.5)
    }

    func isRepeatHarmful(_ notification: PushNotification) -> Bool { isHarmful }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for request in requests {
            for addressee in request.recipients {
                platform.offer(Self.key(request.notification, addressee.recipient), at: scheduler.now)
            }
        }
        await withDiscardingTaskGroup { group in
            for (row, request) in requests.enumerated() {
                for (index, addressee) in request.recipients.enumerated() {
                    let key = Self.key(request.notification, addressee.recipient)
                    group.addTask { await offer(key, row, index, report) }
                }
            }
        }
    }

    /// A message in the world's books: its serial number and its recipient.
    static func key(_ notification: PushNotification, _ recipient: Recipient) -> String {
        var serial = "?"
        if case .plain(let text) = notification.title { serial = text }
        guard case .token(let token) = recipient else { return "\(serial)/\(recipient.storedForm)" }
        return "\(serial)/\(token.value)"
    }

    private func offer(
        _ key: String,
        _ row: Int,
        _ index: Int,
        _ report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        defer { platform.close(key) }
        let (ordered, order) = (platform.behavior, platform.order)
        let behavior: SimulatedPlatform.Behavior =
            switch ordered {
            case .flapping: scheduler.chance(500) ? .busy : .healthy
            case .brownout: [.busy, .busy, .busy, .healthy, .hanging][scheduler.draw(below: 5)]
            case let other: other
            }
        // A late or repeated answer is met when it comes.
        let isMetLater = ordered == .late || ordered == .repeating
        if behavior != .healthy, !isMetLater { platform.meet(ordered, order: order) }
        // Of what the gateway gives up on, it cannot know when the platform does.
        let isCounted = behavior != .late && behavior != .hanging
        if isCounted { platform.begin(1) }
        defer { if isCounted { platform.end(1) } }
        func answer(_ outcome: DeliveryOutcome) {
            report([DeliveryReport(request: row, recipient: index, outcome: outcome)])
        }
        func wait(_ milliseconds: Int) async -> Bool {
            do {
                try await time.sleep(for: .milliseconds(milliseconds))
                return true
            } catch {
                return false
            }
        }
        func take() { platform.take(key, steady: steady()) }
        let accepted = DeliveryOutcome.accepted(Acceptance(platformID: key, isVerdictPending: receipts != nil))
        func refusal(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice) -> DeliveryOutcome {
            .refused(Refusal(kind, reason: reason, advice: advice))
        }
        func lost(_ reason: String) -> DeliveryOutcome {
            platform.leaveUnresolved(key)
            return .unknown(UnknownOutcome(reason: reason, isRepeatHarmful: isHarmful))
        }
        switch behavior {
        case .healthy, .flapping, .brownout:
            guard await wait(scheduler.draw(below: 40)) else {
                return answer(refusal(.platform, "cancelled", .retry(after: nil)))
            }
            take()
            answer(accepted)
        case .slow:
            guard await wait(500 + scheduler.draw(below: 8_000)) else {
                return answer(refusal(.platform, "cancelled", .retry(after: nil)))
            }
            take()
            answer(accepted)
        case .busy: answer(refusal(.platform, "busy", .retry(after: scheduler.chance(500) ? .seconds(1) : nil)))
        case .rateLimited:
            let seconds = scheduler.draw(below: 20)
            answer(refusal(.platform, "rate", .slowBackend(after: .seconds(seconds))))
            platform.requestPause(seconds, at: scheduler.now)
        case .recipientLimited:
            answer(refusal(.token, "rate", .slowRecipient(after: .seconds(scheduler.draw(below: 5)))))
        case .unreachable:
            _ = await wait(scheduler.draw(below: 2_000))
            answer(refusal(.platform, "connect_failed", .retry(after: nil)))
        case .parked: answer(refusal(.account, "credentials", .parkBackend))
        case .refusing:
            platform.refuseForGood(key, at: scheduler.now)
            answer(refusal(.message, "bad", .never))
        case .invalidating:
            platform.invalidate(key)
            let dead = Refusal.Invalidation(asOf: time.now, isCertain: true)
            answer(.refused(Refusal(.token, reason: "dead", advice: .never, invalidation: dead)))
        case .losing:
            take()
            _ = await wait(scheduler.draw(below: 3_000))
            answer(lost("connection_lost"))
        case .unreadable:
            if scheduler.chance(500) { take() }
            answer(lost("unreadable"))
        case .hanging:
            platform.leaveUnresolved(key)
            if scheduler.chance(300) { take() }
            _ = await wait(100_000_000)
            answer(lost("cancelled"))
        case .late:
            platform.leaveUnresolved(key)
            take()
            // Deaf to cancellation, as a plugin may be that waits for its library.
            await Task { try? await time.sleep(for: .seconds(100 + scheduler.draw(below: 100))) }.value
            answer(accepted)
            platform.meet(ordered, order: order)
        case .repeating:
            take()
            answer(accepted)
            answer(scheduler.chance(500) ? accepted : refusal(.platform, "late", .retry(after: nil)))
            platform.meet(ordered, order: order)
        }
    }
}
