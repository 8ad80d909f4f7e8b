import ChaparCore

/// The tables of a service's refusals: the meaning of an answer other than 200 for the whole request, and the advice
/// for the words of a message's own outcome.
///
/// ``ServiceOutcomes`` applies them to the recipients of a request. Kind, reason and detail of a message's own outcome
/// are the service's, so they stand in no table.
enum ServiceRejections {
    /// The meaning of an answer for every recipient of its request.
    enum Meaning: Sendable, Hashable {
        case refused(RejectionRule)
        /// The service may have sent the messages.
        case unknown
        /// The answer breaks the contract.
        case broken
    }

    private static let statuses: StatusTable<Meaning> = [
        .within(200...299, means: .broken),
        .on(400, 422, means: .refused(RejectionRule(.message, "rejected", .never, "The service refused the request."))),
        .on(
            401,
            403,
            means: .refused(
                RejectionRule(.account, "unauthorized", .parkBackend, "Compare secret with the service's own.")
            )
        ),
        .on(
            408,
            425,
            means: .refused(
                RejectionRule(
                    .platform,
                    "not_taken",
                    .retry(after: nil),
                    "The service says that it did not take it."
                )
            )
        ),
        .on(
            413,
            means: .refused(
                RejectionRule(
                    .account,
                    "batch_too_large",
                    .parkBackend,
                    "Lower batch_size or max_message_bytes."
                )
            )
        ),
        .on(
            429,
            means: .refused(
                RejectionRule(.platform, "rate_limited", .slowBackend(after: nil), "The service asks for a pause.")
            )
        ),
        .on(
            503,
            means: .refused(
                RejectionRule(.platform, "unavailable", .slowBackend(after: nil), "The service is not available.")
            )
        ),
        .within(500...599, means: .unknown), .others(means: wrongAddress),
    ]
    /// The rows that replace those above for a request of one message to one recipient.
    private static let singleStatuses: StatusTable<Meaning> = [
        .on(
            413,
            means: .refused(
                RejectionRule(
                    .message,
                    "message_too_large",
                    .never,
                    "The service does not take a message of this size."
                )
            )
        )
    ]
    private static let wrongAddress = Meaning.refused(
        RejectionRule(.account, "wrong_address", .parkBackend, "Check url: nothing there takes batches.")
    )

    /// Returns the meaning of a status other than 200; `isSingle` marks a request of one message to one recipient.
    static func meaning(of status: Int, isSingle: Bool) -> Meaning {
        if isSingle, let meaning = singleStatuses[status] { return meaning }
        return statuses[status] ?? wrongAddress
    }

    /// The member `retry` of a message's outcome.
    private static let retries: [String: Refusal.Advice] = [
        "never": .never, "message": .retry(after: nil), "recipient": .slowRecipient(after: nil),
        "backend": .slowBackend(after: nil), "operator": .parkBackend,
    ]
    /// The advice of an outcome without that member, by its kind.
    private static let kinds: [Refusal.Kind: Refusal.Advice] = [
        .token: .never, .message: .never, .account: .parkBackend, .platform: .retry(after: nil),
    ]

    /// Returns the advice of a message's outcome, with the pause that the service asked for.
    static func advice(_ retry: String?, _ kind: Refusal.Kind, pause: Duration?) -> Refusal.Advice {
        let advice = retry.flatMap { retries[$0] } ?? kinds[kind] ?? .never
        return advice.asked(pause)
    }
}
