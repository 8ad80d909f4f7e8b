internal import Foundation
package import PushCore
package import PushComposition

/// An answer of a backend, as a word: what cases and test names are written with.
package enum PlanAnswer: String, Sendable, CaseIterable {
    /// Takes the message.
    case accepted
    /// Declares the token dead.
    case dead
    /// Refuses the message for good.
    case never
    /// Refuses for now.
    case retry
    /// Refuses for now, with a wish of 30 s.
    case retryLater
    /// Wants this recipient to be left alone.
    case slowRecipient
    /// Wants to be left alone for 5 s.
    case slowBackend
    /// Refuses the account's credentials.
    case park
    /// Gives no answer; a repeat does no harm.
    case silence
    /// Gives no answer; a repeat does harm.
    case harmfulSilence

    /// The outcome that the word stands for.
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

/// A delivery on its way through a plan, with what its backends answer and what must come of it: data for both
/// interpreters of plans, the one in memory and the gateway's.
package struct PlanCase: Sendable, CustomStringConvertible {
    /// Which interpreter a case is for.
    package enum Interpreter: Sendable, CaseIterable {
        /// `FallbackBackend`.
        case memory
        /// The gateway's dispatcher.
        case gateway
    }

    /// The backends' names and the services whose tokens they take, in the order of the longest plan.
    package static let backends: [(name: String, service: TokenService)] = [
        ("one", .iOSAPNs), ("two", .iOSFirebase), ("three", .iOSHuawei),
    ]
    /// How often is tried, waits included: 1 s doubled up to 8 s, three attempts.
    package static let retry = RetryPolicy(firstWait: .seconds(1), longestWait: .seconds(8), maximumAttempts: 3)

    /// What it is about, as a claim.
    package var name: String
    /// The plan; its fallback delay is always set.
    package var plan: DeliveryPlan
    /// The services of the live tokens that the device has.
    package var tokens: Set<TokenService> = Set(Self.backends.map(\.service))
    /// Whether the recipient is the first of its tokens itself instead of the device.
    package var isRawToken = false
    /// What each backend answers, attempt by attempt; the last answer again and again.
    package var answers: [String: [PlanAnswer]]
    /// What the backends' trackers know of a message that got no answer; nil for nothing.
    package var word: DeliveryState?
    /// How long it is tried; zero is now or never.
    package var timeToLive = Duration.seconds(3600)
    /// The backends that must be asked, in order.
    package var expectedAttempts: [String]
    /// The state that must be its last.
    package var expectedEnd: DeliveryState
    /// The interpreters that it is for.
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

    /// Whom it goes to.
    package var recipient: Recipient {
        if isRawToken, let token = deviceTokens.first { .token(token) } else { .device("device-1") }
    }

    /// The answer of a backend to the attempt of a number, from 0.
    package func answer(of backend: String, attempt: Int) -> PlanAnswer {
        let answers = answers[backend] ?? []
        return attempt < answers.count ? answers[attempt] : answers.last ?? .accepted
    }

    /// The plan's backends, which answer by the script, with their trackers.
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

    /// Throws when an interpreter did something else.
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
