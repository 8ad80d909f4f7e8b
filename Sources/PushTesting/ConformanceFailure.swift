/// A promise of a protocol that an implementation did not keep: what was expected, and what happened.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The sentence: what was seen, and once it leaves a check also the promise and where it is made.
    public let description: String

    /// Makes a failure.
    public init(_ description: String) { self.description = description }

    /// A failure as its check tells it: the promise, what was seen, and where the promise is made.
    init(promise: String, seen: String, source: String) {
        description = "broken promise: \(promise); seen: \(seen); source: \(source)"
    }
}

/// Throws with the sentence unless the claim holds: how the conformance kits speak, without a testing library.
func expect(_ claim: Bool, _ sentence: @autoclosure () -> String) throws(ConformanceFailure) {
    if !claim { throw ConformanceFailure(sentence()) }
}

/// Runs a check; a failure leaves it with the promise and its source.
func promised(_ promise: String, _ source: String, _ check: () async throws -> Void) async throws {
    do {
        try await check()
    } catch let failure as ConformanceFailure {
        throw ConformanceFailure(promise: promise, seen: failure.description, source: source)
    }
}

/// One named check of a conformance kit, for an implementation's tests to run.
public struct ConformanceCheck<Subject: Sendable>: Sendable, CustomStringConvertible {
    /// The promise, as the end of a sentence that begins with "it".
    public let name: String
    /// Where the promise is made: the declaration whose documentation says so, or the article.
    public let source: String
    /// Whether the check waits for a deadline of the subject's: then that should be short, a few seconds at the most.
    public let wantsHaste: Bool
    private let body: @Sendable (Subject) async throws -> Void

    /// Makes a check.
    ///
    /// - Parameters:
    ///   - name: The promise, as the end of a sentence that begins with "it".
    ///   - source: Where the promise is made.
    ///   - wantsHaste: Whether it waits for a deadline of the subject's.
    ///   - body: Throws a ``ConformanceFailure`` that says what was seen.
    public init(
        _ name: String,
        source: String,
        wantsHaste: Bool = false,
        run body: @escaping @Sendable (Subject) async throws -> Void
    ) {
        self.name = name
        self.source = source
        self.wantsHaste = wantsHaste
        self.body = body
    }

    /// Runs the check.
    ///
    /// - Throws: ``ConformanceFailure`` with the promise, what was seen and the source; else what the subject threw.
    public func run(_ subject: Subject) async throws {
        try await promised(name, source) { try await body(subject) }
    }

    /// The promise.
    public var description: String { name }
}
