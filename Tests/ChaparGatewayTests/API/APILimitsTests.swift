import Foundation
import HTTPTypes
import NIOCore
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Hostile and oversized requests: refused by field, and without costing others anything.
@Suite("A request that is too large", .timeLimit(.minutes(1)))
struct APILimitsTests {
    private static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    private static func members(_ count: Int) -> String {
        "{" + (0..<count).map { "\"k\($0)\":1" }.joined(separator: ",") + "}"
    }

    private static func nested(_ levels: Int) -> String {
        String(repeating: #"{"a":"#, count: levels) + "1" + String(repeating: "}", count: levels)
    }

    private static func languages(_ count: Int) -> String {
        #"{"default":"x","# + (1..<count).map { "\"l\($0)\":\"x\"" }.joined(separator: ",") + "}"
    }

    static let oversized: [WrongNotification] = [
        .content(#"{"title":"\#(text(16_385))"}"#, "#/content/title too_long"),
        .content(#"{"body":{"default":"x","fa":"\#(text(16_385))"}}"#, "#/content/body/fa too_long"),
        .content(#"{"subtitle":\#(languages(201))}"#, "#/content/subtitle too_many_languages"),
        .content(
            #"{"title":{"default":"x","\#(text(65))":"y"}}"#,
            "#/content/title/\(text(64)) invalid_language"
        ),
        .content(#"{"data":\#(members(1001))}"#, "#/content/data too_many_members"),
        .content(#"{"data":{"a":[{},\#(members(1001))]}}"#, "#/content/data/a/1 too_many_members"),
        .content(#"{"data":{"\#(text(513))":1}}"#, "#/content/data/\(text(64)) name_too_long"),
        .content(#"{"data":\#(nested(17))}"#, "#/content/data" + String(repeating: "/a", count: 16) + " too_deep"),
        .content(#"{"data":\#(nested(200_000))}"#, "#/content/data" + String(repeating: "/a", count: 16) + " too_deep"),
        .content(#"{"data":{"a":"\#(text(65_536))"}}"#, "#/content/data too_large"),
        .content(
            #"{"data":{"a":[\#(Array(repeating: "[]", count: 30_000).joined(separator: ","))]}}"#,
            "#/content/data too_large"
        ),
        .content(
            #"{"title":{"default":"\#(text(16_000))","a":"\#(text(16_000))","b":"\#(text(16_000))","c":"\#(text(16_000))","d":"\#(text(16_000))"}}"#,
            "#/content too_large"
        ),
        WrongNotification(
            APIHarness.sample(#","overrides":{"apns":{"a":"\#(text(65_536))"}}"#),
            "#/overrides/apns too_large"
        ),
        WrongNotification(
            APIHarness.sample(#","overrides":{"fcm":\#(members(1001))}"#),
            "#/overrides/fcm too_many_members"
        ),
        WrongNotification(
            APIHarness.sample(#","overrides":{"apns":{"a":"\#(text(40_000))"},"fcm":{"a":"\#(text(40_000))"}}"#),
            "#/overrides too_large"
        ),
    ]

    @Test("is refused by field and stores nothing", arguments: oversized)
    func refused(_ wrong: WrongNotification) async throws {
        let harness = APIHarness()
        let reply = try await harness.post(wrong.body)
        #expect(reply.status == 422)
        #expect(reply.errors == wrong.errors)
        #expect(harness.store.accepted.isEmpty)
        #expect(reply.bytes.count < 2000)
    }

    @Test("is not one that is just within every limit")
    func within() async throws {
        let harness = APIHarness()
        for content in [
            #"{"title":"\#(Self.text(16_384))"}"#, #"{"title":\#(Self.languages(200))}"#,
            #"{"data":\#(Self.members(1000))}"#, #"{"data":\#(Self.nested(16))}"#,
            #"{"data":{"\#(Self.text(512))":1}}"#, #"{"data":{"a":"\#(Self.text(65_000))"}}"#,
        ] {
            let reply = try await harness.post(APIHarness.sample(content: content))
            #expect(reply.status == 202, "\(reply.errors)")
        }
        #expect(harness.store.accepted.count == 6)
        #expect(harness.store.accepted.allSatisfy { $0.content.count < 66_000 })
    }

    @Test("has the limit that the configuration sets; what was accepted under another one is read all the same")
    func configured() async throws {
        let wide = APIHarness { $0.limits.contentBytes = 1 << 20 }
        let content = #"{"data":{"a":"\#(Self.text(500_000))"}}"#
        #expect(try await wide.post(APIHarness.sample(content: content)).status == 202)
        let stored = try #require(wide.store.accepted.first)
        #expect(try NotificationContent.decode(stored.content).data["a"]?.stringValue?.utf8.count == 500_000)
        let narrow = APIHarness { $0.limits.contentBytes = 4096 }
        let reply = try await narrow.post(APIHarness.sample(content: #"{"data":{"a":"\#(Self.text(4096))"}}"#))
        #expect(reply.errors == ["#/content/data too_large"])
    }

    @Test("stops no other of its batch, and a batch of mistakes has an answer of bounded size")
    func batch() async throws {
        let harness = APIHarness()
        let large = APIHarness.sample(content: #"{"data":{"a":"\#(Self.text(70_000))"}}"#)
        let reply = try await send(harness, [large, APIHarness.sample(), large])
        #expect(reply.json["accepted"] == 1 && reply.json["refused"] == 2)
        let first = reply.json["notifications"]?.arrayValue?.first
        #expect(APIHarness.errors(of: first?["problem"]) == ["#/notifications/0/content/data too_large"])

        let fields = (0..<100).map { "\"\(Self.text(70))\($0)\":1" }.joined(separator: ",")
        let wrong = try await send(harness, Array(repeating: "{\(fields)}", count: 1000))
        #expect(wrong.status == 422)
        let problems = try #require(wrong.json["notifications"]?.arrayValue)
        let listed = problems.map { APIHarness.errors(of: $0["problem"]).count }
        #expect(problems.count == 1000 && listed.allSatisfy { (1...100).contains($0) } && listed.reduce(0, +) <= 2000)
        #expect(problems.last?["problem"]?["title"] == "102 fields are wrong")
    }

    /// A row of marks that each comparison brings into order first; four times as many take 16 times as long: seconds.
    private static let marks = "a" + String(repeating: "\u{301}\u{323}", count: 4000)

    @Test("has the names of its fields cut in the answer, however they are written")
    func longNames() async throws {
        let long = String(repeating: "e\u{301}", count: 100_000)
        for text in [long, Self.marks] {
            for body in [
                APIHarness.sample(#","\#(text)":1"#), APIHarness.sample(#","overrides":{"\#(text)":{}}"#),
                #"{"to":{"tokens":[{"token":"x","service":"\#(text)"}]},"content":{"title":"x"}}"#,
            ] {
                let reply = try await APIHarness().post(body)
                #expect([400, 422].contains(reply.status) && reply.bytes.count < 2000)
            }
        }
    }

    @Test("is refused before its head is compared, when that would take seconds")
    func heads() async throws {
        let harness = APIHarness { $0.server.port = 0 }
        let percent = Self.marks.utf8.map { "%" + String($0, radix: 16) }.joined()
        let heads =
            [
                "GET /v1/devices/\(percent) HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "GET /v1/devices/\(percent)/tags?x=%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "GET /healthz?\(percent)=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                // A NUL, which PostgreSQL's text cannot hold.
                "DELETE /v1/devices/a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "GET /v1/devices?user=a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ]
            + ["Host", "Authorization", "Origin", "Connection", "X-Anything"].map { name in
                "GET /healthz HTTP/1.1\r\n\(name): \(Self.marks)\r\n\r\n"
            }
        try await harness.serve { port, _ in
            for head in heads {
                try await RawClient.run(port) { client in
                    try await client.send(head)
                    let answer = try await client.readToEnd()
                    #expect(answer.hasPrefix("HTTP/1.1 400") && answer.contains("unsafe_head"), "\(head.prefix(40))")
                    #expect(answer.contains("connection: close") || answer.contains("Connection: close"))
                }
            }
            try await RawClient.run(port) { client in
                try await client.send("GET /\(Self.marks) HTTP/1.1\r\nHost: localhost\r\n\r\n")
                let answer = try await client.readToEnd()
                #expect(answer.hasPrefix("HTTP/1.1 400"), "the parser takes no such byte in a target")
            }
            try await RawClient.run(port) { client in
                let name = String(repeating: "نام‌", count: 100)
                try await client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Name: \(name)\r\n\r\n")
                #expect(try await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 200"))
            }
        }
    }

    // MARK: Deliveries

    private func send(_ harness: APIHarness, _ items: [String]) async throws -> APIHarness.Reply {
        try await harness.send(
            .post,
            "/v1/notifications/batch",
            "{\"notifications\":[\(items.joined(separator: ","))]}"
        )
    }

    private func fanningOut(to count: Int) -> APIHarness {
        let backends = (0..<count).map { number in
            var backend = StubBackend.ios
            backend.name = "ios\(number)"
            return backend
        }
        return APIHarness(backends: backends) {
            let plan = DeliveryPlan(backends.map(\.name))
            $0.routes = [GatewayConfiguration.Route(name: "all", plan: plan, isFanOut: true)]
        }
    }

    private static let tenThousand: String = {
        let tokens = (0..<10_000).map { #"{"token":"t\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        return #"{"to":{"tokens":[\#(tokens)]},"content":{"title":"x"},"route":"all"}"#
    }()

    @Test("is one whose route makes too many deliveries of its recipients")
    func deliveries() async throws {
        let harness = fanningOut(to: 11)
        let reply = try await harness.post(Self.tenThousand)
        #expect(reply.errors == ["#/to too_many_deliveries"])
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("counts the deliveries of a batch after the route has multiplied them")
    func batchDeliveries() async throws {
        let harness = fanningOut(to: 2)
        let reply = try await send(harness, Array(repeating: Self.tenThousand, count: 6))
        #expect(reply.json["accepted"] == 5)
        let last = try #require(reply.json["notifications"]?.arrayValue?.last)
        #expect(APIHarness.errors(of: last["problem"]) == ["#/notifications/5/to batch_too_large"])
        #expect(harness.store.accepted.map(\.recipients.count).reduce(0, +) == 100_000)
    }

    @Test("counts the devices of users, and asks the registry for no more than fit")
    func batchUsers() async throws {
        let harness = APIHarness()
        let devices = (0..<10_000).map { number in
            Device(
                id: "d\(number)",
                user: "u",
                tokens: [RegisteredToken(DeviceToken("t\(number)", service: .iOSAPNs), registeredAt: harness.time.now)],
                createdAt: harness.time.now,
                updatedAt: harness.time.now
            )
        }
        for start in stride(from: 0, to: devices.count, by: 1000) {
            _ = try await harness.devices.put(Array(devices[start..<start + 1000]), outbox: harness.state.outbox)
        }
        let reply = try await send(
            harness,
            Array(repeating: #"{"to":{"users":["u"]},"content":{"title":"x"}}"#, count: 11)
        )
        #expect(reply.json["accepted"] == 10)
        let last = try #require(reply.json["notifications"]?.arrayValue?.last)
        #expect(APIHarness.errors(of: last["problem"]) == ["#/notifications/10/to batch_too_large"])
    }

    // MARK: Memory and threads

    @Test("is refused before it is read when too many are in progress; small ones and other callers go on")
    func memory() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send]), APIHarness.key("crm", [.send])]) {
            $0.server.port = 0
        }
        func head(_ key: String, _ length: Int) -> String {
            "POST /v1/notifications/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + "Authorization: Bearer chp_\(key)\r\nContent-Length: \(length)\r\n\r\n"
        }
        func small(_ key: String, _ client: RawClient) async throws -> String {
            let body = #"{"notifications":[\#(APIHarness.sample())]}"#
            try await client.send(head(key, body.utf8.count) + body)
            return try await client.read(until: "]}]}")
        }
        /// Opens connections that announce large bodies and send one byte, then goes on.
        func announcing(_ count: Int, _ port: Int, _ body: () async throws -> Void) async throws {
            guard count > 0 else { return try await body() }
            try await RawClient.run(port) { client in
                let before = harness.api.responder.bodyBytes
                try await client.send(head("shop", 8 << 20) + "{")
                while harness.api.responder.bodyBytes == before { await Task.yield() }
                try await announcing(count - 1, port, body)
            }
        }
        try await harness.serve { port, _ in
            try await announcing(4, port) {
                try await RawClient.run(port) { client in
                    try await client.send(head("shop", 8 << 20))
                    let answer = try await client.read(until: "\"retryable\":true}")
                    #expect(answer.hasPrefix("HTTP/1.1 503"), "nothing of the body has been sent")
                    #expect(answer.lowercased().contains("retry-after: 1\r\n") && answer.contains("too_busy"))
                }
                try await RawClient.run(port) { client in
                    for key in ["shop", "crm"] {
                        let answer = try await small(key, client)
                        #expect(answer.hasPrefix("HTTP/1.1 202"))
                    }
                }
                try await RawClient.run(port) { client in
                    let items = Array(repeating: APIHarness.sample(), count: 1000).joined(separator: ",")
                    let body = #"{"notifications":[\#(items)]}"#
                    #expect(body.utf8.count > Admission.smallBody)
                    try await client.send(head("crm", body.utf8.count) + body)
                    #expect(try await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 202"))
                }
            }
            while harness.api.responder.bodyBytes > 0 { await Task.yield() }
            try await RawClient.run(port) { client in
                let answer = try await small("shop", client)
                #expect(answer.hasPrefix("HTTP/1.1 202"))
            }
        }
    }

    @Test("needs no memory that it does not say it needs, in pieces of unknown number")
    func chunked() async throws {
        let harness = APIHarness { $0.server.port = 0 }
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                let head =
                    "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    + "Transfer-Encoding: chunked\r\n\r\n"
                let body = APIHarness.sample(content: #"{"title":"x"}"#)
                let padding = String(repeating: " ", count: 300_000)
                try await client.send(head + "\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n")
                while harness.api.responder.bodyBytes == 0 { await Task.yield() }
                #expect(harness.api.responder.bodyBytes == Admission.smallBody)
                try await client.send("\(String(padding.utf8.count, radix: 16))\r\n\(padding)\r\n")
                while harness.api.responder.bodyBytes < padding.utf8.count { await Task.yield() }
                #expect(harness.api.responder.bodyBytes <= 1 << 20)
                try await client.send("0\r\n\r\n")
                #expect(try await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 202"))
            }
        }
        #expect(harness.api.responder.bodyBytes == 0)
    }

    @Test("holds up no other request while it is judged")
    func threads() async throws {
        let gate = Gate()
        var backend = StubBackend.ios
        backend.finding = { notification in
            if notification.title?.resolved(for: nil) == "large" { gate.pass() }
            return PayloadCheck()
        }
        let harness = APIHarness(backends: [backend])
        let tokens = (0..<3000).map { #"{"token":"t\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        let large = #"{"to":{"tokens":[\#(tokens)]},"content":{"title":"large"}}"#
        #expect(large.utf8.count > Admission.smallBody)
        // As many as there are threads for tasks: on those, they would leave none.
        let count = NIOSingletons.blockingPoolThreadCountSuggestion
        try await withThrowingTaskGroup(of: Int.self) { tasks in
            for _ in 0..<count { tasks.addTask { try await harness.post(large).status } }
            while gate.arrived < longWorkThreadCount { await Task.yield() }
            #expect(try await harness.post(APIHarness.sample()).status == 202)
            gate.open(for: count)
            for try await status in tasks { #expect(status == 202) }
        }
        #expect(!gate.hasGivenUp)
    }

    /// Holds threads until it is opened, or for ten seconds.
    private final class Gate: Sendable {
        private let semaphore = DispatchSemaphore(value: 0)
        private let state = Mutex((arrived: 0, hasGivenUp: false))

        var arrived: Int { state.withLock { $0.arrived } }
        var hasGivenUp: Bool { state.withLock { $0.hasGivenUp } }

        func pass() {
            state.withLock { $0.arrived += 1 }
            if semaphore.wait(timeout: .now() + 10) == .timedOut { state.withLock { $0.hasGivenUp = true } }
        }

        func open(for count: Int) { for _ in 0..<count { semaphore.signal() } }
    }
}
