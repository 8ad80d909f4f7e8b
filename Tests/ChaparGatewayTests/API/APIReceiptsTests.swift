import Foundation
import HTTPTypes
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Receipts over HTTP", .timeLimit(.minutes(1)))
struct APIReceiptsTests {
    /// Believes who knows the word.
    struct Reader: ReceiptReader {
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
            guard callback.header("x-word") == "sesame" else { throw .notAuthentic("the word is wrong") }
            guard callback.body.first == UInt8(ascii: "{") else { throw .malformed("no object") }
            return [DeliveryReceipt(.delivered, platformID: "1", token: "t", reason: "delivered", at: .distantPast)]
        }
        var acknowledgement: [UInt8] { Array(#"{"code":"0"}"#.utf8) }
    }

    static let word: HTTPFields = [HTTPField.Name("X-Word") ?? .accept: "sesame"]

    static func harness(keys: [GatewayConfiguration.APIKey] = []) -> APIHarness {
        var backend = StubBackend.android
        backend.receipts = Reader()
        return APIHarness(backends: [.ios, backend], keys: keys)
    }

    @Test("A callback that is signed is taken without an API key, and answered as the platform wants")
    func takes() async throws {
        let harness = Self.harness(keys: [APIHarness.key("shop", [.send])])
        let reply = try await harness.send(.post, "/v1/backends/android/receipts", "{}", headers: Self.word)
        #expect(reply.status == 200)
        #expect(reply.text == #"{"code":"0"}"#)
    }

    @Test("It is taken from another host too, where the gateway otherwise answers this machine only")
    func foreignHost() async throws {
        let reply = try await Self.harness().send(
            .post,
            "/v1/backends/android/receipts",
            "{}",
            headers: Self.word,
            host: "push.example.com"
        )
        #expect(reply.status == 200)
    }

    @Test("An unsigned receipt is refused without details, an unreadable one is refused")
    func refuses() async throws {
        let harness = Self.harness()
        let unsigned = try await harness.send(.post, "/v1/backends/android/receipts", "{}")
        #expect(unsigned.status == 401)
        #expect(unsigned.code == "receipt_not_authentic")
        #expect(!unsigned.text.contains("word"))
        let odd = try await harness.send(.post, "/v1/backends/android/receipts", "odd", headers: Self.word)
        #expect(odd.status == 400)
        #expect(odd.code == "receipt_malformed")
    }

    @Test("Only backends that expect receipts take any", arguments: ["ios", "nobody", "a/b"])
    func unknown(name: String) async throws {
        let reply = try await Self.harness().send(.post, "/v1/backends/\(name)/receipts", "{}", headers: Self.word)
        #expect(reply.status == 404)
    }

    @Test("Only a POST of a bounded size is accepted")
    func bounds() async throws {
        let harness = Self.harness()
        #expect(try await harness.send(.get, "/v1/backends/android/receipts").status == 405)
        let large = String(repeating: "x", count: ReceiptsAPI.maximumBody + 1)
        let reply = try await harness.send(.post, "/v1/backends/android/receipts", large, headers: Self.word)
        #expect(reply.status == 413)
    }

    @Test("Genuine callbacks beyond a rate are sent away with a word about when to come again")
    func rate() async throws {
        let harness = Self.harness()
        var statuses: Set<Int> = []
        for _ in 0..<Int(ReceiptsAPI.perSecond * 3) {
            statuses.insert(
                try await harness.send(.post, "/v1/backends/android/receipts", "{}", headers: Self.word).status
            )
        }
        #expect(statuses == [200, 503])
    }

    /// As ``Reader``, and knows from the head.
    struct HeadReader: ReceiptReader {
        let bodiesRead = Recorder<Int>()

        func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool {
            guard callback.header("x-word") == "sesame" else { throw .notAuthentic("the word is wrong") }
            return true
        }
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
            bodiesRead.add(callback.body.count)
            return []
        }
        var acknowledgement: [UInt8] { Array("{}".utf8) }
    }

    /// Refused attempts of one peer at once.
    static let atOnce = Int(Peers.refusals.perSecond * Peers.refusals.burst.inSeconds)

    @Test("However many are forged, the genuine come through", arguments: [false, true])
    func forged(knowsFromHead: Bool) async throws {
        let headReader = HeadReader()
        var backend = StubBackend.android
        backend.receipts = knowsFromHead ? headReader : Reader()
        let log = RecordedLog()
        let harness = APIHarness(backends: [.ios, backend], logger: log.logger)
        func post(_ headers: HTTPFields = [:]) async throws -> APIHarness.Reply {
            try await harness.send(.post, "/v1/backends/android/receipts", "{}", headers: headers)
        }
        var statuses: [Int: Int] = [:]
        for _ in 0..<Int(ReceiptsAPI.perSecond * 3) { statuses[try await post().status, default: 0] += 1 }
        #expect(statuses == [401: Self.atOnce, 429: Int(ReceiptsAPI.perSecond * 3) - Self.atOnce])
        #expect(headReader.bodiesRead.all.isEmpty)
        // Without a head that tells, a peer that failed too often has to wait, which another does not.
        if !knowsFromHead { harness.time.advance(by: .seconds(1)) }
        #expect(try await post(Self.word).status == 200)
        let lines = log.lines.filter { $0.contains("not_authentic") }
        #expect(lines.count == 1, "\(lines)")
        harness.time.advance(by: .seconds(11))
        _ = try await post()
        let last = log.lines.last { $0.contains("not_authentic") } ?? ""
        #expect(
            last.contains(#""count": \#(knowsFromHead ? Int(ReceiptsAPI.perSecond * 3) : Self.atOnce)"#),
            "\(last)"
        )
    }

    @Test("Who guesses the secret of an address does not learn that it exists, however often")
    func guessed() async throws {
        var backend = StubBackend.android
        backend.receipts = HeadReader()
        let log = RecordedLog()
        let harness = APIHarness(backends: [.ios, backend], logger: log.logger)
        var answers: Set<String> = []
        for number in 0..<(2 * Self.atOnce) {
            let name = number % 2 == 0 ? "android" : "nobody"
            let reply = try await harness.send(.post, "/v1/backends/\(name)/webhook/planted-secret", "{}")
            answers.insert("\(reply.status) \(reply.json["detail"]?.stringValue ?? "")")
        }
        #expect(answers.count == 1 && answers.first?.hasPrefix("404") == true, "\(answers)")
        #expect(!log.lines.contains { $0.contains("planted-secret") }, "the path is in no line")
    }
}
