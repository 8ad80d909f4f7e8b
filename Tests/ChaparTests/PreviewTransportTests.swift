import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparCommands

@Suite("The requests of a dry run", .timeLimit(.minutes(1)))
struct PreviewTransportTests {
    private static let push = HTTPEndpoint(host: "sim1.notify.example")

    private static func pool(_ transport: any HTTPTransport) throws -> any HTTPPool {
        try transport.pool(HTTPPoolConfiguration(endpoint: push, version: .http1))
    }

    private static func call(_ path: String, _ body: String, method: String = "POST") -> HTTPCall {
        HTTPCall(HTTPCallTemplate(method: method), path: path, body: Array(body.utf8))
    }

    private static let grant = call("/token", "grant_type=client_credentials&client_secret=hidden")

    @Test("A recipient that is an address is found by it")
    func address() async throws {
        let preview = PreviewTransport()
        let pool = try Self.pool(preview)
        for call in [Self.grant, Self.call("/?token=one", "<a/>"), Self.call("/?token=two", "<b/>")] {
            _ = try await pool.send(call)
        }
        for (token, body) in [("two", "<b/>"), ("one", "<a/>")] {
            let recipient = Recipient.token(
                DeviceToken("https://sim1.notify.example/?token=\(token)", service: TokenService(rawValue: "x-bell"))
            )
            #expect(preview.request(of: .random(), to: recipient)?["body"]?.stringValue == body)
        }
    }

    @Test("Calls without a mark are shown in order, the last one for those that follow, and never a grant or a look-up")
    func order() async throws {
        let preview = PreviewTransport()
        let pool = try Self.pool(preview)
        #expect(preview.request(of: .random(), to: .user("u")) == nil)
        for call in [Self.grant, Self.call("/find", "", method: "GET"), Self.call("/1", "a"), Self.call("/2", "b")] {
            _ = try await pool.send(call)
        }
        let shown = (0..<3).map { _ in preview.request(of: .random(), to: .user("nobody"))?["body"]?.stringValue }
        #expect(shown == ["a", "b", "b"])
        #expect(preview.request(of: .random(), to: .everyone)?.text.contains("hidden") != true)
    }

    @Test("A plugin's own yes answers messages; a request for a credential gets a token")
    func ownAnswer() async throws {
        let yes = HTTPAnswer(status: 202, headers: [HTTPHeader("x-status", "received")])
        let pool = try Self.pool(PreviewTransport().answering(yes))
        let answer = try await pool.send(Self.call("/1", "a"))
        #expect(answer.status == 202 && answer.header("x-status") == "received")
        let token = try await pool.send(Self.grant)
        #expect(token.status == 200 && (try? JSONValue(parsing: token.body))?["access_token"] != nil)
    }

    @Test("A backend gets the yes of its factory")
    func factory() async throws {
        let preview = PreviewTransport()
        let yes = HTTPAnswer(status: 299)
        let factory = BackendFactory("own", summary: "Own", previewAnswer: yes) { _, context in
            guard let pool = try? Self.pool(context.http) else { return nil }
            return OwnBackend(pool: pool)
        }
        let sections = SampleSection(["one": ["kind": "own"]])
        let made = try BackendRegistry([factory]).backends(in: sections.section) { name in
            BackendContext(name: name, http: preview, logger: RecordedLog().logger)
        }
        let backend = try #require(made.first, "\(sections.issues)").backend
        guard case .accepted(let acceptance) = await backend.send(PushNotification(title: "t"), to: .everyone) else {
            Issue.record("it was not accepted")
            return
        }
        #expect(acceptance.status == 299)
    }

    /// Reports the status of the answer as that of an acceptance.
    private struct OwnBackend: PushBackend {
        let kind: BackendKind = "own"
        let audience = BackendAudience(forms: [.everyone])
        let pool: any HTTPPool

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            let answer = try? await pool.send(PreviewTransportTests.call("/1", "a"))
            let outcome = DeliveryOutcome.accepted(Acceptance(status: answer?.status))
            report([DeliveryReport(request: 0, recipient: 0, outcome: outcome)])
        }
    }
}
