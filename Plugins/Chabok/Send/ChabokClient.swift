import Foundation
import ChaparCore
import Synchronization

/// Calls to Chabok's API: paths, access token, rate, link state, and repeats where they are safe.
///
/// All other types of the plugin call through it.
final class ChabokClient: Sendable {
    /// The longest pause between two attempts; a longer pause that the platform asks for is left to the caller.
    static let longestPause = Duration.seconds(20)

    let options: ChabokOptions
    let pool: any HTTPPool
    let time: any TimeSource
    let monitor: ChabokConnectionMonitor
    private let strategy: any AuthStrategy
    private let accessToken: ChabokAuth?
    private let budget: RequestBudget
    private let refusedToken = Mutex<String?>(nil)

    init(
        _ options: ChabokOptions,
        strategy: (any AuthStrategy)?,
        monitor: ChabokConnectionMonitor,
        context: BackendContext
    ) throws(HTTPPoolError) {
        self.options = options
        self.monitor = monitor
        time = context.time
        let own = ChabokAuth(
            options.accessToken,
            placement: options.tokenPlacement,
            origin: options.base.endpoint
        )
        accessToken = strategy == nil ? own : nil
        self.strategy = strategy ?? own
        pool = AuthorizedPool(
            try context.http.pool(options.pool),
            endpoint: options.base.endpoint,
            strategy: self.strategy
        )
        budget = RequestBudget(
            perSecond: options.requestsPerSecond,
            exhausted: ("rate_per_second is used up", "own_limit"),
            time: context.time
        )
    }

    /// The problem of the access token, after Chabok refused it; nil while it is accepted.
    var credentialAlert: String? { refusedToken.withLock { $0 } }

    /// Makes one exchange, and returns the answer as it is, with any status.
    func exchange(
        _ method: String,
        _ path: String,
        _ body: JSONValue? = nil
    ) async throws(PushError) -> Result<ChabokAnswer, HTTPFailure> {
        try await budget.reserve(within: options.common.timeout)
        var headers = [HTTPHeader("accept", "application/json")]
        if body != nil { headers.append(HTTPHeader("content-type", "application/json")) }
        let template = HTTPCallTemplate(method: method, headers: headers, deadline: options.common.timeout)
        let plain = options.base.path(path)
        let stamped = try accessToken?.stamped(plain, for: options.base.endpoint) ?? plain
        monitor.began()
        let answer: HTTPAnswer
        do throws(HTTPFailure) {
            answer = try await pool.send(HTTPCall(template, path: stamped, body: body?.bytes ?? []))
        } catch {
            monitor.failed(error)
            return .failure(redacted(error))
        }
        monitor.answered(answer.status)
        let read = ChabokAnswer(answer, retryAfter: answer.retryAfter(now: time.now))
        if read.status == 401 || read.status == 403 {
            refusedToken.withLock {
                $0 =
                    "Chabok refused the access token (\(read.status)): check access_token and environment, then reload."
            }
        } else if read.isSuccess {
            refusedToken.withLock { $0 = nil }
        }
        return .success(read)
    }

    /// Makes a call that is no send, and repeats it where that is safe and may help.
    ///
    /// - Parameters:
    ///   - method: `GET`, `POST`, `PUT` or `DELETE`.
    ///   - path: The path under the base address.
    ///   - body: The body; nil for none.
    ///   - isRepeatable: Whether a second execution does no harm; if it does, only a call that Chabok surely did not
    ///     execute is repeated.
    ///   - accepted: Statuses beyond 2xx that the caller reads itself.
    /// - Returns: The answer: a success, or one of the accepted statuses.
    /// - Throws: The error of the last attempt.
    func call(
        _ method: String,
        _ path: String,
        _ body: JSONValue? = nil,
        isRepeatable: Bool = true,
        accepting accepted: Set<Int> = []
    ) async throws(PushError) -> ChabokAnswer {
        var attempt = 1
        while true {
            let problem: PushError
            switch try await exchange(method, path, body) {
            case .success(let answer):
                if answer.isSuccess || accepted.contains(answer.status) { return answer }
                problem = ChabokRejections.error(answer)
                // Chabok also answers 500 to wrong credentials of an SDK, so such a call is repeated only once.
                if answer.status == 500, attempt > 1 { throw problem }
            case .failure(let failure):
                problem = ChabokRejections.error(failure, isRepeatable: isRepeatable)
            }
            let isPassing = problem.code == .unavailable || problem.code == .rateLimited
            guard isPassing, problem.reason != "cancelled", attempt < options.maximumAttempts else { throw problem }
            let pause = problem.retryAfter ?? Self.backoff(attempt)
            guard pause <= Self.longestPause else { throw problem }
            do {
                try await time.sleep(for: pause)
            } catch {
                throw PushError(.unavailable, "the caller was cancelled", reason: "cancelled")
            }
            attempt += 1
        }
    }

    /// Returns a path of segments, each percent-encoded as one: user ids and tags can hold any text.
    static func path(_ segments: String...) throws(PushError) -> String { try FormEncoding.path(segments) }

    func shutdown(grace: Duration) async {
        await pool.shutdown(grace: grace)
        await strategy.shutdown()
        monitor.ended()
    }

    /// Returns a random pause between half and the whole of a span that doubles with each attempt, from half a second
    /// to 20 s.
    private static func backoff(_ attempt: Int) -> Duration {
        let full = min(longestPause, .milliseconds(500) * (1 << min(attempt - 1, 10)))
        return .seconds(clamping: full.inSeconds * Double.random(in: 0.5...1))
    }

    /// Removes the token from a failure.
    ///
    /// Transports name no path, so this is a second safeguard.
    private func redacted(_ failure: HTTPFailure) -> HTTPFailure {
        guard let accessToken else { return failure }
        return HTTPFailure(failure.stage, failure.cause, accessToken.redacted(failure.detail))
    }
}
