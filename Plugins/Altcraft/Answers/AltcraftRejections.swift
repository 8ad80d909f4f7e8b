internal import Foundation
import ChaparCore

/// The tables of Altcraft's refusals: what each answer means for a request about a device, and for the start of a
/// campaign.
///
/// The tables read the answer only. `AltcraftClient+Results.swift` makes events and errors of the rows about devices,
/// and ``AltcraftBatch`` reports the outcome of a start.
enum AltcraftRejections {
    /// The handling that an answer to a request about a device calls for.
    enum Consequence: Sendable, Hashable {
        /// Altcraft did it.
        case success
        /// Another attempt may succeed.
        case retry
        /// The credential that all devices share was refused.
        case account
        /// Altcraft will never do it.
        case request
    }

    /// The statuses of answers to requests about devices.
    private static let requests: StatusTable<Consequence> = [
        .within(200...299, means: .success), .on(401, 403, means: .account), .within(500...599, means: .retry),
        .others(means: .request),
    ]

    /// Returns the handling that an answer calls for: `error` is Altcraft's own number, `alsoRetried` the options', and
    /// `isShared` tells whether all devices have one credential.
    static func consequence(of status: Int, error: Int, alsoRetried: Set<Int>, isShared: Bool) -> Consequence {
        let row = requests[status] ?? .request
        if row == .success, error == 0 { return .success }
        if alsoRetried.contains(status) { return .retry }
        // Altcraft may report an error with a status of success. A refused credential of one device concerns its
        // request only.
        return row == .success || (row == .account && !isShared) ? .request : row
    }

    /// A row for a request about a device that got no answer.
    struct NoAnswer: Sendable, Hashable {
        let code: PushError.Code
        /// The number of the event.
        let number: Int
        /// Whether another attempt may succeed.
        var isRepeated = true
        /// The words before the failure's own.
        var opening = ""
    }

    /// The causes of failures that have a row of their own.
    private static let causes: [HTTPFailure.Cause: NoAnswer] = [
        .invalidCall: NoAnswer(
            code: .invalidRequest,
            number: 561,
            isRepeated: false,
            opening: "the request could not be built: "
        ),
        .badAnswer: NoAnswer(code: .badAnswer, number: 572),
    ]

    /// Returns the row of a failure.
    static func noAnswer(_ cause: HTTPFailure.Cause) -> NoAnswer {
        causes[cause] ?? NoAnswer(code: .unavailable, number: 500)
    }
}

extension AltcraftRejections {
    /// The statuses of answers to the start of a campaign, and the numbers that Altcraft puts under a success.
    private static let starts: StatusTable<RejectionRule> = [
        .within(
            300...399,
            means: RejectionRule(
                .account,
                "redirected",
                .parkBackend,
                "Check campaign.url; redirects are not followed."
            )
        ),
        .on(401, 403, means: RejectionRule(.account, "unauthorized", .parkBackend, "Check campaign.api_token.")),
        .on(
            402,
            means: RejectionRule(
                .account,
                "tariff_limit",
                .never,
                "The tariff allows no more: see the account at Altcraft."
            )
        ),
        .on(
            408,
            means: RejectionRule(
                .platform,
                "timeout",
                .retry(after: nil),
                "Altcraft waited too long for the request."
            )
        ),
        .on(
            429,
            means: RejectionRule(.platform, "rate_limited", .slowBackend(after: nil), "Altcraft asks for a pause.")
        ),
        .within(
            500...599,
            means: RejectionRule(.platform, "unavailable", .retry(after: nil), "Altcraft has a fault.")
        ),
        .others(means: badRequest),
    ]
    private static let badRequest = RejectionRule(
        .message,
        "bad_request",
        .never,
        "Altcraft does not start the campaign: compare its id and the data."
    )

    /// Returns the outcome of a start.
    static func outcome(of answer: HTTPAnswer, now: Date) -> DeliveryOutcome {
        let response = Response(answer.body)
        let isSuccess = (200..<300).contains(answer.status)
        if isSuccess, response == nil, !answer.body.isEmpty {
            // Something other than Altcraft's API answered, and the start may have reached Altcraft nevertheless.
            let detail = "The answer is no JSON object; a repeat may start the campaign twice."
            return .unknown(UnknownOutcome(reason: "bad_answer", detail: detail, isRepeatHarmful: true))
        }
        let error = response?.error ?? 0
        if isSuccess, error == 0 { return .accepted(Acceptance(isVerdictPending: false, status: answer.status)) }
        let rule = starts[isSuccess ? error : answer.status] ?? badRequest
        let words = response?.errorText.flatMap { $0.isEmpty ? nil : String($0.prefix(300)) }
        return .refused(rule.refusal(status: answer.status, words: words, pause: answer.retryAfter(now: now)))
    }

    /// The outcome of a start for each status that Altcraft answers with.
    static var outcomes: [DeliveryOutcome] {
        [401, 402, 408, 429, 500, 302, 400].map {
            outcome(of: HTTPAnswer(status: $0), now: Date(timeIntervalSince1970: 0))
        }
    }
}
