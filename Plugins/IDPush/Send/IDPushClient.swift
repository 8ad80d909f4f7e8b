public import ChaparCore

/// Exchanges with IDPush over HTTP: no state, one request for each call.
///
/// The facade and the server-side backend both send through it.
public struct IDPushClient: Sendable {
    /// Where IDPush listens.
    public static let address = HTTPBaseURL(HTTPEndpoint(host: "idpush.top"), path: "/api/v1")

    let pool: any HTTPPool
    private let base: HTTPBaseURL
    private let template: HTTPCallTemplate

    /// Makes a client.
    ///
    /// - Parameters:
    ///   - base: Where IDPush, or its simulator, listens; a slash at its end makes no difference.
    ///   - common: How to connect.
    ///   - http: The transport that it sends through.
    /// - Throws: When certificates or proxy cannot work.
    public init(
        base: HTTPBaseURL = Self.address,
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(30)),
        http: any HTTPTransport
    ) throws(HTTPPoolError) {
        self.base = base
        var configuration = HTTPPoolConfiguration(endpoint: base.endpoint, version: .http1)
        common.apply(to: &configuration)
        configuration.endpoint = base.endpoint
        configuration.connectTimeout = .seconds(15)
        pool = try http.pool(configuration)
        template = HTTPCallTemplate(
            method: "POST",
            headers: [
                HTTPHeader("accept", "application/json"),
                HTTPHeader("content-type", "application/x-www-form-urlencoded"),
            ],
            deadline: common.timeout
        )
    }

    /// Sends a request and returns the answer with any status.
    public func exchange(_ request: IDPushRequest) async throws(HTTPFailure) -> HTTPAnswer {
        try await pool.send(HTTPCall(template, path: base.path(request.path), body: request.body))
    }

    /// Sends a request and reads the answer; no answer is ``IDPushActionError/custom(message:)``.
    public func perform(
        _ request: IDPushRequest,
        for action: IDPushAction,
        acceptsAny2xx: Bool = false
    ) async -> IDPushReply {
        do throws(HTTPFailure) {
            let answer = try await exchange(request)
            return IDPushReply(status: answer.status, body: answer.body, for: action, acceptsAny2xx: acceptsAny2xx)
        } catch {
            let message = error.cause == .cancelled ? "cancelled" : error.detail
            return IDPushReply(.custom(message: message), nil)
        }
    }

    /// Ends the connections.
    public func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
}
