import Foundation
import Logging
import ChaparCore
import ChaparTesting
import Synchronization

/// A platform that can do everything, in a few lines: what the conformance kit of backends is tested with.
final class ModelPlatform: Sendable {
    struct State {
        var taken: [MessageID] = []
        var requests = 0
        var sent: [SentRequest] = []
        /// Whether it refuses the key.
        var isRefusing = false
        /// Whether the access token has ended.
        var hasEnded = false
        /// The pause that it asks for.
        var pause: Duration?
        var disturbance: BackendConformance.Disturbance?
        var devices: [String: DeviceRecord] = [:]
        var statuses: [String: SubscriptionStatus] = [:]
        var messages: [String: DeliveryState] = [:]
        var topics: [String: [DeviceToken]] = [:]
        var channels: [String: ChannelStorage] = [:]
    }

    let state = Mutex(State())

    /// Counts a request, and does something with it; what is unreachable throws.
    func request<Value>(_ body: (inout State) -> Value) throws(PushError) -> Value {
        let value = state.withLock { state -> Value? in
            guard state.disturbance != .unreachable else { return nil }
            state.requests += 1
            return body(&state)
        }
        guard let value else { throw PushError(.unavailable, "nothing answers") }
        return value
    }
}

/// A backend of the model platform that keeps every promise, but for one fault.
final class ModelBackend: PushBackend {
    static let limit = 1_000
    static let secret = "model-key-77"
    static let own: TokenService = .iOSAPNs

    let platform: ModelPlatform
    let fault: ModelFault?
    let log: RecordedLog
    let isShutDown = Mutex(false)
    let underWay = Mutex(0)

    init(_ platform: ModelPlatform, _ fault: ModelFault?, _ log: RecordedLog) {
        self.platform = platform
        self.fault = fault
        self.log = log
    }

    func has(_ fault: ModelFault) -> Bool { self.fault == fault }

    var kind: BackendKind { has(.oddKind) ? "a kind" : "model" }
    var audience: BackendAudience {
        BackendAudience(services: has(.noAudience) ? [] : [Self.own], forms: [.topic])
    }
    var window: Int? { has(.noWindow) ? 0 : 10 }

    func isRepeatHarmful(_ notification: PushNotification) -> Bool { true }

    func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        if token.value.contains("://") { throw InvalidToken(token.service, "leads elsewhere") }
        return has(.checksAgain) ? DeviceToken(token.value + "+", service: token.service) : token
    }

    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        let size = notification.body?.resolved(for: nil).utf8.count ?? 0
        guard has(.findsFaults) || size > Self.limit else { return PayloadCheck() }
        return PayloadCheck(faults: [Finding(pointer: "#/content/body", code: "too_large", detail: "too large")])
    }

    func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        let bytes = notification.body?.resolved(for: addressee.language).utf8.count ?? 0
        return PayloadSize(bytes: has(.miscounts) ? 1 : bytes, limit: Self.limit)
    }

    func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        guard has(.showsToken), case .token(let token) = addressee.recipient else { return ["title": "x"] }
        return ["token": .string(token.value)]
    }

    var health: BackendHealth {
        let isUp = has(.seesNoOutage) || platform.state.withLock { $0.disturbance != .unreachable }
        return isUp ? BackendHealth() : BackendHealth(status: .down, detail: "nothing answers")
    }

    func diagnose() async -> [Diagnosis] {
        if has(.cannotDiagnose) { return [Diagnosis("reachability", .ok, "all is well")] }
        if platform.state.withLock({ $0.isRefusing }) {
            return [Diagnosis("key", .failure, "the key is refused", fix: "Give another.")]
        }
        if health.status == .ok { return [Diagnosis("reachability", .ok, "all is well")] }
        return [Diagnosis("reachability", .failure, "nothing answers", fix: "Wait.")]
    }

    func watch() async {
        if has(.watchesOn) { await Self.hang() }
        while !Task.isCancelled { await Task.yield() }
    }

    func shutdown(grace: Duration) async {
        let isSecond = isShutDown.withLock { isShutDown in
            defer { isShutDown = true }
            return isShutDown
        }
        if isSecond, has(.cannotShutDownTwice) { await Self.hang() }
    }

    func forget(device: String?) async throws(PushError) {
        if has(.knowsNobody) { throw PushError(.invalidRequest, "there is no such device") }
    }

    /// Waits longer than any test, whatever is cancelled.
    static func hang() async {
        // Real time: longer than any check waits, and not for ever, so that no task is left behind.
        await Task.detached { try? await Task.sleep(for: .seconds(60)) }.value
    }

    var devices: (any DeviceRegistrar)? { self }
    var subscriptions: (any SubscriptionManager)? { self }
    var tags: (any TagEditor)? { self }
    var events: (any EventReporter)? { self }
    var cancellation: (any MessageCanceller)? { self }
    var tracking: (any MessageTracker)? { self }
    var receipts: (any ReceiptReader)? { self }
    var clicks: (any ClickReader)? { self }
    var customEvents: (any CustomEventReporter)? { self }
    var recall: (any MessageRecaller)? { self }
    var revocation: (any MessageRevoker)? { self }
    var topics: (any TopicManager)? { self }
    var channels: (any ChannelManager)? { self }
    var tokenDirectory: (any TokenDirectory)? { self }
}

// MARK: Sending

extension ModelBackend {
    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        if has(.reportsNobody), requests.allSatisfy({ $0.recipients.isEmpty }) {
            report([DeliveryReport(request: 0, recipient: 0, outcome: .accepted(Acceptance(platformID: "x")))])
        }
        let others = underWay.withLock { count in
            count += 1
            return count - 1
        }
        defer { underWay.withLock { $0 -= 1 } }
        if has(.mixesSends) { for _ in 0..<50 { await Task.yield() } }
        if has(.forgetsCancelled), Task.isCancelled { return }
        for (row, request) in requests.enumerated() {
            for (place, addressee) in request.recipients.enumerated() {
                if has(.dropsBeyondLimit), place >= 1_000 { continue }
                let outcome = bend(await outcome(addressee, request), addressee, request.notification)
                let own = DeliveryReport(request: row, recipient: place, outcome: outcome)
                switch fault {
                case .mixesSends? where others > 0:
                    report([DeliveryReport(request: row + 1, recipient: 0, outcome: outcome)])
                case .reportsTwice?: report([own, own])
                case .reportsOneTooFew? where place == 0: break
                case .reportsStrangers?:
                    report([own, DeliveryReport(request: row, recipient: 99_999, outcome: outcome)])
                default: report([own])
                }
            }
        }
    }

    private func outcome(_ addressee: Addressee, _ request: PushRequest) async -> DeliveryOutcome {
        let notification = request.notification
        func refuse(_ kind: Refusal.Kind, _ reason: String, _ advice: Refusal.Advice) -> DeliveryOutcome {
            .refused(Refusal(kind, reason: reason, advice: advice))
        }
        if isShutDown.withLock({ $0 }), !has(.goesOnAfterShutdown) {
            return refuse(.platform, "shut_down", .retry(after: nil))
        }
        guard audience.contains(addressee.recipient) || has(.takesAnybody) else {
            return refuse(.message, "foreign", .never)
        }
        if !check(notification, for: .token).faults.isEmpty, !has(.findsFaults), !has(.passesLarge) {
            return refuse(.message, "too_large", .never)
        }
        if request.remaining(now: .now) == .over, !has(.sendsEnded) { return .refused(.expired) }
        if case .token(let token) = addressee.recipient, token.value.contains("://"), !has(.sendsAnywhere) {
            return refuse(.token, "bad_address", .never)
        }
        if case .token(let token) = addressee.recipient, token.value == "dropped-1", !has(.believesSuccess) {
            return refuse(.token, "dropped", .never)
        }
        if notification.title?.resolved(for: nil).contains("&") == true, has(.breaksTexts) {
            return refuse(.message, "malformed", .never)
        }
        if case .token(let token) = addressee.recipient, token.value == "dead-7f3c" {
            var refusal = Refusal(.token, reason: "dead", advice: .never)
            refusal.invalidation = .init(asOf: Date(timeIntervalSince1970: 0), isCertain: true)
            return .refused(refusal)
        }
        if notification.isDryRun, !has(.sendsDryRuns) { return .accepted(Acceptance(isDryRun: true)) }
        if let refusal = verdict() { return .refused(refusal) }
        return await exchange(addressee, request)
    }

    /// Returns the platform's refusal by the key, its token and the rate; nil when it accepts.
    private func verdict() -> Refusal? {
        platform.state.withLock { state in
            if state.isRefusing {
                let advice: Refusal.Advice = has(.retriesRefused) ? .retry(after: nil) : .parkBackend
                let detail = has(.showsRefusedKey) ? "\(Self.secret) is refused" : "The key is refused: give another."
                return Refusal(.account, reason: "wrong_key", detail: detail, advice: advice)
            }
            if state.hasEnded, has(.keepsEndedToken) {
                return Refusal(.account, reason: "token_ended", detail: "It has ended.", advice: .parkBackend)
            }
            state.hasEnded = false
            guard let pause = state.pause else { return nil }
            return Refusal(.platform, reason: "busy", advice: .slowBackend(after: has(.ignoresPause) ? nil : pause))
        }
    }

    /// The text of a request: what it is about, and for how long.
    private func body(_ addressee: Addressee, _ request: PushRequest) -> [UInt8] {
        let language = has(.speaksOneLanguage) ? nil : addressee.language
        let texts = [request.notification.title, request.notification.body].map { $0?.resolved(for: language) ?? "" }
        let life = has(.forgetsTime) ? "" : "\(request.remaining(now: .now))"
        let id = has(.changesRepeats) ? MessageID.random() : addressee.messageID
        return Array((texts + [life, "\(id)"]).joined(separator: "|").utf8)
    }

    private func exchange(_ addressee: Addressee, _ request: PushRequest) async -> DeliveryOutcome {
        let notification = request.notification
        let body = body(addressee, request)
        let (disturbance, isFirst) = platform.state.withLock { state in
            let isFirst = state.requests == 0
            if state.disturbance != .unreachable {
                state.requests += 1
                let endpoint = HTTPEndpoint(host: "model.example")
                state.sent.append(SentRequest(endpoint: endpoint, method: "POST", path: "/", headers: [], body: body))
                // An id that comes again is not sent again.
                let id = has(.newIDs) ? MessageID.random() : addressee.messageID
                if !state.taken.contains(id) { state.taken.append(id) }
                state.messages[addressee.messageID.description] = .acceptedByPlatform
            }
            return (state.disturbance, isFirst)
        }
        func unknown(_ reason: String) -> DeliveryOutcome {
            .unknown(UnknownOutcome(reason: reason, isRepeatHarmful: !has(.callsRepeatsHarmless)))
        }
        if has(.logsTexts) { log.logger.info("sent \(notification.body?.resolved(for: nil) ?? "")") }
        switch disturbance {
        case nil:
            let id = addressee.messageID.description
            return .accepted(Acceptance(platformID: id, trackingID: id, isDryRun: notification.isDryRun))
        case .unreachable:
            if has(.doubtsUnsent) { return unknown("connect_failed") }
            return .refused(Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil)))
        case .lostAnswer where has(.acceptsFirstLoss) && isFirst: return .accepted(Acceptance(platformID: "x"))
        case .lostAnswer:
            if has(.refusesLost) { return .refused(Refusal(.platform, reason: "lost", advice: .retry(after: nil))) }
            return unknown("connection_lost")
        case .unreadable:
            return has(.takesNonsense) ? .accepted(Acceptance(platformID: "x")) : unknown("bad_answer")
        case .silence:
            await waitForAnswer()
            return unknown("deadline")
        }
    }

    private func waitForAnswer() async {
        if has(.waitsForEver) { await Self.hang() }
        // Where a fault shows only before the deadline, that comes late: a machine that stands still must not hide it.
        let isLate = has(.goesOnInShutdown) || has(.hangsWhenCancelled)
        try? await eventually(
            "nobody wants the answer any more",
            within: isLate ? .seconds(60) : .milliseconds(100),
            every: .milliseconds(1)
        ) {
            isToldToEnd || Task.isCancelled
        }
        if Task.isCancelled, !isToldToEnd, has(.hangsWhenCancelled) { await Self.hang() }
    }

    private var isToldToEnd: Bool { isShutDown.withLock { $0 } && !has(.goesOnInShutdown) }

    private func bend(
        _ outcome: DeliveryOutcome,
        _ addressee: Addressee,
        _ notification: PushNotification
    ) -> DeliveryOutcome {
        switch (fault, outcome) {
        case (.hasNoID?, .accepted): return .accepted(Acceptance())
        case (.refusesReplays?, .accepted) where addressee.isReplay:
            return .refused(Refusal(.message, reason: "duplicate", advice: .never))
        case (.refusesTopics?, .accepted) where addressee.recipient.form == .topic:
            return .refused(Refusal(.message, reason: "no_topics", advice: .never))
        case (.blamesMessage?, .refused(var refusal)) where refusal.reason == "dead":
            refusal.kind = .message
            return .refused(refusal)
        case (.killsForeignTokens?, .refused(var refusal)) where refusal.reason == "foreign":
            refusal.invalidation = .init(asOf: .now, isCertain: true)
            return .refused(refusal)
        case (.leaksTokens?, .refused(var refusal)):
            if case .token(let token) = addressee.recipient { refusal.detail = "refused \(token.value)" }
            return .refused(refusal)
        case (.leaksSecrets?, .refused(var refusal)):
            refusal.detail = "refused with \(Self.secret)"
            return .refused(refusal)
        default: return outcome
        }
    }
}
