/// A promise of a protocol that an implementation did not keep: what was expected, and what happened.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The sentence.
    public let description: String

    /// Makes a failure.
    public init(_ description: String) { self.description = description }
}

/// Throws with the sentence unless the claim holds: how the conformance kits speak, without a testing library.
func expect(_ claim: Bool, _ sentence: @autoclosure () -> String) throws(ConformanceFailure) {
    if !claim { throw ConformanceFailure(sentence()) }
}

/// One named check of a conformance kit, for an implementation's tests to run.
public struct ConformanceCheck<Subject: Sendable>: Sendable, CustomStringConvertible {
    /// What the check is about, as a claim.
    public let name: String
    /// Throws a ``ConformanceFailure`` that says what went wrong.
    public let run: @Sendable (Subject) async throws -> Void

    /// Makes a check.
    public init(_ name: String, run: @escaping @Sendable (Subject) async throws -> Void) {
        self.name = name
        self.run = run
    }

    /// The name.
    public var description: String { name }
}
