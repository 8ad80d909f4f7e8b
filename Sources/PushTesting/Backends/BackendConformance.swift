internal import PushCore

/// What every `PushBackend` promises, as checks that a plugin's tests run against their own simulator.
///
/// Each check gets a fresh subject. Nothing here knows a platform. The checks go by what the backend declares: a form,
/// a token service or an ability that it does not declare is not asked for, and one that it declares and that does
/// nothing fails.
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

    /// What the checks would not ask of a subject, since it does not give what they need.
    ///
    /// A test that expects it to be empty keeps a kit from growing silent.
    public static func skips(_ subject: Subject) -> [ConformanceSkip] { checks.compactMap { $0.skip(for: subject) } }

    /// All checks.
    public static let checks: [Check] = identity + sending + refusing + troubles + endings + abilities
}
