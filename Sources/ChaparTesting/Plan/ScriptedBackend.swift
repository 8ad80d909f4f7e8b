public import ChaparCore
internal import Synchronization

/// A backend without a platform that answers as its test decides: for tests of code around backends.
///
/// It keeps the promises of a backend, so a wrapper around it can be checked with the conformance kit.
public final class ScriptedBackend: PushBackend {
    /// A message as it reached the backend.
    public struct Call: Sendable, Hashable {
        /// The delivery and its address.
        public let addressee: Addressee
        /// The number of earlier calls of this delivery.
        public let earlier: Int
        /// The text of its heading.
        public let title: LocalizedText?
        /// The time when the platform must give up.
        public let expiration: PushRequest.Expiration?
    }

    /// The test's decision about a message; nil accepts it.
    public typealias Script = @Sendable (Call) -> DeliveryOutcome?

    private struct State {
        var calls: [Call] = []
        var counts: [MessageID: Int] = [:]
        var taken = 0
        var underWay = 0
        var mostUnderWay = 0
        var isShutDown = false
    }

    /// Its kind, as given.
    public let kind: BackendKind
    /// Its audience, as given.
    public let audience: BackendAudience
    /// Its tracker, as given.
    public let tracking: (any MessageTracker)?
    private let script: Script
    private let pause: (@Sendable () async -> Void)?
    private let state = Mutex(State())

    /// The most bytes of a body that it accepts.
    public static let bodyLimit = 4_096
    /// A token that it reports as dead.
    public static let deadToken = "dead"

    /// Makes a backend that answers at once.
    ///
    /// - Parameters:
    ///   - kind: Its kind.
    ///   - audience: The recipients it addresses; it refuses the rest.
    ///   - tracking: Its tracker.
    ///   - script: Decides about each message; nil accepts it.
    public convenience init(
        _ kind: BackendKind = "scripted",
        audience: BackendAudience = BackendAudience(services: [.iOSAPNs], forms: [.topic]),
        tracking: (any MessageTracker)? = nil,
        script: @escaping Script = { _ in nil }
    ) {
        self.init(kind, audience: audience, tracking: tracking, script: script, pause: nil)
    }

    /// Makes a backend that waits before it answers.
    ///
    /// - Parameters:
    ///   - kind: Its kind.
    ///   - audience: The recipients it addresses; it refuses the rest.
    ///   - tracking: Its tracker.
    ///   - script: Decides about each message; nil accepts it.
    ///   - pause: A wait before the answer of every `send`.
    public init(
        _ kind: BackendKind = "scripted",
        audience: BackendAudience = BackendAudience(services: [.iOSAPNs], forms: [.topic]),
        tracking: (any MessageTracker)? = nil,
        script: @escaping Script = { _ in nil },
        pause: (@Sendable () async -> Void)?
    ) {
        self.kind = kind
        self.audience = audience
        self.tracking = tracking
        self.script = script
        self.pause = pause
    }

    /// The messages that reached it, in order.
    public var calls: [Call] { state.withLock { $0.calls } }
    /// The number of messages that it accepted.
    public var taken: Int { state.withLock { $0.taken } }
    /// The most messages that it had under way at a time.
    public var mostUnderWay: Int { state.withLock { $0.mostUnderWay } }

    /// Answers by the script, in two groups for each request.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let count = requests.reduce(0) { $0 + $1.recipients.count }
        state.withLock { state in
            state.underWay += count
            state.mostUnderWay = max(state.mostUnderWay, state.underWay)
        }
        await pause?()
        let outcomes = requests.map { request in request.recipients.map { outcome($0, request) } }
        state.withLock { $0.underWay -= count }
        for (row, outcomes) in outcomes.enumerated() {
            let reports = outcomes.enumerated().map { DeliveryReport(request: row, recipient: $0, outcome: $1) }
            report(Array(reports.suffix(reports.count / 2)))
            report(Array(reports.dropLast(reports.count / 2)))
        }
    }

    /// Reports a body over ``bodyLimit`` as a fault.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        guard isLarge(notification) else { return PayloadCheck() }
        return PayloadCheck(faults: [Finding(pointer: "#/content/body", code: "too_large", detail: "too large")])
    }

    /// Refuses everything from now on.
    public func shutdown(grace: Duration) async { state.withLock { $0.isShutDown = true } }

    private func isLarge(_ notification: PushNotification) -> Bool {
        (notification.body?.resolved(for: nil).utf8.count ?? 0) > Self.bodyLimit
    }

    private func outcome(_ addressee: Addressee, _ request: PushRequest) -> DeliveryOutcome {
        let notification = request.notification
        let call = state.withLock { state -> Call? in
            guard !state.isShutDown else { return nil }
            let earlier = state.counts[addressee.messageID, default: 0]
            state.counts[addressee.messageID] = earlier + 1
            let call = Call(
                addressee: addressee,
                earlier: earlier,
                title: notification.title,
                expiration: request.expiration
            )
            state.calls.append(call)
            return call
        }
        guard let call else { return .refused(Refusal(.platform, reason: "shut_down", advice: .retry(after: nil))) }
        guard audience.contains(addressee.recipient) else {
            return .refused(Refusal(.message, reason: "foreign", advice: .never))
        }
        if isLarge(notification) { return .refused(Refusal(.message, reason: "too_large", advice: .never)) }
        if case .token(let token) = addressee.recipient, token.value == Self.deadToken {
            return PlanAnswer.dead.outcome
        }
        if let outcome = script(call) { return outcome }
        if notification.isDryRun { return .accepted(Acceptance(isDryRun: true)) }
        state.withLock { $0.taken += 1 }
        return .accepted(Acceptance(platformID: addressee.messageID.description, status: 200))
    }
}
