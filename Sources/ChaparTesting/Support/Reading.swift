package import ChaparCore

/// Runs a call to a platform and returns its error; nil after a success.
package func failure(_ body: () async throws(PushError) -> Void) async -> PushError? {
    do throws(PushError) {
        try await body()
        return nil
    } catch {
        return error
    }
}

/// Runs `body`, and `end` after it in any case: the base of a test's harness.
package func finally<Value>(
    _ body: () async throws -> Value,
    isolation: isolated (any Actor)? = #isolation,
    _ end: () async -> Void
) async throws -> Value {
    let result: Result<Value, any Error>
    do {
        result = .success(try await body())
    } catch {
        result = .failure(error)
    }
    await end()
    return try result.get()
}

extension DeliveryOutcome {
    /// The acceptance, when it is one.
    package var acceptance: Acceptance? { if case .accepted(let acceptance) = self { acceptance } else { nil } }

    /// The refusal, when it is one.
    package var refusal: Refusal? { if case .refused(let refusal) = self { refusal } else { nil } }

    /// The details of an unknown outcome, when it is one.
    package var unknown: UnknownOutcome? { if case .unknown(let unknown) = self { unknown } else { nil } }

    /// A few words for tables: `accepted`, `token unregistered`, `unknown deadline`.
    package var word: String {
        switch self {
        case .accepted: "accepted"
        case .refused(let refusal): "\(refusal.kind.rawValue) \(refusal.reason)"
        case .unknown(let unknown): "unknown \(unknown.reason)"
        }
    }
}
