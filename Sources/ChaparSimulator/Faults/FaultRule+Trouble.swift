extension FaultRule {
    /// The failures of a platform that every backend must handle, with the names of `ChaparTesting`'s conformance kit.
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

    /// Returns the rules of a trouble, which lasts until they are removed.
    ///
    /// - Parameters:
    ///   - trouble: The failure.
    ///   - listener: The affected listener; nil is all of them.
    ///   - path: The prefix of the paths that it affects: those that send, not those that fetch a
    ///     credential.
    ///   - nonsense: The answer of an unreadable platform, for platforms whose 200 needs no body.
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
            // Open connections end as well, so that no request gets through.
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
