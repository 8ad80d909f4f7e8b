import Crypto
import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("VAPID keys and tokens: RFC 8292", .timeLimit(.minutes(1)))
struct WebPushVAPIDTests {
    @Test("A key is read in each of its three forms, and gives the same public key")
    func forms() throws {
        let key = P256.Signing.PrivateKey()
        let made = try WebPushKey(Secret(key.pemRepresentation))
        #expect(made.publicKey == Base64URL.encode(key.publicKey.x963Representation))
        #expect(made.publicKey.utf8.count == 87)
        #expect(made.privateKey.reveal().utf8.count == 43)
        #expect(try WebPushKey(made.privateKey).publicKey == made.publicKey)
        #expect(try WebPushKey(Secret("  \(made.privateKey.reveal())\n")).publicKey == made.publicKey)
        #expect(try WebPushKey(made.pem).publicKey == made.publicKey)
        let sec1 =
            [0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20] + Array(key.rawRepresentation)
            + [0xA0, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
        let pem = "-----BEGIN EC PRIVATE KEY-----\n\(Data(sec1).base64EncodedString())\n-----END EC PRIVATE KEY-----\n"
        #expect(try WebPushKey(Secret(pem)).publicKey == made.publicKey)
    }

    static var mistakes: [(String, String)] {
        [
            ("", "i"), (WebPushKey().publicKey, "is a public key"),
            (P384.Signing.PrivateKey().pemRepresentation, "P-256 only"),
            (Base64URL.encode([UInt8](repeating: 0, count: 32)), "no key of the curve"),
            (Base64URL.encode([UInt8](repeating: 0xFF, count: 32)), "no key of the curve"), ("short", "i"),
        ]
    }

    @Test("The error names the fault of a wrong key and does not show it")
    func mistakes() {
        for (text, words) in Self.mistakes {
            let mistake = #expect(throws: WebPushKey.Mistake.self) { try WebPushKey(Secret(text)) }
            #expect(mistake?.problem.contains(words) ?? false, "\(mistake?.problem ?? "")")
            if text.utf8.count > 20 { #expect(mistake.map { !"\($0)".contains(text) } ?? false) }
        }
    }

    private static func claims(_ field: String) throws -> (claims: JSONValue, token: String) {
        let token = try #require(field.split(separator: ",").first).dropFirst("vapid t=".count)
        let bytes = try #require(Base64URL.decode(token.split(separator: ".")[1]))
        return (try JSONValue(parsing: bytes), String(token))
    }

    @Test("One token for each origin, with its port, used for half of its life, at most a day")
    func tokens() throws {
        let auth = WebPushAuth(keys: [WebPushKey()], subject: "mailto:ops@example.com", lifetime: .seconds(43_200))
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let own = HTTPEndpoint(host: "push.example.org", port: 8_443)
        let first = try auth.authorization(for: own, key: 0, now: now)
        let (claims, token) = try Self.claims(first)
        #expect(claims["aud"] == "https://push.example.org:8443")
        #expect(claims["sub"] == "mailto:ops@example.com")
        #expect(claims["exp"] == .integer(1_800_043_200))
        let other = try auth.authorization(for: HTTPEndpoint(host: "fcm.googleapis.com"), key: 0, now: now)
        #expect(try Self.claims(other).claims["aud"] == "https://fcm.googleapis.com")
        let later = try auth.authorization(for: own, key: 0, now: now.addingTimeInterval(21_599))
        #expect(try Self.claims(later).token == token)
        let renewed = try auth.authorization(for: own, key: 0, now: now.addingTimeInterval(21_601))
        #expect(try Self.claims(renewed).token != token)
        let back = try auth.authorization(for: own, key: 0, now: now.addingTimeInterval(-60))
        #expect(try Self.claims(back).claims["exp"] == .integer(1_800_043_140), "a clock that was set back")
        let soon = try auth.authorization(for: own, key: 0, refusedSince: now, now: now.addingTimeInterval(-51))
        #expect(try Self.claims(soon).token == (try Self.claims(back).token), "not with each refusal")
        let again = try auth.authorization(for: own, key: 0, refusedSince: now, now: now.addingTimeInterval(1))
        #expect(try Self.claims(again).token != (try Self.claims(back).token))
    }

    @Test("Messages to one origin share their token")
    func reuse() async throws {
        try await Harness.run { harness in
            for number in 0..<3 { await harness.send(to: "b-\(number)", at: .mozilla) }
            await harness.send(at: .apple)
            let inbox = harness.simulator.inbox()
            #expect(Set(inbox.filter { $0.service == .mozilla }.map(\.token)).count == 1)
            #expect(Set(inbox.map(\.token)).count == 2)
            #expect(inbox.allSatisfy { Double($0.tokenEnd) - $0.acceptedAt.timeIntervalSince1970 <= 86_400 })
        }
    }

    @Test("Subscriptions of an older key go on, and new ones get the first")
    func rotation() async throws {
        let fresh = WebPushKey()
        try await Harness.run(change: { options, _ in options.keys.insert(fresh, at: 0) }) { harness in
            #expect(harness.backend.applicationServerKey == fresh.publicKey)
            for service in WebPushService.allCases {
                let old = harness.subscribe("old", at: service, key: harness.simulator.applicationServerKey)
                let new = harness.subscribe("new", at: service, key: fresh.publicKey)
                #expect(await harness.backend.send(.sample, to: [old, new]).allSatisfy(\.isAccepted), "\(service)")
                let before = harness.sent.requests.count
                #expect(await harness.backend.send(.sample, to: old).isAccepted)
                #expect(harness.sent.requests.count == before + 1, "the key is remembered")
            }
        }
    }

    @Test("A subscription of a key that is gone is not deleted, and is told apart", arguments: WebPushService.allCases)
    func foreignKey(service: WebPushService) async throws {
        try await Harness.run { harness in
            let foreign = harness.subscribe("foreign", at: service, key: WebPushKey().publicKey)
            let refusal = try #require(await harness.backend.send(.sample, to: foreign).refusal)
            // A server of the RFCs alone answers 403 for each fault of VAPID.
            #expect(refusal.reason == (service == .plain || service == .wns ? "forbidden" : "vapid_key_mismatch"))
            #expect(refusal.invalidation == nil)
        }
    }
}
