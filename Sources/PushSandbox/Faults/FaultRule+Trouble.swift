extension FaultRule {
    /// The ways a platform misbehaves that every backend must bear, by the words of `PushTesting`'s conformance kit.
    @nonexhaustive
    public enum Trouble: String, Sendable, CaseIterable {
        /// It takes messages and never answers.
        case silence
        /// It takes a message, and the connection ends before the answer.
        case lostAnswer = "lost_answer"
        /// It answers 200 with a body that cannot be read.
        case unreadable
        /// Nothing answers at its address.
        case unreachable
    }

    /// The rules of a trouble, which lasts until they are removed.
    ///
    /// - Parameters:
    ///   - trouble: What goes wrong.
    ///   - listener: Where; nil is everywhere.
    ///   - path: How the paths begin of the requests that it is for: those that send, not those that fetch a
    ///     credential.
    ///   - nonsense: A body that cannot be read, where the platform's 200 says all that it says.
    /// - Returns: The rules, for a simulator's `add`.
    public static func trouble(
        _ trouble: Trouble,
        on listener: SandboxListener? = nil,
        path: String? = nil,
        nonsense: FaultAnswer = FaultAnswer(200, body: Array("<html>{\"id\":".utf8))
    ) -> [FaultRule] {
        let match = FaultMatch(listener: listener, pathPrefix: path)
        return switch trouble {
        case .silence: [FaultRule(name: trouble.rawValue, at: .processed, match: match, .silence)]
        case .lostAnswer: [FaultRule(name: trouble.rawValue, at: .processed, match: match, .end(.reset))]
        case .unreadable:
            [FaultRule(name: trouble.rawValue, at: .processed, match: match, .answer(nonsense))]
        case .unreachable:
            // What is open ends as well, so that nothing slips through.
            [
                refuseConnections(listener: listener),
                FaultRule(
                    name: trouble.rawValue,
                    at: .requestHeaders,
                    match: FaultMatch(listener: listener),
                    .end(.reset)
                ),
            ]
        }
    }
}
