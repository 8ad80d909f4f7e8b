import Crypto
import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparWebPush

@Suite("Encryption of messages: RFC 8188 and 8291", .timeLimit(.minutes(1)))
struct WebPushEncryptionTests {
    /// The example of RFC 8291, section 5 and appendix A.
    enum Vector {
        static let plaintext = "When I grow up, I want to be a watermelon"
        static let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        static let auth = "BTBZMqHH6r4Tts7J_aSIgg"
        static let salt = "DGv6ra1nlYgDCS1FRnbzlw"
        static let sender = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
        static let body =
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6"
            + "PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        static let subscription =
            #"{"endpoint":"https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV","#
            + #""keys":{"p256dh":"\#(point)","auth":"\#(auth)"}}"#
    }

    @Test("The body of RFC 8291's example comes out, byte for byte")
    func vector() throws {
        let subscription = try WebPushSubscription(Vector.subscription)
        let sender = try P256.KeyAgreement.PrivateKey(
            rawRepresentation: try #require(Base64URL.decode(Vector.sender))
        )
        let salt = try #require(Base64URL.decode(Vector.salt))
        let text = Array(Vector.plaintext.utf8)
        let body = try WebPushEncryption.body(of: text, for: subscription, sender: sender, salt: salt)
        #expect(Base64URL.encode(body) == Vector.body)
        #expect(body.count == 144)
    }

    @Test("A body has 103 octets more than its text, up to 4,096", arguments: [0, 1, 41, 3_993])
    func sizes(count: Int) throws {
        let subscription = try WebPushSubscription(Vector.subscription)
        let text = [UInt8](repeating: 0x61, count: count)
        #expect(try WebPushEncryption.body(of: text, for: subscription).count == count + 103)
    }

    @Test("A text that needs a second record is not encrypted")
    func tooLong() throws {
        let subscription = try WebPushSubscription(Vector.subscription)
        #expect(throws: CryptoKitError.self) {
            try WebPushEncryption.body(of: [UInt8](repeating: 0, count: 3_994), for: subscription)
        }
    }

    @Test("Two sends of one message share neither salt nor key, and both are read")
    func fresh() async throws {
        try await Harness.run { harness in
            await harness.send()
            await harness.send()
            let inbox = harness.simulator.inbox()
            try #require(inbox.count == 2)
            #expect(inbox[0].header.prefix(21) != inbox[1].header.prefix(21))
            #expect(inbox[0].header.suffix(80) != inbox[1].header.suffix(80))
            #expect(inbox[0].json?["notification"]?["title"] == "Parcel")
        }
    }

    @Test("A persian text and the largest one arrive; a larger one is refused before it is accepted")
    func limits() async throws {
        try await Harness.run { harness in
            var notification = PushNotification(title: "چاپار", body: "بسته شما در راه است")
            #expect(await harness.send(notification).isAccepted)
            #expect(harness.simulator.inbox().last?.json?["notification"]?["body"] == "بسته شما در راه است")
            notification.body = ""
            let payload = WebPushPayload(notification, WebPushPayload.Settings()).encoded(in: nil)
            let room = WebPushEncryption.maximumPlaintext - payload.bytes.count
            notification.body = .plain(String(repeating: "a", count: room))
            #expect(harness.backend.check(notification, for: .token).faults.isEmpty)
            #expect(harness.backend.check(notification, for: .token).warnings.map(\.code).contains("large"))
            #expect(await harness.send(notification).isAccepted)
            #expect(harness.simulator.inbox().last?.bodyBytes == 4_096)
            notification.body = .plain(String(repeating: "a", count: room + 1))
            let check = harness.backend.check(notification, for: .token)
            #expect(check.faults.map(\.code) == ["too_large"])
            #expect(check.faults.first?.pointer == "#/content")
            #expect(await harness.send(notification).refusal?.reason == "too_large")
        }
    }
}
