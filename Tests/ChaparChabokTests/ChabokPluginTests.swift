import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparChabok
@testable import ChaparChabokSDK

/// Configuration, addresses, the access token and the link: specs/chabok.md sections 8, 15, 16 and 21.
@Suite("Chabok: options, access token, link", .timeLimit(.minutes(1)))
struct ChabokPluginTests {
    struct Files: ConfigFileReader {
        struct Missing: Error {}
        func contents(of path: String) throws -> [UInt8] { throw Missing() }
    }

    static func load(_ values: [(String, String)]) throws -> (ChabokBackend?, [String]) {
        try load(values.map { ($0.0, .scalar($0.1)) })
    }

    private static let origin = ConfigOrigin(file: "chapar.yaml", line: 1, column: 1)

    private static func map(_ pairs: [(String, ConfigNode.Value)]) -> ConfigNode.Value {
        .map(pairs.map { .init(key: $0.0, keyOrigin: origin, node: ConfigNode($0.1, origin: origin)) })
    }

    static func load(_ values: [(String, ConfigNode.Value)]) throws -> (ChabokBackend?, [String]) {
        let own = [("kind", ConfigNode.Value.scalar("chabok"))] + values
        let node = ConfigNode(map([("chabok", map(own))]), origin: origin)
        let report = ConfigReport()
        let section = ConfigSection(node, path: "backends", report: report, files: Files())
        let made = try BackendRegistry([.chabok]).backends(in: section) { name in
            BackendContext(name: name, http: ScriptedTransport(), logger: quiet)
        }
        return (made.first?.backend as? ChabokBackend, report.issues.map(\.description))
    }

    @Test("A whole section makes a backend")
    func section() throws {
        let (backend, issues) = try Self.load([
            ("environment", "production"), ("app_id", "shop-demo/4411"), ("access_token", "t0k3n"),
            ("token_placement", "both"), ("default_mechanism", "notification"), ("rate_per_second", "5"),
            ("webhook_secret", "0123456789abcdef"),
        ])
        #expect(issues.isEmpty)
        let options = try #require(backend?.client.options)
        #expect("\(options.base)" == "https://shop.push.adpdigital.com/api/")
        #expect(options.tokenPlacement == .both && options.mechanism == .notification)
        #expect(options.common.timeout == .seconds(15) && options.appID == "shop-demo")
        #expect(backend?.receipts != nil)
    }

    static let mistakes: [([(String, String)], [String])] = [
        ([], ["environment", "access_token"]), ([("environment", "live"), ("access_token", "x")], ["environment"]),
        ([("environment", "production"), ("access_token", "x")], ["app_id"]),
        ([("environment", "sandbox"), ("access_token", " ")], ["access_token"]),
        ([("environment", "sandbox"), ("access_token", "x"), ("app_id", "a.b")], ["app_id"]),
        ([("environment", "sandbox"), ("access_token", "x"), ("acess", "y")], ["acess"]),
        ([("environment", "sandbox"), ("access_token", "x"), ("default_channel", "a/b/c")], ["default_channel"]),
        ([("environment", "sandbox"), ("access_token", "x"), ("webhook_secret", "short")], ["webhook_secret"]),
    ]

    @Test("The configured display options are in the answers to clicks")
    func display() async throws {
        let base: [(String, ConfigNode.Value)] = [
            ("environment", .scalar("sandbox")), ("access_token", .scalar("x")),
        ]
        let channels = Self.map([
            ("ads", Self.map([("alert", .scalar("false"))])), ("news", Self.map([("sound", .scalar("bell.caf"))])),
        ])
        let (backend, issues) = try Self.load(base + [("display", Self.map([("channels", channels)]))])
        #expect(issues.isEmpty)
        let reader = try #require(backend?.clicks)
        func shown(_ channel: String, _ reader: any ClickReader) async throws -> JSONValue? {
            let message: JSONObject = ["id": "m1", "content": "Hi", "channel": .string(channel)]
            let click = ReportedClick(["message": .object(message)], action: nil, at: Date(timeIntervalSince1970: 1))
            return try await reader.read(click).notification["display"]
        }
        #expect(try await shown("ads", reader) == nil)
        #expect(try await shown("news", reader) == ["sound": "bell.caf", "body": "Hi", "group": "news"])
        let (silent, _) = try Self.load(base + [("display", Self.map([("silent", .scalar("true"))]))])
        #expect(try await shown("news", try #require(silent?.clicks)) == nil)
        let wrong = Self.map([("channels", Self.map([("a/b/c", Self.map([("alarm", .scalar("x"))]))]))])
        let (none, mistakes) = try Self.load(base + [("display", wrong)])
        #expect(none == nil)
        for (key, issue) in zip(["a/b/c", "a/b/c.alarm"], mistakes) {
            #expect(issue.contains("backends.chabok.display.channels.\(key)"), "\(issue)")
        }
        #expect(mistakes.count == 2)
    }

    @Test("Every mistake of a section is told, with its key", arguments: mistakes)
    func mistake(values: [(String, String)], keys: [String]) throws {
        let (backend, issues) = try Self.load(values)
        #expect(backend == nil)
        #expect(issues.count == keys.count, "\(issues)")
        for (key, issue) in zip(keys, issues) { #expect(issue.contains("backends.chabok.\(key)"), "\(issue)") }
    }

    static let hosts: [(String?, ChabokOptions.Environment, String)] = [
        ("shop", .production, "shop.push.adpdigital.com"), ("shop-demo", .production, "shop.push.adpdigital.com"),
        ("chabok-demo", .production, "push.adpdigital.com"), ("adp-bms-push", .production, "push.adpdigital.com"),
        ("shop/4411", .production, "shop.push.adpdigital.com"), ("shop", .sandbox, "sandbox.push.adpdigital.com"),
        (nil, .sandbox, "sandbox.push.adpdigital.com"),
    ]

    @Test("The host follows from app and environment", arguments: hosts)
    func host(app: String?, environment: ChabokOptions.Environment, host: String) {
        #expect("\(ChabokOptions.address(of: app, in: environment))" == "https://\(host)/api/")
    }

    static let channels: [(String, String?)] = [
        ("x", "public/x"), ("public/x", "public/x"), ("private/x", "x"), ("other/x", nil), ("a/b/c", nil), ("", nil),
        ("private/", nil), ("a b", nil),
    ]

    @Test("A channel has one normal form", arguments: channels)
    func channel(text: String, normal: String?) { #expect(ChabokChannel(text)?.normalized == normal) }

    // MARK: The access token

    @Test(
        "The token goes where it is told, in both worlds, and to no other origin",
        arguments: ChabokOptions.TokenPlacement.allCases
    )
    func placement(placement: ChabokOptions.TokenPlacement) async throws {
        for world in [ChabokSimulator.sandbox, ChabokSimulator.production] {
            try await Harness.run(.demonstration, world: world, adjust: { $0.tokenPlacement = placement }) { harness in
                #expect(await harness.backend.send(.sample, to: [.user("a")])[0].acceptance != nil)
                let request = try #require(harness.simulator.requests.first)
                let token = harness.simulator.rules.accessTokens[world]
                #expect(request.headerToken == (placement == .query ? nil : token))
                #expect(request.query["access_token"] == (placement == .header ? nil : token))
                #expect(harness.simulator.messages(world).count == 1)
            }
        }
    }

    @Test("A token of the other world is refused, parks the backend, and shows nowhere")
    func wrongWorld() async throws {
        let wrong = Secret("chabok-production-token")
        try await Harness.run(.demonstration, adjust: { ($0.accessToken, $0.tokenPlacement) = (wrong, .both) }) {
            harness in
            let outcome = await harness.backend.send(.sample, to: [.user("a")])[0]
            #expect(outcome.word == "account unauthorized")
            #expect(outcome.refusal?.advice == .parkBackend)
            #expect(harness.backend.health.status == .down)
            let diagnosis = await harness.backend.diagnose()
            #expect(diagnosis.first?.verdict == .failure)
            #expect(
                !"\(outcome) \(harness.backend.health) \(diagnosis) \(harness.notices.all)".contains(wrong.reveal())
            )
        }
    }

    @Test("The strategy stamps its own origin only, and never over another token")
    func stamping() async throws {
        let origin = HTTPEndpoint(host: "shop.push.adpdigital.com")
        let strategy = ChabokAuth(Secret("a/b"), placement: .both, origin: origin)
        #expect(try strategy.stamped("/api/x", for: origin) == "/api/x?access_token=a%2Fb")
        #expect(try strategy.stamped("/api/x?y=1", for: origin) == "/api/x?y=1&access_token=a%2Fb")
        #expect(try strategy.stamped("/x?access_token=a%2Fb", for: origin) == "/x?access_token=a%2Fb")
        #expect(throws: PushError.self) { try strategy.stamped("/x?access_token=other", for: origin) }
        let foreign = HTTPEndpoint(host: "shop.push.adpdigital.com.evil.test")
        #expect(try strategy.stamped("/x", for: foreign) == "/x")
        #expect(!strategy.covers(foreign, path: "/x") && strategy.covers(origin, path: "/x"))
        #expect(!strategy.covers(HTTPEndpoint(scheme: .http, host: origin.host), path: "/x"))
        #expect(try await strategy.credential(for: foreign).headers.isEmpty)
        #expect(strategy.redacted("GET /x?access_token=a%2Fb a/b") == "GET /x?access_token=*** ***")
    }

    @Test("The access token keeps what every strategy promises", arguments: AuthStrategyConformance.checks)
    func conformance(_ check: AuthStrategyConformance.Check) async throws {
        let origin = HTTPEndpoint(host: "shop.push.adpdigital.com")
        let subject = AuthStrategyConformance.Subject(
            strategy: ChabokAuth(Secret("t0k3n"), placement: .header, origin: origin),
            destination: origin,
            refreshes: { 1 },
            curable: nil,
            hopeless: (401, nil)
        )
        try await check.run(subject)
    }

    // MARK: Answers

    static let bodies: [(Int, String, Int, String?)] = [
        (404, #"{"error":{"name":"Error","status":404,"message":"M"}}"#, 404, "M"),
        (500, #"{"error":{"statusCode":401,"name":"Error","message":"M","code":"C"}}"#, 401, "M"),
        (422, #"{"error":{"statusCode":422,"message":"M","details":{"codes":{"a":["x"]}}}}"#, 422, "M (a)"),
        (502, "<html>", 502, nil), (400, "", 400, nil), (400, #"{"error":7}"#, 400, nil), (400, #"{"err"#, 400, nil),
        (403, #"{"error":{"status":"x"}}"#, 403, nil),
    ]

    @Test("An error is read in any shape, and none ends the program", arguments: bodies)
    func faults(http: Int, body: String, status: Int, text: String?) {
        let read = ChabokAnswer(HTTPAnswer(status: http, body: Array(body.utf8)), retryAfter: nil)
        #expect(read.status == status && read.fault?.text == text && !read.isSuccess)
    }

    static let reasons: [(String, String?)] = [
        ("Device not found", "unknown_user"), ("Subscrption not found", "not_subscribed"),
        ("MismatchSenderId", "credential_mismatch"), ("BadTopic", "wrong_topic"), ("BadDeviceToken", "invalid_token"),
        ("GONE", "unregistered"), ("Device_Unregistered", "unregistered"), ("not registered", "unregistered"),
        ("NotRegistered", "unregistered"), ("something new", nil),
    ]

    @Test("Delivery errors have one word each", arguments: reasons)
    func deliveryReasons(text: String, reason: String?) { #expect(ChabokRejections.deliveryReason(text) == reason) }

    // MARK: The link

    @Test("The link's states follow answers and failures, and tell each change once")
    func linkMachine() {
        var machine = ChabokConnectionMachine()
        var events: [ChabokEvent] = []
        events += machine.began() + machine.began() + machine.answered(200) + machine.answered(404)
        #expect(machine.state == .connected)
        events += machine.failed(isTimeout: false) + machine.failed(isTimeout: false)
        #expect(machine.state == .connected)
        events += machine.failed(isTimeout: false)
        #expect(machine.state == .disconnectedError && machine.isReachable == false)
        events += machine.answered(503)
        #expect(machine.state == .disconnectedError && machine.isReachable == true)
        events += machine.answered(200) + machine.failed(isTimeout: true) + machine.ended() + machine.ended()
        #expect(
            events == [
                .connectionStateChanged(old: .connectingStart, new: .connecting),
                .reachabilityChanged(isReachable: true, network: .other),
                .connectionStateChanged(old: .connecting, new: .connected),
                .reachabilityChanged(isReachable: false, network: .none),
                .connectionStateChanged(old: .connected, new: .disconnectedError),
                .reachabilityChanged(isReachable: true, network: .other),
                .connectionStateChanged(old: .disconnectedError, new: .connected),
                .connectionStateChanged(old: .connected, new: .socketTimeout),
                .connectionStateChanged(old: .socketTimeout, new: .disconnected),
            ]
        )
        for raw in -2...3 { #expect(ChabokConnectionState(rawValue: raw).rawValue == raw) }
        #expect(ChabokConnectionState(rawValue: 9) == .unknown(9))
    }

    static let clientErrors: [(Int, ChabokClientError)] = [
        (-5001, .notInitialised), (-5010, .userRegistrationFailed), (5014, .verificationFailed),
        (-5014, .verificationFailed), (-5030, .offline), (107, .misuse(107)), (5010, .unknown(5010)), (0, .unknown(0)),
    ]

    @Test("A client's error is known by its number, the one of the doubled sign by both", arguments: clientErrors)
    func clientError(code: Int, error: ChabokClientError) { #expect(ChabokClientError(code: code) == error) }

    static let moves: [([ChabokProgress.State], ChabokProgress.State)] = [
        ([.queued, .sent, .delivered, .shown, .opened], .opened), ([.delivered, .queued, .sent], .delivered),
        ([.shown, .dismissed, .opened], .opened), ([.opened, .dismissed, .shown, .failed], .opened),
        ([.queued, .expired, .delivered], .expired), ([.expired], .accepted), ([.sent, .failed, .delivered], .failed),
        ([.delivered, .failed, .expired], .delivered), ([.shown, .actionTaken, .opened], .actionTaken),
    ]

    @Test("A message's progress goes forward and never back", arguments: moves)
    func progress(reports: [ChabokProgress.State], end: ChabokProgress.State) {
        var progress = ChabokProgress()
        var live = ChabokProgress(isLive: true)
        for report in reports {
            let before = progress.state
            let moved = progress.move(to: report)
            let movedLive = live.move(to: report)
            #expect(moved == (progress.state != before) && !movedLive)
        }
        #expect(progress.state == end && live.state == .accepted)
    }

    @Test("A slow reader loses the oldest events, and can tell how many")
    func slowReader() async {
        let stream = ChabokEventStream()
        for number in 0..<1_003 { stream.send(.registered(user: nil, installation: "\(number)")) }
        stream.finish()
        #expect(stream.droppedCount == 3)
        var first: ChabokEvent?
        for await event in stream.events where first == nil { first = event }
        #expect(first == .registered(user: nil, installation: "3"))
    }

    // MARK: Webhooks

    @Test("A webhook needs its secret, and whatever it says is kept")
    func webhooks() throws {
        let stream = ChabokEventStream()
        let reader = ChabokReceipts(Secret("0123456789abcdef"), events: stream)
        let now = Date(timeIntervalSince1970: 2_000)
        func read(_ body: String, _ headers: [HTTPHeader]) throws(ReceiptRefusal) -> [DeliveryReceipt] {
            try reader.receipts(in: ReceiptCallback(headers: headers, body: Array(body.utf8), receivedAt: now))
        }
        let good = [HTTPHeader("x-webhook-secret", "0123456789abcdef")]
        let body = #"""
            [{"event":"message_delivery","messageId":"m1","deliveredAt":1000000},{"type":"OPENED","id":"m2"},
             {"name":"newInstall","deviceId":"d"},{"event":"strange","messageId":"m3"},
             {"event":"failed","messageId":"m4","error":"Not Registered"}]
            """#
        let receipts = try read(body, good)
        #expect(receipts.map(\.event) == [.delivered, .opened, .note, .failed])
        #expect(receipts.map(\.platformID) == ["m1", "m2", "m3", "m4"])
        #expect(receipts[0].at == Date(timeIntervalSince1970: 1_000) && receipts[1].at == now)
        #expect(receipts[3].reason == "unregistered")
        #expect(try read("{}", [HTTPHeader("authorization", "Bearer 0123456789abcdef")]).isEmpty)
        for headers in [[], [HTTPHeader("x-webhook-secret", "0123456789abcdeX")], [HTTPHeader("x-webhook-secret", "")]]
        {
            #expect(throws: ReceiptRefusal.self) { try read(body, headers) }
        }
        #expect(throws: ReceiptRefusal.self) { try read("<html>", good) }
        #expect(throws: ReceiptRefusal.self) { try read("[1]", good) }
    }
}
