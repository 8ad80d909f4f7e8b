public import Foundation
internal import ChaparAPI
public import ChaparCore

/// The reason why a gateway did not do what the program asked for.
///
/// Each function of ``Gateway`` that does the work of an HTTP request throws it; its codes are those of the API.
/// Nothing was stored, with one exception: after `store_failed` it is unknown whether the work was done. Then call the
/// function again; repeat ``Gateway/accept(_:to:route:backend:app:idempotencyKey:)`` with the same idempotency key.
public struct GatewayProblem: Error, Sendable, Hashable, CustomStringConvertible, LocalizedError {
    /// The stable code for programs: `invalid_request` when fields are wrong, `not_found`, or another of those in
    /// docs/API.md.
    public let code: String
    /// A short sentence that says what is wrong.
    public let title: String
    /// The fix.
    public let detail: String?
    /// The wrong fields, each with its place in the API's form (`#/content/title`), a code for programs and the fix; at
    /// most 100.
    public let errors: [Finding]
    /// The time after which the same call may succeed; nil when it never will.
    public let retryAfter: Duration?

    init(_ problem: Problem) {
        code = problem.code
        title = problem.title
        detail = problem.detail
        errors = problem.errors
        retryAfter = problem.isRetryable ? problem.retryAfter ?? .seconds(1) : nil
    }

    /// The title, with the fields and their fixes, or else the fix of the whole.
    public var description: String {
        let fields = errors.map { "\($0.pointer): \($0.detail)" }
        return ([title] + (fields.isEmpty ? [detail].compactMap { $0 } : fields)).joined(separator: "; ")
    }

    /// The same text, for Foundation.
    public var errorDescription: String? { description }
}
