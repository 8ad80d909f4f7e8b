import Foundation
import ChaparCore
import ChaparOAuth
import ChaparTesting
import Synchronization
import Testing

@Suite("OAuth 2 client credentials", .timeLimit(.minutes(1)))
struct OAuth2ClientCredentialsTests {
    private static let push = HTTPEndpoint(host: "sim1.notify.example")
    private static let secret = "planted-secret-7"

    /// A token endpoint, a clock, and the strategy that asks it.
    private final class Rig: Sendable {
        let offset = Mutex(Duration.zero)
        let answer: Mutex<HTTPAnswer?>
        let time = InstantTime()
        private let start = ContinuousClock.now
        private let count = Mutex(0)

        /// With nil the endpoint gives a new token each time.
        init(_ answer: HTTPAnswer? = nil) { self.answer = Mutex(answer) }

        var transport: ScriptedTransport {
            ScriptedTransport { [self] _ in
                if let answer = answer.withLock({ $0 }) { return .success(answer) }
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                let body: JSONValue = [
                    "access_token": .string("token-\(number)"), "token_type": "bearer", "expires_in": 3600,
                ]
                return .success(HTTPAnswer(status: 200, body: body.bytes))
            }
        }

        func strategy(
            _ transport: ScriptedTransport,
            scope: String? = "notify.example",
            authentication: OAuth2Settings.ClientAuthentication = .post
        ) throws -> OAuth2ClientCredentials {
            try OAuth2ClientCredentials(
                tokenURL: try #require(HTTPBaseURL(url: "https://login.example/accesstoken.srf")),
                id: "ms-app://1",
                secret: Secret(secret),
                scope: scope,
                authentication: authentication,
                covers: { $0.isBelow("notify.example") },
                http: transport,
                time: time,
                now: { [self] in start + offset.withLock { $0 } }
            )
        }
    }

    @Test("They keep the promises of an AuthStrategy", arguments: AuthStrategyConformance.checks)
    func conformance(check: AuthStrategyConformance.Check) async throws {
        let rig = Rig()
        let transport = rig.transport
        try await check.run(
            .init(
                strategy: try rig.strategy(transport),
                destination: Self.push,
                refreshes: { transport.calls.count },
                curable: (401, nil),
                hopeless: (403, "Forbidden"),
                age: { rig.offset.withLock { $0 += .seconds(60) } }
            )
        )
    }

    static let forms: [(OAuth2Settings.ClientAuthentication, String, String?)] = [
        (
            .post,
            "grant_type=client_credentials&scope=notify.example&client_id=ms-app%3A%2F%2F1&client_secret=planted-secret-7",
            nil
        ),
        (.none, "grant_type=client_credentials&scope=notify.example&client_id=ms-app%3A%2F%2F1", nil),
        (
            .basic, "grant_type=client_credentials&scope=notify.example",
            "Basic bXMtYXBwJTNBJTJGJTJGMTpwbGFudGVkLXNlY3JldC03"
        ),
    ]

    @Test("The request is the one of RFC 6749", arguments: forms)
    func form(authentication: OAuth2Settings.ClientAuthentication, form: String, authorization: String?) async throws {
        let rig = Rig()
        let transport = rig.transport
        let strategy = try rig.strategy(transport, authentication: authentication)
        let credential = try await strategy.credential(for: Self.push)
        #expect(credential.httpHeaders == [HTTPHeader("authorization", "Bearer token-1")])
        let call = try #require(transport.calls.first)
        #expect(call.method == "POST" && call.path == "/accesstoken.srf" && call.endpoint.host == "login.example")
        #expect(call.header("content-type") == "application/x-www-form-urlencoded")
        #expect(call.text == form && call.header("authorization") == authorization)
    }

    static let refusals: [(HTTPAnswer, PushError.Code, String, Duration?)] = [
        (
            HTTPAnswer(status: 429, headers: [HTTPHeader("retry-after", "30")]), .rateLimited, "http_429",
            .seconds(30)
        ),
        (
            HTTPAnswer(status: 503, headers: [HTTPHeader("retry-after", "120")]), .unavailable, "http_503",
            .seconds(120)
        ),
        (HTTPAnswer(status: 500), .unavailable, "http_500", nil),
        (
            HTTPAnswer(status: 401, body: Array(#"{"error":"invalid_client"}"#.utf8)), .credentialsRefused,
            "invalid_client", nil
        ),
        (
            HTTPAnswer(status: 400, body: Array(#"{"error":"planted-secret-7"}"#.utf8)), .credentialsRefused,
            "http_400", nil
        ),
        (HTTPAnswer(status: 404), .credentialsRefused, "http_404", nil),
        (HTTPAnswer(status: 200, body: Array("<html>".utf8)), .badAnswer, "malformed_response", nil),
        (
            HTTPAnswer(status: 200, body: Array(#"{"access_token":"a\r\nb: c"}"#.utf8)), .badAnswer,
            "malformed_response", nil
        ),
        (
            HTTPAnswer(status: 200, body: Array(#"{"access_token":"a","token_type":"mac"}"#.utf8)),
            .credentialsRefused, "unsupported_token_type", nil
        ),
    ]

    @Test("A refusal says who must act and when, and never the secret", arguments: refusals)
    func refusal(answer: HTTPAnswer, code: PushError.Code, reason: String, pause: Duration?) async throws {
        let rig = Rig(answer)
        let strategy = try rig.strategy(rig.transport)
        let error = await #expect(throws: PushError.self) { try await strategy.credential(for: Self.push) }
        #expect(error?.code == code && error?.reason == reason && error?.retryAfter == pause)
        let finding = await strategy.diagnose()
        #expect(finding.verdict == .failure && finding.fix?.isEmpty == false)
        for words in [error?.message ?? "", finding.finding, finding.fix ?? ""] {
            #expect(!words.contains(Self.secret))
        }
    }

    @Test("No address outside the rule gets the token, and none that looks like one inside")
    func hosts() async throws {
        let rig = Rig()
        let transport = rig.transport
        let strategy = try rig.strategy(transport)
        let others = [
            "https://notify.example", "https://evilnotify.example", "https://a.notify.example.evil.test",
            "http://a.notify.example", "https://a.notify.example:8443",
        ]
        for text in others {
            let endpoint = try #require(HTTPEndpoint(url: text))
            #expect(!strategy.covers(endpoint, path: "/"))
            await #expect(throws: PushError.self) { try await strategy.credential(for: endpoint) }
        }
        #expect(transport.calls.isEmpty)
    }

    @Test("A diagnosis asks each time, while the token is kept")
    func diagnosis() async throws {
        let rig = Rig()
        let transport = rig.transport
        let strategy = try rig.strategy(transport)
        _ = try await strategy.credential(for: Self.push)
        #expect(await strategy.diagnose().verdict == .ok)
        #expect(transport.calls.count == 2)
        rig.answer.withLock { $0 = HTTPAnswer(status: 503) }
        #expect(await strategy.diagnose().verdict == .failure)
        #expect(try await strategy.credential(for: Self.push).httpHeaders.first?.value == "Bearer token-1")
        #expect(transport.calls.count == 3)
    }

    @Test("One odd answer of the endpoint reaches no message")
    func repetition() async throws {
        let odd = Mutex(true)
        let transport = ScriptedTransport { _ in
            let isOdd = odd.withLock { odd in
                defer { odd = false }
                return odd
            }
            let body: JSONValue = ["access_token": "t"]
            return .success(isOdd ? HTTPAnswer(status: 502) : HTTPAnswer(status: 200, body: body.bytes))
        }
        let rig = Rig()
        let strategy = try rig.strategy(transport)
        _ = try await strategy.credential(for: Self.push)
        #expect(transport.calls.count == 2 && rig.time.slept == [.seconds(1)])
    }

    @Test("After its shutdown it asks no more")
    func shutdown() async throws {
        let rig = Rig()
        let transport = rig.transport
        let strategy = try rig.strategy(transport)
        await strategy.shutdown(grace: .milliseconds(10))
        await #expect(throws: PushError.self) { try await strategy.credential(for: Self.push) }
        #expect(transport.calls.isEmpty)
    }
}
