/// A promise of a protocol that an implementation did not keep: what was expected, and what happened.
public struct ConformanceFailure: Error, Sendable, CustomStringConvertible {
    /// The sentence: what was seen, and once it leaves a check also the promise and where it is made.
    public let description: String

    /// Makes a failure.
    public init(_ description: String) { self.description = description }

    /// A failure as its check tells it: the promise, what was seen, why it matters, and where to read on.
    init(promise: String, seen: String, why: String, source: String) {
        let reason = why.isEmpty ? "" : "\n  why it matters: \(why)"
        description = """
            broken promise: it \(promise)
              seen: \(seen)\(reason)
              source: \(source)
              page: \(Self.page)
            """
    }

    /// Where every promise is explained, with what a subject gives for it.
    static let page = "docs/Plugins.md, section \"The kit\""
}

/// Throws with the sentence unless the claim holds: how the conformance kits speak, without a testing library.
func expect(_ claim: Bool, _ sentence: @autoclosure () -> String) throws(ConformanceFailure) {
    if !claim { throw ConformanceFailure(sentence()) }
}

/// Runs a check; a failure leaves it with the promise, the reason for it and its source.
func promised(_ promise: String, _ source: String, why: String = "", _ check: () async throws -> Void) async throws {
    do {
        try await check()
    } catch let failure as ConformanceFailure {
        throw ConformanceFailure(promise: promise, seen: failure.description, why: why, source: source)
    }
}

/// A check, or a part of one, that could not be asked, since its subject does not give what it needs.
public struct ConformanceSkip: Sendable, Hashable, CustomStringConvertible {
    /// The promise, as the end of a sentence that begins with "it".
    public let promise: String
    /// What the subject has to give, a sentence each.
    public let give: [String]
    /// Whether the rest of the check was asked.
    public let isPartial: Bool

    /// One line, for `Test.cancel` and logs.
    public var description: String {
        "\(isPartial ? "asked in part" : "not asked"): it \(promise); give \(give.joined(separator: "; "))"
    }
}

/// Something that a check uses and that a subject may leave out.
struct ConformanceNeed<Subject: Sendable>: Sendable {
    /// What to give.
    let what: String
    /// Whether it is there.
    let isGiven: @Sendable (Subject) -> Bool

    init(_ what: String, isGiven: @escaping @Sendable (Subject) -> Bool) {
        self.what = what
        self.isGiven = isGiven
    }
}

/// One named check of a conformance kit, for an implementation's tests to run.
public struct ConformanceCheck<Subject: Sendable>: Sendable, CustomStringConvertible {
    /// The promise, as the end of a sentence that begins with "it".
    public let name: String
    /// Where the promise is made: the declaration whose documentation says so, or the article.
    public let source: String
    /// What goes wrong where the promise is broken.
    public let why: String
    /// Whether the check waits for a deadline of the subject's: then that should be short, a few seconds at the most.
    public let wantsHaste: Bool
    /// Without these there is nothing to ask.
    private let needs: [ConformanceNeed<Subject>]
    /// Without these a part of it is not asked.
    private let wants: [ConformanceNeed<Subject>]
    private let body: @Sendable (Subject) async throws -> Void

    /// Makes a check.
    ///
    /// - Parameters:
    ///   - name: The promise, as the end of a sentence that begins with "it".
    ///   - source: Where the promise is made.
    ///   - why: What goes wrong where it is broken.
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
        run body: @escaping @Sendable (Subject) async throws -> Void
    ) {
        self.name = name
        self.source = source
        self.why = why
        self.wantsHaste = wantsHaste
        self.needs = needs
        self.wants = wants
        self.body = body
    }

    /// What a subject leaves out that the check uses; nil when all of it is asked.
    public func skip(for subject: Subject) -> ConformanceSkip? {
        let missing = needs.filter { !$0.isGiven(subject) }
        let left = missing + wants.filter { !$0.isGiven(subject) }
        guard !left.isEmpty else { return nil }
        return ConformanceSkip(promise: name, give: left.map(\.what), isPartial: missing.isEmpty)
    }

    /// Runs the check.
    ///
    /// ```swift
    /// if let skip = try await check.run(subject) { try Test.cancel("\(skip)") }
    /// ```
    ///
    /// - Parameter subject: What is checked.
    /// - Returns: What was not asked, and what to give for it; nil when all of it was.
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
