import Foundation
import HTTPTypes
import HummingbirdCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The audit log", .timeLimit(.minutes(1)))
struct APIAuditTests {
    /// A folder for one test, and the lines of the log in it.
    private struct Folder {
        let url = FileManager.default.temporaryDirectory.appending(path: "chapar-audit-\(UUID().uuidString)")
        var path: String { url.appending(path: "audit.jsonl").path }

        init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }

        func remove() { try? FileManager.default.removeItem(at: url) }

        /// The files of refused attempts.
        var refusedPath: String { url.appending(path: "audit.refused.jsonl").path }

        var text: String { Self.read(path) }
        var lines: [JSONValue] { Self.lines(path) }
        var refused: [JSONValue] { Self.lines(refusedPath) }

        static func read(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }
        static func lines(_ path: String) -> [JSONValue] {
            read(path).split(separator: "\n").compactMap { try? JSONValue(parsing: Array($0.utf8)) }
        }
    }

    private func harness(_ path: String) -> APIHarness {
        APIHarness(keys: [APIHarness.key("boss", [.admin]), APIHarness.key("shop", [.send, .devices])]) {
            $0.audit = GatewayConfiguration.Audit(path: path)
        }
    }

    @Test("has administration, erasure and refused attempts, one by one, and nothing secret")
    func entries() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let harness = harness(folder.path)
        let boss = APIHarness.bearer("boss")
        let shop = APIHarness.bearer("shop")
        _ = try await harness.send(.post, "/v1/backends/ios/drop", #"{"reason":"x"}"#, headers: boss)
        _ = try await harness.send(.put, "/v1/devices/d1", #"{"tokens":{"ios-apns":"4f1cdead"}}"#, headers: shop)
        _ = try await harness.send(.delete, "/v1/devices/d1", headers: shop)
        _ = try await harness.post(APIHarness.sample(), headers: shop)
        let refused = try await harness.send(.get, "/v1/keys", headers: shop)
        _ = try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("stolen"))
        _ = try await harness.send(.post, "/v1/backends/ios/webhook/planted-secret", "{}")

        let lines = folder.lines + folder.refused
        #expect(
            lines.map {
                "\($0["key"]?.stringValue ?? "?") \($0["method"]?.stringValue ?? "?") \($0["route"]?.stringValue ?? "?")"
            } == [
                "boss POST /v1/backends/{name}/drop", "shop DELETE /v1/devices/{id}", "shop GET /v1/keys",
                " GET /v1/backends", " POST /v1/backends/{name}/webhook/{secret}",
            ]
        )
        #expect(lines.first?["target"] == "ios")
        #expect(lines.dropFirst().first?["target"] == "d1")
        #expect(lines.dropFirst().first?["status"] == 204)
        #expect(lines.dropFirst(2).first?["code"] == "forbidden")
        #expect(lines.dropFirst(2).first?["request_id"]?.stringValue == refused.json["request_id"]?.stringValue)
        #expect(lines.dropFirst(3).first?["code"] == "unauthorized")
        #expect(lines.last?["peer"] == "local")
        let text = folder.text + Folder.read(folder.refusedPath)
        for secret in ["stolen", "planted-secret", "4f1c"] { #expect(!text.contains(secret)) }
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)

        harness.api.own.keyUses.recordSends(try #require(harness.api.own.audit))
        #expect(folder.lines.last?["key"] == "shop")
        #expect(folder.lines.last?["notifications"] == 1)
    }

    @Test("names the key whose messages were cancelled, and each key that tried to")
    func cancellations() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let harness = harness(folder.path)
        for (key, name) in [("boss", "shop"), ("shop", "shop"), ("shop", "boss")] {
            _ = try await harness.send(.delete, "/v1/notifications?key=\(name)", headers: APIHarness.bearer(key))
        }
        let lines = folder.lines + folder.refused
        #expect(lines.map { $0["key"] } == ["boss", "shop", "shop"])
        #expect(lines.map { $0["target"] } == ["shop", "shop", nil])
        #expect(lines.map { $0["status"] } == [200, 200, 403])
        #expect(lines.allSatisfy { $0["method"] == "DELETE" && $0["route"] == "/v1/notifications" })
    }

    @Test("that cannot be written refuses administration, and no message")
    func full() async throws {
        let harness = harness("/dev/full")
        let boss = APIHarness.bearer("boss")
        #expect(try await harness.send(.get, "/v1/keys", headers: boss).status == 200)
        let refused = try await harness.send(.get, "/v1/keys", headers: boss)
        #expect(refused.status == 503)
        #expect(refused.code == "audit_unavailable")
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop")).status == 202)
        #expect(try await harness.send(.delete, "/v1/devices/d", headers: APIHarness.bearer("shop")).status == 503)
    }

    @Test("of requests has each of them, whichever way it goes, and nothing secret", arguments: [false, true])
    func access(sendsOnly: Bool) async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send, .devices]), APIHarness.key("boss", [.admin])]) {
            $0.server.port = 0
            $0.accessLog = GatewayConfiguration.AccessLog(path: folder.path)
            $0.accessLog?.requests = sendsOnly ? .sends : .all
        }
        let shop = APIHarness.bearer("shop")
        _ = try await harness.send(.put, "/v1/devices/d1", #"{"tokens":{"ios-apns":"4f1cdead"}}"#, headers: shop)
        _ = try await harness.send(.get, "/v1/users/planted-user/none", headers: shop)
        _ = try await harness.send(.delete, "/v1/users/planted-user", headers: APIHarness.bearer("boss"))
        _ = try await harness.send(.post, "/v1/backends/ios/webhook/planted-secret", "{}")
        _ = try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("stolen"))
        let long = try await harness.post(APIHarness.sample(), headers: shop)
        let wrong = try await harness.post("{}", headers: shop)
        var short = ""
        let body = APIHarness.sample()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                try await client.send(
                    "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer chp_shop\r\n"
                        + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
                )
                _ = try await client.read(until: "Location: /v1/notifications/")
                short = String(try await client.read(until: "\r\n").dropLast())
            }
        }
        let sends = [
            "shop local POST /v1/notifications \(long.json["id"]?.stringValue ?? "?") 202",
            "shop local POST /v1/notifications  422", "shop 127.0.0.1 POST /v1/notifications \(short) 202",
        ]
        let others = [
            "shop local PUT /v1/devices/{id} d1 201", "shop local GET other  404", "boss local DELETE /v1/users/{id}",
            " local POST /v1/backends/{name}/webhook/{secret} ios 404", " local GET /v1/backends  401",
        ]
        let lines = folder.lines
        let seen = lines.map { line in
            ["key", "peer", "method", "route", "target"].map { line[$0]?.stringValue ?? "" }.joined(separator: " ")
                + " \(line["status"]?.integerValue ?? 0)"
        }
        #expect(seen.count == (sendsOnly ? 3 : 8))
        for (line, expected) in zip(seen, sendsOnly ? sends : others + sends) {
            #expect(line.hasPrefix(expected), "\(line)")
        }
        #expect(lines.allSatisfy { $0["milliseconds"]?.integerValue != nil && $0["request_id"]?.stringValue != nil })
        #expect(lines.last?["request_bytes"]?.integerValue == Int64(body.utf8.count))
        #expect(lines.last?["answer_bytes"]?.integerValue ?? 0 > 10)
        #expect(lines.suffix(2).first?["request_id"]?.stringValue == wrong.json["request_id"]?.stringValue)
        for secret in ["stolen", "planted", "4f1c", "Order 42", "chp_"] { #expect(!folder.text.contains(secret)) }
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test("of requests that cannot be written refuses nothing")
    func fullAccess() async throws {
        let harness = APIHarness(keys: [APIHarness.key("boss", [.admin])]) {
            $0.accessLog = GatewayConfiguration.AccessLog(path: "/dev/full")
        }
        for _ in 0..<2 {
            #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("boss")).status == 202)
            #expect(try await harness.send(.get, "/v1/keys", headers: APIHarness.bearer("boss")).status == 200)
        }
    }

    private func refusedAttempt(of peer: String) -> AuditLog.Entry {
        AuditLog.Entry(
            requestID: "r",
            key: "",
            peer: peer,
            method: "GET",
            route: "other",
            status: 401,
            code: "unauthorized"
        )
    }

    @Test("notes only some of a flood of refused attempts of an address, and each minute how many it left out")
    func flood() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let harness = harness(folder.path)
        let audit = try #require(harness.api.own.audit)
        for _ in 0..<1000 { audit.record(refusedAttempt(of: "192.0.2.1"), isRefusal: true) }
        audit.record(refusedAttempt(of: "192.0.2.2"), isRefusal: true)
        #expect(folder.refused.count == RefusedAttempts.linesOfPeer + 1)
        #expect(folder.refused.last?["peer"] == "192.0.2.2", "one address takes nothing of another one's lines")
        harness.time.advance(by: .seconds(60))
        audit.noteLeftOut()
        #expect(folder.refused.last?["peer"] == "192.0.2.1")
        #expect(folder.refused.last?["refused_attempts_left_out"] == 980)
        // Of very many addresses only so many lines a second, in bounded memory.
        for number in 0..<5000 { audit.record(refusedAttempt(of: "10.0.\(number)"), isRefusal: true) }
        #expect(folder.refused.count <= RefusedAttempts.linesOfPeer + 2 + 100)
        harness.time.advance(by: .seconds(60))
        audit.noteLeftOut()
        let left = folder.refused.compactMap { $0["refused_attempts_left_out"]?.integerValue }.reduce(0, +)
        #expect(left >= 980 + 4900)
    }

    @Test("keeps administration however many attempts are refused, from however many addresses, for however long")
    func displacement() async throws {
        let folder = try Folder()
        defer { folder.remove() }
        let harness = APIHarness(keys: [APIHarness.key("boss", [.admin])]) {
            $0.audit = GatewayConfiguration.Audit(path: folder.path)
            $0.audit?.maximumBytes = 4_096
            $0.audit?.files = 2
        }
        let boss = APIHarness.bearer("boss")
        #expect(try await harness.send(.get, "/v1/keys", headers: boss).status == 200)
        let audit = try #require(harness.api.own.audit)
        for minute in 0..<60 {
            for number in 0..<100 { audit.record(refusedAttempt(of: "10.\(minute).\(number)"), isRefusal: true) }
            harness.time.advance(by: .seconds(60))
        }
        #expect(folder.lines.map { $0["route"] } == ["/v1/keys"])
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted()
        #expect(names == ["audit.jsonl", "audit.refused.jsonl", "audit.refused.jsonl.1"])
        for name in names { #expect(Folder.read(folder.url.appending(path: name).path).utf8.count <= 4_096) }
        #expect(folder.refused.last?["peer"]?.stringValue?.hasPrefix("10.59.") ?? false, "the newest are kept")
    }

    @Test(
        "has refused attempts in a file beside it",
        arguments: [("a/audit.jsonl", "a/audit.refused.jsonl"), ("a.b/log", "a.b/log.refused"), (".x", ".x.refused")]
    )
    func refusedPath(path: String, other: String) {
        #expect(GatewayConfiguration.Audit(path: path).refusedPath == other)
    }

    @Test("never takes more than its files may, and loses whole old files only")
    func rotation() throws {
        let folder = try Folder()
        defer { folder.remove() }
        var file = RotatingFile(path: folder.path, maximumBytes: 1000, count: 3)
        for number in 0..<500 { try file.append(Array("\(number) ".utf8) + [UInt8](repeating: 0x78, count: 90)) }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted()
        #expect(names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"])
        var lines: [String] = []
        for name in names.reversed() {
            let text = try String(contentsOf: folder.url.appending(path: name), encoding: .utf8)
            #expect(text.utf8.count <= 1000)
            lines += text.split(separator: "\n").map(String.init)
        }
        let numbers = lines.compactMap { Int($0.prefix { $0 != " " }) }
        #expect(numbers.last == 499 && numbers.count == lines.count)
        #expect(numbers == Array((500 - numbers.count)..<500))
    }
}
