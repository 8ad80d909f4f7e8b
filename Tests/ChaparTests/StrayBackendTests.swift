import Foundation
import Logging
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparCommands
@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
@testable import chapar

/// What `StrayStatusTests` asks of verdicts, asked of whole backends, which keep something of an answer until the next
/// send: OneSignal, IDPush in front of it, Chabok and Altcraft.
///
/// The documents ask for no pause without `Retry-After` there, so there is no row that stops a backend:
/// * OneSignal, REST API, rate limits: a 429 always names its time. One without it holds the app's quota for a second.
/// * Chabok documents no limit; Altcraft's developer guide neither.
///
/// Limits that the operator sets (`rate_per_second`, `app_message_limit`) are the gateway's own, no answer of a
/// platform.
@Suite("One odd status among a thousand good answers, through whole backends", .timeLimit(.minutes(2)))
struct StrayBackendTests {
    /// A kind and its section.
    struct Kind: CustomTestStringConvertible {
        var name: String
        var section: JSONObject
        /// Whether the platform also puts its status as a number into the body of a success.
        var numbersErrors = false

        var testDescription: String { name }
    }

    private struct NoFiles: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { throw CocoaError(.fileNoSuchFile) }
    }

    private static let app: JSONObject = ["app_id": "8b6f0c2e-1f57-4a0d-b1f4-6f1a9d3c5e77", "api_key": "os_v2_app_x"]

    static let kinds: [Kind] = [
        Kind(name: "onesignal", section: app),
        Kind(name: "idpush", section: ["project_id": "p", "onesignal": .object(app)]),
        Kind(name: "chabok", section: ["environment": "sandbox", "app_id": "shop", "access_token": "t"]),
        Kind(
            name: "altcraft",
            section: [
                "api_url": "https://pxl.test", "auth": ["kind": "rtoken", "rtoken": "r"],
                "campaign": ["url": "https://altcraft.test", "api_token": "t", "trigger_id": 13],
            ],
            numbersErrors: true
        ),
    ]

    /// The outcomes of the first message and of the next one, and the wait of the next one that the first one caused.
    private struct Seen {
        var first: DeliveryOutcome
        var second: DeliveryOutcome
        var calls: Int
        var waited: TimeInterval
    }

    private static func see(_ kind: Kind, _ odd: HTTPAnswer) async throws -> Seen {
        let factory = try #require(Plugins.program.backends.first { $0.kind.rawValue == kind.name })
        let report = ConfigReport()
        let section = ConfigSection(ConfigNode(.object(kind.section)), path: "b", report: report, files: NoFiles())
        let (answers, time) = (Recorder<Int>(), InstantTime())
        let http = ScriptedTransport { _ in
            answers.add(1)
            return .success(answers.all.count == 1 ? odd : HTTPAnswer(status: 200, body: Array("{}".utf8)))
        }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let context = BackendContext(name: "own", http: http, time: time, logger: logger)
        let made = factory.make(section, context)
        section.finish()
        let backend = try #require(made, "\(report.issues)")
        let notification = PushNotification(title: "t", body: "b")
        let first = await backend.send(notification, to: .user("user-1"))
        let (calls, before) = (http.calls.count, time.now)
        let second = await backend.send(notification, to: .user("user-2"))
        let waited = time.now.timeIntervalSince(before)
        let seen = Seen(first: first, second: second, calls: http.calls.count - calls, waited: waited)
        await backend.shutdown(grace: .zero)
        return seen
    }

    private static func isStopped(by outcome: DeliveryOutcome) -> Bool {
        StrayAnswerTests.ended(beside: outcome, at: 499) < 999
    }

    @Test("Every status lets the other 999 end within 2 s, and the next message goes out at once", arguments: kinds)
    func statuses(kind: Kind) async throws {
        guard Platforms.registered.contains(kind.name) else { return }
        for status in 300...599 {
            var answers = [HTTPAnswer(status: status)]
            if kind.numbersErrors {
                let body: JSONValue = ["error": .integer(Int64(status)), "error_text": "odd"]
                answers.append(HTTPAnswer(status: 200, body: body.bytes))
            }
            for answer in answers {
                let seen = try await Self.see(kind, answer)
                #expect(!Self.isStopped(by: seen.first), "\(status): \(seen.first)")
                #expect(!Self.isStopped(by: seen.second), "\(status): \(seen.second)")
                #expect(seen.calls == 1 && seen.waited < 2, "\(status): \(seen)")
            }
        }
    }

    @Test("A 429 that names a time stops the backend for it", arguments: kinds)
    func named(kind: Kind) async throws {
        guard Platforms.registered.contains(kind.name) else { return }
        let asked = HTTPAnswer(status: 429, headers: [HTTPHeader("retry-after", "5")])
        let seen = try await Self.see(kind, asked)
        #expect(Self.isStopped(by: seen.first), "\(seen.first)")
    }
}

/// The same over sockets: the platform's simulator gives one odd answer, and right behind it come a hundred messages.
///
/// The 2 s are the tables' (by a clock of the test); here a busy machine has its time too.
@Suite("One odd answer of a platform that keeps devices", .timeLimit(.minutes(3)))
struct StrayPlatformTests {
    /// A backend of the sandbox and its kind.
    static let backends = [("onesignal", "campaigns"), ("idpush", "idpush"), ("chabok", "chabok"), ("altcraft", "crm")]

    private static func post(_ users: ClosedRange<Int>, _ backend: String, _ client: GatewayClient) async throws
        -> String
    {
        let request: JSONValue = [
            "to": ["users": .array(users.map { .string("user-\($0)") })], "backend": .string(backend),
            "content": ["title": "Order 42", "body": "is on its way"],
        ]
        let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: UUID().uuidString)
        return try #require(answer.json["id"]?.stringValue, "\(answer)")
    }

    /// How many recipients of a message have ended.
    private static func ended(_ id: String, _ client: GatewayClient) async throws -> Int64 {
        let counts = try await client.get("/v1/notifications/\(id)").json["counts"]?.objectValue ?? JSONObject()
        return counts.filter { DeliveryState(rawValue: $0.name)?.isFinal ?? false }
            .reduce(0) { $0 + ($1.value.integerValue ?? 0) }
    }

    @Test("The messages behind it end at once", arguments: [429, 403, 500])
    func behind(status: Int) async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            for (kind, backend) in Self.backends where Platforms.registered.contains(kind) {
                let rule = FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(status, "odd")))
                switch kind {
                case "chabok": rig.sandbox.chabok.add([rule])
                case "altcraft": rig.sandbox.altcraft.add([rule])
                default: rig.sandbox.oneSignal.add([rule])
                }
                _ = try await Self.post(1...1, backend, client)
                let id = try await Self.post(2...101, backend, client)
                // A platform that is stopped is asked again after 30 s.
                try await Program.wait("the end of a hundred through \(backend)", within: .seconds(25)) { () -> Bool? in
                    try await Self.ended(id, client) == 100 ? true : nil
                }
            }
            await client.close()
        }
    }
}
