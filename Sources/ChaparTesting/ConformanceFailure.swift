/// A promise of a protocol that an implementation broke: the expected and the actual behaviour.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The sentence: the observation, and once the failure leaves a check also the promise and its source.
    public let description: String

    /// Makes a failure.
    public init(_ description: String) { self.description = description }

    /// Makes the failure of a check: the promise, the observation, the reason for the promise, and its source.
    init(promise: String, seen: String, why: String, source: String) {
        let reason = why.isEmpty ? "" : "\n  why it matters: \(why)"
        description = """
            broken promise: it \(promise)
              seen: \(seen)\(reason)
              source: \(source)
              page: \(Self.page)
            """
    }

    /// The page that explains every promise, and the parts of a subject that it needs.
    static let page = "docs/Plugins.md, section \"The kit\""
}

/// Throws with the sentence unless the claim holds, so that the kits need no testing library.
package func expect(_ claim: Bool, _ sentence: @autoclosure () -> String) throws(ConformanceFailure) {
    if !claim { throw ConformanceFailure(sentence()) }
}

/// Runs a check; adds the promise, its reason and its source to a failure.
package func promised(
    _ promise: String,
    _ source: String,
    why: String = "",
    _ check: () async throws -> Void
) async throws {
    do {
        try await check()
    } catch let failure as ConformanceFailure {
        throw ConformanceFailure(promise: promise, seen: failure.description, why: why, source: source)
    }
}

/// A check, or a part of one, that was skipped, since its subject does not give what it needs.
public struct ConformanceSkip: Sendable, Hashable, CustomStringConvertible {
    /// The promise, as the end of a sentence that begins with "it".
    public let promise: String
    /// The parts that the subject has to give, in one sentence each.
    public let give: [String]
    /// Whether the rest of the check was run.
    public let isPartial: Bool
    /// Whether there is nothing to ask, since what the check is about is not declared.
    public let isUndeclared: Bool

    /// One line, for `Test.cancel` and logs.
    public var description: String {
        isUndeclared
            ? "not declared: it \(promise)"
            : "\(isPartial ? "asked in part" : "not asked"): it \(promise); give \(give.joined(separator: "; "))"
    }
}

/// A part of a subject that a check uses and that the subject may leave out.
struct ConformanceNeed<Subject: Sendable>: Sendable {
    /// The part to give, as a sentence.
    let what: String
    /// Returns whether a subject has it.
    let isGiven: @Sendable (Subject) -> Bool

    init(_ what: String, isGiven: @escaping @Sendable (Subject) -> Bool) {
        self.what = what
        self.isGiven = isGiven
    }
}

/// A named check of a conformance kit, for an implementation's tests to run.
public struct ConformanceCheck<Subject: Sendable>: Sendable, CustomStringConvertible {
    /// The promise, as the end of a sentence that begins with "it".
    public let name: String
    /// The source of the promise: the declaration whose documentation makes it, or the page.
    public let source: String
    /// The consequence of a broken promise.
    public let why: String
    /// Whether the check waits for a deadline of the subject: then that should be a few seconds at most.
    public let wantsHaste: Bool
    /// The parts without which the check is skipped.
    private let needs: [ConformanceNeed<Subject>]
    /// The parts without which it is run only in part.
    private let wants: [ConformanceNeed<Subject>]
    /// Whether a subject declares what the check is about; nil for a promise of all.
    private let declared: ConformanceNeed<Subject>?
    private let body: @Sendable (Subject) async throws -> Void

    /// Makes a check.
    ///
    /// - Parameters:
    ///   - name: The promise, as the end of a sentence that begins with "it".
    ///   - source: The declaration or page that makes the promise.
    ///   - why: The consequence of a broken promise.
    ///   - wantsHaste: Whether it waits for a deadline of the subject's.
    ///   - body: Throws a ``ConformanceFailure`` that says what was seen.
    public init(
        _ name: String,
        source: String,
        why: String = "",
        wantsHaste: Bool = false,
        run body: @escaping @Sendable (Subject) async throws -> Void
    ) {
        self.init(name, source: source, why: why, wantsHaste: wantsHaste, needs: [], wants: [], run: body)
    }

    init(
        _ name: String,
        source: String,
        why: String,
        wantsHaste: Bool = false,
        needs: [ConformanceNeed<Subject>],
        wants: [ConformanceNeed<Subject>] = [],
        declared: ConformanceNeed<Subject>? = nil,
        run body: @escaping @Sendable (Subject) async throws -> Void
    ) {
        self.declared = declared
        self.name = name
        self.source = source
        self.why = why
        self.wantsHaste = wantsHaste
        self.needs = needs
        self.wants = wants
        self.body = body
    }

    /// Returns the parts that a subject leaves out for the check, or that the check is about nothing declared.
    ///
    /// Nil when the whole check can run.
    public func skip(for subject: Subject) -> ConformanceSkip? {
        if let declared, !declared.isGiven(subject) {
            return ConformanceSkip(promise: name, give: [], isPartial: false, isUndeclared: true)
        }
        let missing = needs.filter { !$0.isGiven(subject) }
        let left = missing + wants.filter { !$0.isGiven(subject) }
        guard !left.isEmpty else { return nil }
        return ConformanceSkip(promise: name, give: left.map(\.what), isPartial: missing.isEmpty, isUndeclared: false)
    }

    /// Runs the check.
    ///
    /// ```swift
    /// if let skip = try await check.run(subject) { try Test.cancel("\(skip)") }
    /// ```
    ///
    /// - Parameter subject: The implementation to check.
    /// - Returns: The part that was skipped, and what to give for it, or that it is not declared; nil when the whole
    ///   check ran.
    /// - Throws: ``ConformanceFailure`` with the promise, what was seen, why it matters and the source; else what the
    ///   subject threw.
    @discardableResult
    public func run(_ subject: Subject) async throws -> ConformanceSkip? {
        let skip = skip(for: subject)
        if let skip, !skip.isPartial { return skip }
        try await promised(name, source, why: why) { try await body(subject) }
        return skip
    }

    /// The promise.
    public var description: String { name }
}
