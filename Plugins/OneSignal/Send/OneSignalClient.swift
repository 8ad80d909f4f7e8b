import Foundation
import ChaparCore

/// Calls to OneSignal's API: paths, headers, budgets, deadlines.
///
/// All other types of the plugin send through it.
final class OneSignalClient: Sendable {
    /// Which of the platform's quotas a call counts against.
    enum Quota {
        /// Creating and cancelling messages, which share one.
        case messages
        /// Users and subscriptions.
        case writes
        /// Reads: one a second for each app.
        case views
    }

    private static let exhausted = (message: "the platform's quota is used up", reason: "quota")

    let options: OneSignalOptions
    let pool: any HTTPPool
    let time: any TimeSource
    private let strategy: any AuthStrategy
    private let messages: RequestBudget
    private let writes: RequestBudget
    private let views: RequestBudget

    init(_ options: OneSignalOptions, strategy: (any AuthStrategy)?, context: BackendContext) throws(HTTPPoolError) {
        self.options = options
        time = context.time
        self.strategy = strategy ?? OneSignalAuth(options)
        pool = AuthorizedPool(
            try context.http.pool(options.pool),
            endpoint: options.base.endpoint,
            strategy: self.strategy
        )
        messages = RequestBudget(perSecond: Double(options.requestLimit), exhausted: Self.exhausted, time: time)
        writes = RequestBudget(perSecond: 500, exhausted: Self.exhausted, time: time)
        views = RequestBudget(perSecond: 1, exhausted: Self.exhausted, time: time)
    }

    /// Makes one exchange, and returns the answer as it is, with any status.
    func exchange(
        _ method: String,
        _ path: String,
        _ body: [UInt8] = [],
        quota: Quota
    ) async throws(PushError) -> Result<OneSignalAnswer, HTTPFailure> {
        try await budget(quota).reserve(within: options.common.timeout)
        var headers = [HTTPHeader("accept", "application/json")]
        if !body.isEmpty { headers.append(HTTPHeader("content-type", "application/json; charset=utf-8")) }
        let template = HTTPCallTemplate(method: method, headers: headers, deadline: options.common.timeout)
        let answer: HTTPAnswer
        do throws(HTTPFailure) {
            answer = try await pool.send(HTTPCall(template, path: options.base.path(path), body: body))
        } catch {
            return .failure(error)
        }
        let read = OneSignalAnswer(answer, now: time.now)
        if read.status == 429 { await budget(quota).pause(read.retryAfter ?? .seconds(1)) }
        return .success(read)
    }

    /// Makes one exchange that is no send; throws for any status other than 2xx that `accepting` does not allow.
    func call(
        _ method: String,
        _ path: String,
        _ body: JSONValue? = nil,
        quota: Quota,
        accepting accepted: (OneSignalAnswer) -> Bool = { _ in false }
    ) async throws(PushError) -> OneSignalAnswer {
        switch try await exchange(method, path, body?.bytes ?? [], quota: quota) {
        case .success(let answer):
            guard (200..<300).contains(answer.status) || accepted(answer) else {
                throw OneSignalRejections.error(answer)
            }
            return answer
        case .failure(let failure): throw failure.pushError
        }
    }

    /// Returns a path of segments, each percent-encoded: user ids may hold `@`, `/` and spaces.
    static func path(_ segments: String...) throws(PushError) -> String { try FormEncoding.path(segments) }

    func shutdown(grace: Duration) async {
        await pool.shutdown(grace: grace)
        await strategy.shutdown()
    }

    private func budget(_ quota: Quota) -> RequestBudget {
        switch quota {
        case .messages: messages
        case .writes: writes
        case .views: views
        }
    }
}
