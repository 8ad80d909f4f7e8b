internal import Foundation
internal import ChaparCore
internal import Synchronization

/// Requests access tokens from Google's token endpoint, and makes errors of its refusals.
///
/// Source: RFC 6749 section 5.2, and Google, "Using OAuth 2.0 for server to server applications", read 2026-08.
final class GoogleTokenExchange: Sendable {
    /// The assumed lifetime of a token without `expires_in`.
    private static let assumedLifetime = Duration.seconds(300)

    private let uri: GoogleTokenURI
    private let pool: any HTTPPool
    private let time: any TimeSource
    private let offset = Mutex<Duration?>(nil)
    private let template = HTTPCallTemplate(
        method: "POST",
        headers: [
            HTTPHeader("content-type", "application/x-www-form-urlencoded"), HTTPHeader("accept", "application/json"),
        ]
    )

    init(_ uri: GoogleTokenURI, common: CommonBackendOptions, context: BackendContext) throws(HTTPPoolError) {
        self.uri = uri
        time = context.time
        var configuration = HTTPPoolConfiguration(endpoint: uri.endpoint, version: .http1)
        common.apply(to: &configuration)
        configuration.endpoint = uri.endpoint
        configuration.maximumConnections = 1
        configuration.maximumAnswerBytes = 1 << 16
        pool = try context.http.pool(configuration)
    }

    /// The time by which this machine's clock is ahead of the endpoint's; nil before its first answer.
    var clockOffset: Duration? { offset.withLock { $0 } }

    func token(_ form: [(name: String, value: String)]) async throws(PushError) -> AccessToken {
        let answer: HTTPAnswer
        do throws(HTTPFailure) {
            answer = try await pool.send(HTTPCall(template, path: uri.path, body: FormEncoding.body(form)))
        } catch {
            throw PushError(
                .unavailable,
                "\(uri.endpoint) gave no answer: \(error.detail)",
                reason: "token_unavailable"
            )
        }
        if let date = answer.date {
            let ahead = Duration.seconds(clamping: time.now.timeIntervalSince(date))
            offset.withLock { $0 = ahead }
        }
        let object = (try? JSONValue(parsing: answer.body))?.objectValue
        guard answer.status == 200 else { throw refusal(answer, object) }
        guard let value = object?["access_token"]?.stringValue, !value.isEmpty,
            value.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else {
            throw PushError(
                .badAnswer,
                "\(uri.endpoint) gave no access token: is token_uri right?",
                reason: "bad_answer"
            )
        }
        return AccessToken(Secret(value), lifetime: lifetime(object?["expires_in"]))
    }

    func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }

    private func lifetime(_ value: JSONValue?) -> Duration {
        guard let seconds = value?.integerValue ?? value?.stringValue.flatMap({ Int64($0) }), seconds > 0 else {
            return Self.assumedLifetime
        }
        return .seconds(min(seconds, 86400))
    }

    private func refusal(_ answer: HTTPAnswer, _ object: JSONObject?) -> PushError {
        let reason = object?["error"]?.stringValue.flatMap(\.asReasonLabel) ?? "http_\(answer.status)"
        func refused(_ text: String) -> PushError { PushError(.credentialsRefused, text, reason: reason) }
        switch (answer.status, reason) {
        case (429, _), (500..., _):
            return PushError(
                .unavailable,
                "the token endpoint answered \(answer.status)",
                reason: reason,
                retryAfter: answer.retryAfter(now: time.now)
            )
        case (_, "invalid_grant"): return refused("Google refused the assertion (invalid_grant): \(clockHint)")
        case (_, "invalid_scope"): return refused("Google refused the scope: the account may not use Cloud Messaging.")
        case (401, _): return refused("Google does not know the client (\(reason)): use a new key of the account.")
        case (403, _): return refused("An organisation policy forbids the account to get tokens (\(reason)).")
        case (404, _): return refused("\(uri.description) is no token endpoint: check token_uri in the key file.")
        default: return refused("The token endpoint answered \(answer.status) \(reason).")
        }
    }

    private var clockHint: String {
        let skew = clockOffset.map { Int(clamping: $0.inSeconds.rounded()) } ?? 0
        if abs(skew) > 60 {
            return "this machine's clock is \(abs(skew)) s \(skew > 0 ? "ahead of" : "behind") Google's, set it."
        }
        return "the key was deleted or the account disabled, or this machine's clock is wrong."
    }
}
