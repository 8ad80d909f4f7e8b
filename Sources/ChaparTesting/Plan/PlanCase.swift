internal import Foundation
package import ChaparCore
package import ChaparComposition

/// An answer of a backend, as a word for cases and test names.
package enum PlanAnswer: String, Sendable, CaseIterable {
    /// Accepts the message.
    case accepted
    /// Reports the token as dead.
    case dead
    /// Refuses the message for good.
    case never
    /// Refuses for now.
    case retry
    /// Refuses for now, and asks for a wait of 30 s.
    case retryLater
    /// Asks for a pause for this recipient.
    case slowRecipient
    /// Asks for a pause of 5 s for the whole backend.
    case slowBackend
    /// Refuses the account's credentials.
    case park
    /// Gives no answer; a repeat is harmless.
    case silence
    /// Gives no answer; a repeat is harmful.
    case harmfulSilence

    /// The outcome of this answer.
    package var outcome: DeliveryOutcome {
        switch self {
        case .accepted: .accepted(Acceptance(platformID: "taken", status: 200))
        case .dead:
            .refused(
                Refusal(
                    .token,
                    reason: "Unregistered",
                    status: 410,
                    advice: .never,
                    invalidation: Refusal.Invalidation(
                        asOf: Date(timeIntervalSince1970: 1_767_000_000),
                        isCertain: true
                    )
                )
            )
        case .never: .refused(Refusal(.message, reason: "BadMessage", status: 400, advice: .never))
        case .retry: .refused(Refusal(.platform, reason: "Unavailable", status: 503, advice: .retry(after: nil)))
        case .retryLater:
            .refused(Refusal(.platform, reason: "Unavailable", status: 503, advice: .retry(after: .seconds(30))))
        case .slowRecipient:
            .refused(Refusal(.token, reason: "TooMany", status: 429, advice: .slowRecipient(after: nil)))
        case .slowBackend:
            .refused(Refusal(.platform, reason: "Quota", status: 429, advice: .slowBackend(after: .seconds(5))))
        case .park: .refused(Refusal(.account, reason: "BadKey", status: 403, advice: .parkBackend))
        case .silence: .unknown(UnknownOutcome(reason: "deadline", platformID: "sent"))
        case .harmfulSilence:
            .unknown(UnknownOutcome(reason: "deadline", isRepeatHarmful: true, platformID: "sent"))
        }
    }
}

/// A delivery on its way through a plan, with the answers of its backends and the expected end: data for both
/// interpreters of plans, the one in memory and the gateway's.
package struct PlanCase: Sendable, CustomStringConvertible {
    /// The interpreter that runs a case.
    package enum Interpreter: Sendable, CaseIterable {
        /// `FallbackBackend`.
        case memory
        /// The gateway's dispatcher.
        case gateway
    }

    /// The backends' names and the services whose tokens they accept, in the order of the longest plan.
    package static let backends: [(name: String, service: TokenService)] = [
        ("one", .iOSAPNs), ("two", .iOSFirebase), ("three", .iOSHuawei),
    ]
    /// The retry policy of the cases: waits of 1 s, doubled up to 8 s, and three attempts.
    package static let retry = RetryPolicy(firstWait: .seconds(1), longestWait: .seconds(8), maximumAttempts: 3)

    /// The name: the claim that the case checks.
    package var name: String
    /// The plan; its fallback delay is always set.
    package var plan: DeliveryPlan
    /// The services for which the device has live tokens.
    package var tokens: Set<TokenService> = Set(Self.backends.map(\.service))
    /// Whether the recipient is the first of the tokens itself instead of the device.
    package var isRawToken = false
    /// The answers of each backend, attempt by attempt; the last one is repeated.
    package var answers: [String: [PlanAnswer]]
    /// The state that the backends' trackers report of a message that got no answer; nil for none.
    package var word: DeliveryState?
    /// The time to live; zero is now or never.
    package var timeToLive = Duration.seconds(3600)
    /// The backends that must be asked, in order.
    package var expectedAttempts: [String]
    /// The expected last state.
    package var expectedEnd: DeliveryState
    /// The interpreters that run it.
    package var interpreters = Set(Interpreter.allCases)

    /// Makes a case.
    package init(
        _ name: String,
        _ plan: DeliveryPlan,
        answers: [String: [PlanAnswer]],
        attempts: [String],
        end: DeliveryState
    ) {
        self.name = name
        self.plan = plan
        self.answers = answers
        expectedAttempts = attempts
        expectedEnd = end
    }

    /// The claim.
    package var description: String { name }

    /// The device's tokens.
    package var deviceTokens: [DeviceToken] {
        Self.backends.filter { tokens.contains($0.service) }.map {
            DeviceToken("token-\($0.name)", service: $0.service)
        }
    }

    /// The recipient of the delivery.
    package var recipient: Recipient {
        if isRawToken, let token = deviceTokens.first { .token(token) } else { .device("device-1") }
    }

    /// Returns the answer of a backend to an attempt, counted from 0.
    package func answer(of backend: String, attempt: Int) -> PlanAnswer {
        let answers = answers[backend] ?? []
        return attempt < answers.count ? answers[attempt] : answers.last ?? .accepted
    }

    /// Makes the plan's backends, which answer by the script, with their trackers.
    package func makeBackends() -> [(name: String, backend: ScriptedBackend)] {
        plan.backends.compactMap { name -> (name: String, backend: ScriptedBackend)? in
            guard let service = Self.backends.first(where: { $0.name == name })?.service else { return nil }
            let backend = ScriptedBackend(
                BackendKind(rawValue: name),
                audience: BackendAudience(services: [service]),
                tracking: word.map { Oracle(state: $0) },
                script: { answer(of: name, attempt: $0.earlier).outcome }
            )
            return (name, backend)
        }
    }

    private struct Oracle: MessageTracker {
        let state: DeliveryState
        func state(of platformID: String) async throws(PushError) -> DeliveryState? {
            platformID == "sent" ? state : nil
        }
    }

    /// Throws when an interpreter behaved differently.
    ///
    /// - Parameters:
    ///   - attempts: The backends that were asked, in order.
    ///   - end: The last state.
    /// - Throws: ``ConformanceFailure`` with the difference.
    package func check(attempts: [String], end: DeliveryState) throws(ConformanceFailure) {
        try expect(
            attempts == expectedAttempts,
            "\(name): asked \(attempts) instead of \(expectedAttempts)"
        )
        try expect(end == expectedEnd, "\(name): ended as \(end.rawValue) instead of \(expectedEnd.rawValue)")
    }
}
