internal import ChaparCore
internal import ChaparComposition

/// The suite that every interpreter of `DeliveryPlan` must pass: each kind of outcome under each rule at each step, and
/// the time between steps.
package enum PlanCases {
    /// All cases.
    package static let all = matrix + waits + skips + times + ownRetries + nowOrNever + mixtures

    /// Returns the cases that one interpreter must pass.
    package static func cases(for interpreter: PlanCase.Interpreter) -> [PlanCase] {
        all.filter { $0.interpreters.contains(interpreter) }
    }

    private static let rules: [DeliveryPlan.UnknownRule?] = [nil] + DeliveryPlan.UnknownRule.allCases.map(Optional.some)

    private static func plan(
        _ steps: Int,
        _ rule: DeliveryPlan.UnknownRule? = nil,
        fallbackAfter: Duration = .zero
    ) -> DeliveryPlan {
        DeliveryPlan(
            PlanCase.backends.prefix(steps).map(\.name),
            onUnknown: rule,
            unknownWait: .seconds(10),
            fallbackAfter: fallbackAfter
        )
    }

    // MARK: Each answer × each rule × each number of steps × how many of them answer so

    private static let matrix: [PlanCase] = PlanAnswer.allCases.flatMap { answer in
        rules.flatMap { rule in
            (1...3).flatMap { steps in
                (1...steps).map { failing in single(answer, rule, steps: steps, failing: failing) }
            }
        }
    }

    /// Returns a case in which the first `failing` backends repeat the answer, and the others accept.
    private static func single(
        _ answer: PlanAnswer,
        _ rule: DeliveryPlan.UnknownRule?,
        steps: Int,
        failing: Int
    ) -> PlanCase {
        let names = PlanCase.backends.map(\.name)
        let answers = Dictionary(uniqueKeysWithValues: names.prefix(failing).map { ($0, [answer]) })
        let isRescued = failing < steps
        // Each failing backend once, then the one that accepts.
        let chain = Array(names.prefix(isRescued ? failing + 1 : failing))
        let (attempts, end): ([String], DeliveryState) =
            switch answer {
            case .accepted: (["one"], .acceptedByPlatform)
            case .dead, .never, .park: (chain, isRescued ? .acceptedByPlatform : .failed)
            case .retry, .retryLater, .slowRecipient, .slowBackend:
                isRescued
                    ? (chain, .acceptedByPlatform)
                    : (chain + Array(repeating: names[failing - 1], count: 3 - failing), .failed)
            case .silence, .harmfulSilence:
                switch rule ?? (answer == .silence ? .retry : .stop) {
                case .stop: (["one"], .unknown)
                case .retry: (["one", "one", "one"], .unknown)
                case .next, .wait: (chain, isRescued ? .acceptedByPlatform : .unknown)
                }
            }
        let what = "\(failing) of \(steps) answer \(answer.rawValue), rule \(rule?.rawValue ?? "none")"
        var one = PlanCase(what, plan(steps, rule), answers: answers, attempts: attempts, end: end)
        // In the gateway a message waits for the operator until its time to live ends.
        if answer == .park, !isRescued { one.interpreters = [.memory] }
        return one
    }

    // MARK: The platform's word after no answer

    private static let waits: [PlanCase] = [
        (DeliveryState.delivered, ["one"], DeliveryState.delivered), (.opened, ["one"], .opened),
        (.acceptedByPlatform, ["one"], .acceptedByPlatform), (.failed, ["one", "two"], .acceptedByPlatform),
        (.sending, ["one", "two"], .acceptedByPlatform),
    ].map { word, attempts, end in
        var one = PlanCase(
            "after no answer the platform says \(word.rawValue)",
            plan(2, .wait),
            answers: ["one": [.silence]],
            attempts: attempts,
            end: end
        )
        one.word = word
        return one
    }

    // MARK: Backends that cannot address the recipient

    private static let skips: [PlanCase] = [
        skip("no token for the first backend", [.iOSFirebase, .iOSHuawei], [:], ["two"], .acceptedByPlatform),
        skip("no token for the second backend", [.iOSAPNs, .iOSHuawei], ["one": .dead], ["one", "three"]),
        skip(
            "no token for the last backend",
            [.iOSAPNs, .iOSFirebase],
            ["one": .dead, "two": .dead],
            ["one", "two"],
            .failed
        ),
        skip("no token at all", [], [:], [], .failed),
        skip(
            "trouble at the only backend that has a token",
            [.iOSAPNs],
            ["one": .retry],
            ["one", "one", "one"],
            .failed
        ),
        raw("a raw token goes to its own service's backend only", .iOSFirebase, [:], ["two"], .acceptedByPlatform),
        raw("a raw token that is dead goes nowhere else", .iOSAPNs, ["one": .dead], ["one"], .failed),
    ]

    private static func skip(
        _ name: String,
        _ tokens: Set<TokenService>,
        _ answers: [String: PlanAnswer],
        _ attempts: [String],
        _ end: DeliveryState = .acceptedByPlatform
    ) -> PlanCase {
        var one = PlanCase(name, plan(3), answers: answers.mapValues { [$0] }, attempts: attempts, end: end)
        one.tokens = tokens
        return one
    }

    private static func raw(
        _ name: String,
        _ service: TokenService,
        _ answers: [String: PlanAnswer],
        _ attempts: [String],
        _ end: DeliveryState
    ) -> PlanCase {
        var one = skip(name, [service], answers, attempts, end)
        one.isRawToken = true
        return one
    }

    // MARK: Patience and time to live

    private static let times: [PlanCase] = [
        PlanCase(
            "trouble is borne until the fallback delay ends",
            plan(2, fallbackAfter: .seconds(60)),
            answers: ["one": [.retry, .retry, .accepted]],
            attempts: ["one", "one", "one"],
            end: .acceptedByPlatform
        ),
        PlanCase(
            "a wait beyond the fallback delay leads to the next backend",
            plan(2, fallbackAfter: .seconds(20)),
            answers: ["one": [.retryLater]],
            attempts: ["one", "two"],
            end: .acceptedByPlatform
        ),
        lived(
            PlanCase(
                "a wish beyond the time to live ends it",
                plan(1),
                answers: ["one": [.retryLater]],
                attempts: ["one"],
                end: .expired
            )
        ),
        lived(
            PlanCase(
                "a wish beyond the time to live leads to the next backend",
                plan(2, fallbackAfter: .seconds(600)),
                answers: ["one": [.retryLater]],
                attempts: ["one", "two"],
                end: .acceptedByPlatform
            )
        ),
    ]

    private static func lived(_ one: PlanCase) -> PlanCase {
        var one = one
        one.timeToLive = .seconds(20)
        return one
    }

    // MARK: Attempts of the plan

    private static func retrying(_ steps: Int, _ attempts: Int, wait: Duration = .seconds(1)) -> DeliveryPlan {
        plan(steps, fallbackAfter: .seconds(600)).retrying(
            RetryPolicy(firstWait: wait, longestWait: .seconds(8), maximumAttempts: attempts)
        )
    }

    /// Cases whose plan has retries of its own, in the place of the interpreter's three attempts.
    private static let ownRetries: [PlanCase] = [
        PlanCase(
            "a plan with fewer attempts ends sooner",
            retrying(1, 2),
            answers: ["one": [.retry]],
            attempts: ["one", "one"],
            end: .failed
        ),
        PlanCase(
            "a plan with more attempts goes on",
            retrying(1, 5),
            answers: ["one": [.retry, .retry, .retry, .retry, .accepted]],
            attempts: ["one", "one", "one", "one", "one"],
            end: .acceptedByPlatform
        ),
        PlanCase(
            "the attempts of a plan end at the next backend",
            retrying(2, 1),
            answers: ["one": [.retry]],
            attempts: ["one", "two"],
            end: .acceptedByPlatform
        ),
        PlanCase(
            "the attempts of a plan count after silence too",
            retrying(1, 2).onUnknown(.retry, waiting: .seconds(10)),
            answers: ["one": [.silence]],
            attempts: ["one", "one"],
            end: .unknown
        ),
    ]

    // MARK: A time to live of 0

    /// Cases in which each backend of the plan gets one attempt, without any wait.
    private static let nowOrNever: [PlanCase] = [
        (PlanAnswer.retry, 1, ["one"], DeliveryState.failed), (.retryLater, 1, ["one"], .failed),
        (.slowBackend, 1, ["one"], .failed), (.slowRecipient, 1, ["one"], .failed), (.park, 1, ["one"], .failed),
        (.silence, 1, ["one"], .unknown), (.silence, 2, ["one"], .unknown),
        (.retry, 2, ["one", "two"], .acceptedByPlatform), (.slowBackend, 3, ["one", "two"], .acceptedByPlatform),
    ].map { answer, steps, attempts, end in
        var one = PlanCase(
            "now or never: the first of \(steps) answers \(answer.rawValue)",
            plan(steps, fallbackAfter: .seconds(600)),
            answers: ["one": [answer]],
            attempts: attempts,
            end: end
        )
        one.timeToLive = .zero
        return one
    }

    // MARK: One thing after another

    private static let mixtures: [PlanCase] = [
        PlanCase(
            "a message that may have arrived is not reported as failed by another backend's no",
            plan(2, .next),
            answers: ["one": [.silence], "two": [.never]],
            attempts: ["one", "two"],
            end: .unknown
        ),
        PlanCase(
            "a backend's no covers its own earlier silence",
            plan(1, .retry),
            answers: ["one": [.silence, .dead]],
            attempts: ["one", "one"],
            end: .failed
        ),
        PlanCase(
            "a backend that refuses after its silence hands over",
            plan(2, .retry),
            answers: ["one": [.silence, .dead]],
            attempts: ["one", "one", "two"],
            end: .acceptedByPlatform
        ),
        PlanCase(
            "silence after trouble stops under the rule stop",
            plan(2, .stop, fallbackAfter: .seconds(60)),
            answers: ["one": [.retry, .silence]],
            attempts: ["one", "one"],
            end: .unknown
        ),
        PlanCase(
            "a dead token, then trouble, then success",
            plan(3),
            answers: ["one": [.dead], "two": [.retry]],
            attempts: ["one", "two", "three"],
            end: .acceptedByPlatform
        ),
        PlanCase(
            "credentials that are refused lead to the next backend at once, whatever the fallback delay",
            plan(2, fallbackAfter: .seconds(600)),
            answers: ["one": [.park]],
            attempts: ["one", "two"],
            end: .acceptedByPlatform
        ),
        PlanCase(
            "attempts run out while the outcome is open",
            plan(1, .retry),
            answers: ["one": [.silence, .retry, .retry]],
            attempts: ["one", "one", "one"],
            end: .unknown
        ),
    ]
}
