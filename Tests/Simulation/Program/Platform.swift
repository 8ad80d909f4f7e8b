import Foundation
import PushCore

/// A platform of the simulated world: it outlives every gateway, takes messages, and misbehaves as it is told to.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class SimulatedPlatform: @unchecked Sendable {
    /// How it answers; what the simulators of the platforms can do, seen from a plugin.
    enum Mood: Int, CaseIterable {
        case healthy
        /// Overloaded: it takes nothing, and says so.
        case busy
        /// It wants to be left alone for a while.
        case rateLimited
        /// One recipient gets too much.
        case recipientLimited
        /// It answers neither yes nor no, for longer than any lease.
        case hanging
        /// It takes a message, and the answer is lost.
        case losing
        /// What it answers to the message cannot be read, and whether it took it nobody knows.
        case unreadable
        /// It takes messages and answers after the lease.
        case late
        /// It answers twice.
        case repeating
        /// Nothing answers at its address.
        case unreachable
        /// The account is refused.
        case parked
        /// The message is refused.
        case refusing
        /// Tokens are dead.
        case burying
        /// It is well and ill by turns.
        case flapping
        /// Answers come slowly, one by one.
        case slow
        /// It takes some, refuses some and says nothing to others, of one batch.
        case brownout
    }

    let name: String
    private(set) var mood = Mood.healthy
    /// When it took each message, by serial number and recipient, and by the store's steady clock.
    private(set) var taken: [String: [Date]] = [:]
    /// Messages whose outcome it left open, or told late: `unknown` is allowed for them.
    private(set) var doubtful: Set<String> = []
    /// When each message was handed over, whatever came of it.
    private(set) var offered: [String: [Int64]] = [:]
    /// Messages that were with it when a gateway died.
    private(set) var interrupted: Set<String> = []
    private var open: Set<String> = []
    /// Messages that are with it now.
    private(set) var underWay = 0
    /// Until when it has asked to be left alone, and since when the gateway knows.
    private(set) var quiet: (from: Int64, until: Int64)?
    /// Since when it has been well.
    private(set) var healthySince: Int64 = 0
    /// The version of each device that it was told of last; nil for one that was removed.
    private(set) var devices: [String: String?] = [:]
    func keep(_ device: String, _ version: String?) {
        devices[device] = .some(version)
        trace.note("\(name) keeps \(device) as \(version ?? "none")")
    }

    /// What it found wrong with its gateway.
    private(set) var complaint: String?

    private let trace: Trace

    init(_ name: String, _ trace: Trace) {
        self.name = name
        self.trace = trace
    }

    func take(_ key: String, steady: Date) {
        taken[key, default: []].append(steady)
    }

    /// Everything that was handed over, in order.
    private(set) var log: [(at: Int64, key: String)] = []

    func offer(_ key: String, at now: Int64) {
        log.append((now, key))
        offered[key, default: []].append(now)
        open.insert(key)
        if let quiet, now > quiet.from + 200_000_000, now < quiet.until - 50_000_000 {
            complaint =
                "\(name) asked to be left alone for another \((quiet.until - now) / 1_000_000) ms, and got \(key)"
        }
    }

    func close(_ key: String) { open.remove(key) }

    func askForQuiet(_ seconds: Int, at now: Int64) {
        let until = now + Int64(seconds) * 1_000_000_000
        if until > quiet?.until ?? 0 { quiet = (now, until) }
    }

    /// Nobody needs to remember what it asked for.
    func forgetQuiet() { quiet = nil }

    func set(_ mood: Mood, at now: Int64) {
        if mood != .healthy { healthySince = .max } else if healthySince == .max { healthySince = now }
        self.mood = mood
    }

    func doubt(_ key: String) { doubtful.insert(key) }
    func begin(_ count: Int) { underWay += count }
    func end(_ count: Int) { underWay -= count }
    /// The gateway died; what was under way is nobody's any more.
    func forgetUnderWay() {
        underWay = 0
        interrupted.formUnion(open)
        open = []
        quiet = nil  // It is written down once a second.
    }
}

/// What stands between one life of a gateway and a platform.
struct SimulatedBackend: PushBackend {
    let kind: BackendKind = "simulated"
    let audience: BackendAudience
    let platform: SimulatedPlatform
    let scheduler: Scheduler
    let time: any TimeSource
    /// The steady time of the store, which goes on over restarts.
    let steady: @Sendable () -> Date
    let isHarmful: Bool
    /// Whether it is told of devices.
    let keepsDevices: Bool

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
                for (place, addressee) in request.recipients.enumerated() {
                    let key = Self.key(request.notification, addressee.recipient)
                    group.addTask { await offer(key, row, place, report) }
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
        _ place: Int,
        _ report: @escaping @Sendable ([DeliveryReport]) -> Void
    ) async {
        defer { platform.close(key) }
        let mood: SimulatedPlatform.Mood =
            switch platform.mood {
            case .flapping: scheduler.chance(500) ? .busy : .healthy
            case .brownout: [.busy, .busy, .busy, .healthy, .hanging][scheduler.draw(below: 5)]
            case let other: other
            }
        // Of what the gateway gives up on, it cannot know when the platform does.
        let isCounted = mood != .late && mood != .hanging
        if isCounted { platform.begin(1) }
        defer { if isCounted { platform.end(1) } }
        func answer(_ outcome: DeliveryOutcome) {
            report([DeliveryReport(request: row, recipient: place, outcome: outcome)])
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
        let accepted = DeliveryOutcome.accepted(Acceptance(platformID: key))
        func refusal(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice) -> DeliveryOutcome {
            .refused(Refusal(kind, reason: reason, advice: advice))
        }
        func lost(_ reason: String) -> DeliveryOutcome {
            platform.doubt(key)
            return .unknown(UnknownOutcome(reason: reason, isRepeatHarmful: isHarmful))
        }
        switch mood {
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
            platform.askForQuiet(seconds, at: scheduler.now)
        case .recipientLimited:
            answer(refusal(.token, "rate", .slowRecipient(after: .seconds(scheduler.draw(below: 5)))))
        case .unreachable:
            _ = await wait(scheduler.draw(below: 2_000))
            answer(refusal(.platform, "connect_failed", .retry(after: nil)))
        case .parked: answer(refusal(.account, "credentials", .parkBackend))
        case .refusing:
            answer(refusal(.message, "bad", .never))
        case .burying:
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
            platform.doubt(key)
            if scheduler.chance(300) { take() }
            _ = await wait(100_000_000)
            answer(lost("cancelled"))
        case .late:
            platform.doubt(key)
            take()
            // Deaf to cancellation, as a plugin may be that waits for its library.
            await Task { try? await time.sleep(for: .seconds(100 + scheduler.draw(below: 100))) }.value
            answer(accepted)
        case .repeating:
            take()
            answer(accepted)
            answer(scheduler.chance(500) ? accepted : refusal(.platform, "late", .retry(after: nil)))
        }
    }
}
