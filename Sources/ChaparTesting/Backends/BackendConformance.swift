internal import ChaparCore

/// The promises of every `PushBackend`, as checks that a plugin's tests run against their own simulator.
///
/// Each check gets a fresh subject. Nothing here depends on a platform. The checks follow the backend's declarations: a
/// form, a token service or an ability that it does not declare is not checked, and a declared one without effect
/// fails.
///
/// ```swift
/// @Test("It keeps the promises of a backend", arguments: BackendConformance.checks)
/// func conformance(check: BackendConformance.Check) async throws {
///     try await Harness.run(timeout: check.wantsHaste ? .seconds(3) : .seconds(60)) { harness in
///         try await check.run(BackendConformance.Subject(backend: harness.backend, …))
///     }
/// }
/// ```
public enum BackendConformance {
    /// A check of this kit.
    public typealias Check = ConformanceCheck<Subject>

    /// Returns the checks that would be skipped, since a subject does not give what they need.
    ///
    /// A test that expects it to be empty keeps a kit from skipping checks unnoticed.
    ///
    /// Checks of what is not declared are not among them: see ``undeclared(_:)``.
    public static func skips(_ subject: Subject) -> [ConformanceSkip] {
        checks.compactMap { $0.skip(for: subject) }.filter { !$0.isUndeclared }
    }

    /// Returns the checks that have nothing to ask, since the backend does not declare the ability, or the subject says
    /// that the platform lacks the trait.
    public static func undeclared(_ subject: Subject) -> [ConformanceSkip] {
        checks.compactMap { $0.skip(for: subject) }.filter(\.isUndeclared)
    }

    /// All checks.
    public static let checks: [Check] = identity + sending + requests + refusing + troubles + endings + abilities

    /// The checks of what goes out, and of what the platform says to it.
    private static let requests: [Check] = contents + verdicts
}
