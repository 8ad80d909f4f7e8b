internal import Foundation
public import ChaparCore

/// A source of JWTs for identities.
///
/// The SDK has `JWTInterface` for it, without the identity.
public protocol AltcraftTokenSource: Sendable {
    /// The longest time for which a JWT is cached; zero asks the source each time.
    var cacheSpan: Duration { get }
    /// Returns the JWT of an identity; nil when it has none.
    ///
    /// The implementation must have a deadline of its own.
    func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret?
    /// Ends the source after its last use.
    func shutdown(grace: Duration) async
}

extension AltcraftTokenSource {
    /// Does nothing, for sources that need no end.
    public func shutdown(grace: Duration) async {}
}

/// A source of JWTs that calls the app's own code for each request: the code should answer at once, from a cache of its
/// own.
public struct AltcraftClosureTokens: AltcraftTokenSource {
    /// The longest time for which a JWT is cached; zero unless it was given.
    public let cacheSpan: Duration
    private let deadline: Duration
    private let fetch: @Sendable (AltcraftIdentity) async throws -> String?

    /// Makes a source; the closure may take `deadline` at most.
    public init(
        cacheSpan: Duration = .zero,
        deadline: Duration = .seconds(10),
        _ fetch: @escaping @Sendable (AltcraftIdentity) async throws -> String?
    ) {
        self.cacheSpan = cacheSpan
        self.deadline = deadline
        self.fetch = fetch
    }

    /// Returns the closure's JWT; throws when it fails or gives no answer in time.
    public func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret? {
        do {
            return try await Deadline.run(deadline) { try await fetch(identity) }.map { Secret($0) }
        } catch is Deadline.Passed {
            throw PushError(.unavailable, "the app gave no JWT within \(deadline.inSeconds) s", reason: "540")
        } catch {
            throw PushError(.unavailable, "the app could not give a JWT", reason: "540")
        }
    }
}

/// A text with the placeholders `{user}` and `{device}`.
struct IdentityTemplate: Sendable {
    let text: String

    /// Returns the text with both placeholders filled; nil when it has `{user}` and the identity has no user.
    func filled(_ identity: AltcraftIdentity, _ encode: (String) -> String = { $0 }) -> String? {
        if text.contains("{user}"), identity.user == nil { return nil }
        return text.replacing("{user}", with: encode(identity.user ?? "")).replacing(
            "{device}",
            with: encode(identity.device)
        )
    }
}

/// A source of JWTs that another program writes to files, one for each user: `/run/altcraft/{user}.jwt`.
///
/// Names are percent-encoded, so that no user's name leads out of the folder. Without a file there is no JWT.
public struct AltcraftFileTokens: AltcraftTokenSource {
    /// The time for which a file's JWT is cached.
    public let cacheSpan: Duration
    private let path: IdentityTemplate

    /// Makes a source of files whose path holds `{user}` or `{device}`.
    public init(path: String, cacheSpan: Duration = .seconds(60)) {
        self.path = IdentityTemplate(text: path)
        self.cacheSpan = cacheSpan
    }

    /// Returns the content of the file; nil when there is none or it is too large.
    public func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret? {
        guard ![identity.user ?? "", identity.device].contains(where: { $0 == "." || $0 == ".." }),
            let name = path.filled(identity, { FormEncoding.encode($0) }),
            let bytes = FileManager.default.contents(atPath: name), bytes.count <= AltcraftMatching.maximumBytes * 2
        else { return nil }
        return Secret(String(decoding: bytes, as: UTF8.self))
    }
}

/// A source of JWTs that calls a web service of your own with the user and the device.
///
/// The request is a `POST` of `{"user": …, "device": …}`; the answer is the JWT as text, or JSON with `token` or `jwt`.
/// 204 and 404 mean that there is none.
public final class AltcraftURLTokens: AltcraftTokenSource {
    /// How long a JWT is kept, unless it ends sooner.
    public let cacheSpan: Duration
    private let pool: any HTTPPool
    private let path: String
    private let template: HTTPCallTemplate
    private let secret: Secret?

    /// Makes a source.
    ///
    /// - Parameters:
    ///   - url: The address of the service.
    ///   - secret: Authorizes the request, as a bearer; nil for none.
    ///   - cacheSpan: The longest time for which a JWT is cached.
    ///   - common: Trust, proxy and deadline.
    ///   - http: The transport of the requests.
    /// - Throws: When a certificate or proxy cannot work.
    public init(
        url: HTTPBaseURL,
        secret: Secret? = nil,
        cacheSpan: Duration = .seconds(300),
        common: CommonBackendOptions = CommonBackendOptions(),
        http: any HTTPTransport
    ) throws(HTTPPoolError) {
        var configuration = HTTPPoolConfiguration(endpoint: url.endpoint, version: .http1)
        common.apply(to: &configuration)
        configuration.endpoint = url.endpoint
        configuration.maximumAnswerBytes = 65_536
        pool = try http.pool(configuration)
        path = url.path.isEmpty ? "/" : url.path
        template = HTTPCallTemplate(
            method: "POST",
            headers: [HTTPHeader("content-type", "application/json"), HTTPHeader("accept", "application/json")],
            deadline: min(common.timeout, .seconds(30))
        )
        self.secret = secret
        self.cacheSpan = cacheSpan
    }

    /// Asks the service and returns the JWT of its answer.
    public func jwt(for identity: AltcraftIdentity) async throws(PushError) -> Secret? {
        let body: JSONValue = [
            "user": identity.user.map { .string($0) } ?? .null, "device": .string(identity.device),
        ]
        let headers = secret.map { [HTTPHeader("authorization", "Bearer " + $0.reveal(), .literal)] } ?? []
        let answer: HTTPAnswer
        do throws(HTTPFailure) {
            answer = try await pool.send(HTTPCall(template, path: path, headers: headers, body: body.bytes))
        } catch {
            throw PushError(.unavailable, "the service that gives JWTs: \(error.detail)", reason: "540")
        }
        switch answer.status {
        case 204, 404: return nil
        case 200..<300:
            let text: String
            switch try? JSONValue(parsing: answer.body) {
            case .object(let object)?: text = (object["token"] ?? object["jwt"])?.stringValue ?? ""
            case .string(let string)?: text = string
            default: text = String(decoding: answer.body, as: UTF8.self)
            }
            return Secret(text)
        default:
            throw PushError(
                .unavailable,
                "the service that gives JWTs answered \(answer.status)",
                reason: "540"
            )
        }
    }

    /// Closes its connections.
    public func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
}
