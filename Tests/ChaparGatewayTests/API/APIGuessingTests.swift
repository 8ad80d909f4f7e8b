import Foundation
import HTTPTypes
import HummingbirdCore
import NIOCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A caller that guesses keys learns nothing beyond the limit, on any route; other callers behind the same address go
/// on.
@Suite("Guessing keys", .timeLimit(.minutes(1)))
struct APIGuessingTests {
    /// The number of wrong attempts that are sent at once.
    private static let burst = 200

    private func guess(_ harness: APIHarness, _ path: String = "/v1/backends", times: Int = burst) async throws {
        for number in 0..<times {
            _ = try await harness.send(.get, path, headers: APIHarness.bearer("guess-\(number)"))
        }
    }

    @Test(
        "gets one answer beyond the limit, whatever is guessed: the right key, too",
        arguments: ["/v1/backends", "/x"]
    )
    func oracle(path: String) async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send, .read])])
        try await guess(harness, path)
        let wrong = try await harness.send(.get, path, headers: APIHarness.bearer("wrong"))
        let right = try await harness.send(.get, path, headers: APIHarness.bearer("shop"))
        #expect(wrong.status == 429 && right.status == 429)
        #expect(wrong.json["detail"] == right.json["detail"] && wrong.headers == right.headers)
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop")).status == 429)
        #expect(harness.store.accepted.isEmpty)
        // The next attempt is due: a caller with the key gets in.
        harness.time.advance(by: .milliseconds(60))
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop")).status == 202)
    }

    @Test("does not keep out callers behind the same address whose key was good from there within a day")
    func neighbours() async throws {
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        let keys = [
            APIHarness.key("shop", [.send, .read]), APIHarness.key("news", [.send, .read]),
            APIHarness.key("old", [.send, .read], notAfter: start + 3_600),
        ]
        let harness = APIHarness(keys: keys)
        for key in ["shop", "old"] {
            #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer(key)).status == 200)
        }
        harness.time.advance(by: .seconds(80_000))
        try await guess(harness)
        for _ in 0..<3 {
            #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop")).status == 202)
            // One that was not used from here, and one that has ended since.
            #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("news")).status == 429)
            #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("old")).status == 429)
            #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("wrong")).status == 429)
        }
        harness.time.advance(by: .seconds(90_000))
        try await guess(harness)
        #expect(try await harness.post(APIHarness.sample(), headers: APIHarness.bearer("shop")).status == 429)
    }

    @Test("is refused on the fast path of a connection as well, and a key that is known there goes on")
    func fastPath() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send]), APIHarness.key("news", [.send])]) {
            $0.server.port = 0
        }
        let body = APIHarness.sample()
        @Sendable func post(_ key: String) -> String {
            "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer chp_\(key)\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        }
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                func status(_ key: String) async throws -> String {
                    try await client.send(post(key))
                    let head = try await client.read(until: "\r\n\r\n")
                    let length = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
                    _ = try await client.read(count: length.flatMap { Int($0.dropFirst(16)) } ?? 0)
                    return String(head.dropFirst(9).prefix(3))
                }
                let guesses = (0..<Self.burst).map { ("guess-\($0)", "401") }
                let beyond = [("wrong", "429"), ("news", "429"), ("shop", "202"), ("wrong", "429")]
                for (key, wanted) in [("shop", "202")] + guesses + beyond {
                    let answer = try await status(key)
                    #expect(answer == wanted, "\(key)")
                }
            }
        }
        #expect(harness.store.accepted.count == 2)
    }

    @Test("is told apart behind a trusted proxy: a guesser stops only its own address")
    func proxied() async throws {
        let harness = APIHarness(keys: [APIHarness.key("shop", [.send])]) {
            $0.server.port = 0
            $0.server.trustedProxies = ["127.0.0.1"]
        }
        let body = APIHarness.sample()
        try await harness.serve { port, _ in
            try await RawClient.run(port) { client in
                func status(_ key: String, _ peer: String) async throws -> String {
                    try await client.send(
                        "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer chp_\(key)\r\n"
                            + "X-Forwarded-For: \(peer)\r\nContent-Type: application/json\r\n"
                            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
                    )
                    let head = try await client.read(until: "\r\n\r\n")
                    let length = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length: ") }
                    _ = try await client.read(count: length.flatMap { Int($0.dropFirst(16)) } ?? 0)
                    return String(head.dropFirst(9).prefix(3))
                }
                for number in 0..<Self.burst { _ = try await status("guess-\(number)", "192.0.2.1") }
                #expect(try await status("shop", "192.0.2.1") == "429")
                #expect(try await status("shop", "192.0.2.2") == "202")
            }
        }
    }

    @Test("is counted and put on record on the open route that tells keys more, whose answer it never changes")
    func health() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-guess-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let audit = GatewayConfiguration.Audit(path: folder.appending(path: "audit.jsonl").path)
        let harness = APIHarness(keys: [APIHarness.key("shop", [.read])]) { $0.audit = audit }
        let alive: JSONValue = ["status": "ok"]
        for number in 0..<600 {
            let reply = try await harness.send(.get, "/healthz", headers: APIHarness.bearer("guess-\(number)"))
            #expect(reply.status == 200 && reply.json == alive)
        }
        let right = try await harness.send(.get, "/healthz", headers: APIHarness.bearer("shop"))
        #expect(right.status == 200 && right.json == alive, "no oracle: \(right.text)")
        #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("shop")).status == 429)
        let lines = try String(contentsOfFile: audit.refusedPath, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == RefusedAttempts.linesOfPeer)
        #expect(lines[0].contains(#""route":"/healthz""#) && lines[0].contains(#""code":"unauthorized""#))
        // A probe without a key, and one with a key at a rate, is always answered and counts as nothing.
        harness.time.advance(by: .seconds(60))
        for _ in 0..<300 { #expect(try await harness.send(.get, "/healthz").json == alive) }
        let known = try await harness.send(.get, "/healthz", headers: APIHarness.bearer("shop"))
        #expect(known.json["version"] != nil)
    }

    @Test(
        "of the secret at the end of a callback's address ends at the same limit, and is answered alike all the while"
    )
    func webhook() async throws {
        var backend = StubBackend.android
        backend.receipts = SecretReader()
        let harness = APIHarness(backends: [.ios, backend], keys: [APIHarness.key("shop", [.read])])
        func call(_ secret: String, _ name: String = "android") async throws -> Int {
            try await harness.send(.post, "/v1/backends/\(name)/webhook/\(secret)", "{}").status
        }
        #expect(try await call("sesame") == 204)
        for number in 0..<Self.burst { #expect(try await call("guess-\(number)") == 404) }
        #expect(try await call("sesame") == 204, "the platform called from there before")
        harness.time.advance(by: .seconds(90_000))
        for number in 0..<Self.burst {
            #expect(try await call("guess-\(number)", number % 2 == 0 ? "android" : "nobody") == 404)
        }
        #expect(try await call("sesame") == 404, "no secret is compared")
        #expect(try await harness.send(.get, "/v1/backends", headers: APIHarness.bearer("shop")).status == 429)
        harness.time.advance(by: .milliseconds(60))
        #expect(try await call("sesame") == 204)
    }

    private struct SecretReader: ReceiptReader {
        func isAuthentic(head: ReceiptCallback) throws(ReceiptRefusal) -> Bool {
            guard head.pathSecret?.reveal() == "sesame" else { throw .notAuthentic("wrong") }
            return true
        }
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] { [] }
        var acknowledgement: [UInt8] { Array("{}".utf8) }
    }

    @Test("is remembered by the addresses where a key was good lately, in bounded memory")
    func memory() throws {
        let recent = RecentPeers()
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        func peer(_ number: Int) throws -> PeerAddress {
            try #require(PeerAddress("10.0.\(number / 256).\(number % 256)"))
        }
        for number in 0..<(2 * RecentPeers.capacity) {
            recent.note(try peer(number), at: start + Double(number))
        }
        let known = try (0..<(2 * RecentPeers.capacity)).filter { recent.contains(try peer($0), at: start + 4_000) }
        #expect(known.count <= RecentPeers.capacity && known.contains(2 * RecentPeers.capacity - 1))
        let last = try peer(1_999)
        #expect(!recent.contains(last, at: start + 1_999 + RecentPeers.span))
    }
}
