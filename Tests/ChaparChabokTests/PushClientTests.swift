import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparChabok
@testable import ChaparChabokSDK

/// The names of the vendor's client library, and what observers of them get.
@Suite("Chabok: what the client library posts", .timeLimit(.minutes(1)))
struct PushClientTests {
    @Test("The five names are the client library's")
    func names() {
        let names = [
            kPushClientDidFailRegisterUserNotification, kPushClientDidReceivedMessageNotification,
            kPushClientDidRegisterUserNotification, kPushClientDidChangeServerConnectionStateNotification,
            kPushClientDidChangeServerReachabilityNotification,
        ]
        #expect(
            names.map(\.rawValue) == [
                "PushClientDidFailRegisterUserNotification", "PushClientDidReceivedMessageNotification",
                "PushClientDidRegisterUserNotification", "PushClientDidChangeServerConnectionStateNotification",
                "PushClientDidChangeServerReachabilityNotification",
            ]
        )
        #expect(ChabokEvent.registered(user: "u", installation: "i").clientName == names[2].rawValue)
        #expect(ChabokEvent.reported(ChabokReport(.opened)).clientNotification == nil)
    }

    @Test("Observers get each event with what the client library gives along")
    func observers() async throws {
        try await Harness.run(adjust: { $0.webhookSecret = Secret("sixteen-bytes-or-more") }) { harness in
            let center = NotificationCenter()
            let seen = Recorder<String>()
            let observers = [
                (kPushClientDidRegisterUserNotification, ["isRegistered", "userId"]),
                (kPushClientDidFailRegisterUserNotification, ["error"]),
                (kPushClientDidReceivedMessageNotification, ["message"]),
                (kPushClientDidChangeServerConnectionStateNotification, []),
                (kPushClientDidChangeServerReachabilityNotification, ["networkType", "reachable"]),
            ].map { name, keys in
                center.addObserver(forName: name, object: nil, queue: nil) { notification in
                    let found = (notification.userInfo ?? [:]).keys.compactMap { $0 as? String }.sorted()
                    seen.add("\(name.rawValue.dropFirst(13)) \(found == keys)")
                }
            }
            defer { for observer in observers { center.removeObserver(observer) } }
            _ = try await harness.backend.installations.register(.sample())
            _ = await failure { () async throws(PushError) in
                _ = try await harness.backend.installations.register(.sample("d-2", user: "a b"))
            }
            let reader = try #require(harness.backend.receipts)
            let body = #"{"event":"message.delivered","messageId":"m7","userId":"u-1"}"#
            let callback = ReceiptCallback(
                headers: [],
                body: Array(body.utf8),
                receivedAt: harness.time.now,
                pathSecret: Secret("sixteen-bytes-or-more")
            )
            let receipts = try reader.receipts(in: callback)
            #expect(receipts.map(\.event) == [.delivered])
            #expect(!harness.notices.all.contains { $0.name == "message_received" }, "the receipt tells the gateway")
            await harness.backend.shutdown(grace: .zero)
            await harness.backend.stream.post(to: center)
            for word in ["RegisterUserNotification", "FailRegisterUserNotification", "ReceivedMessageNotification"] {
                #expect(seen.all.contains { $0.hasSuffix("\(word) true") }, "\(word): \(seen.all)")
            }
            #expect(seen.all.allSatisfy { $0.hasSuffix("true") }, "\(seen.all)")
            #expect(seen.all.contains { $0.contains("ConnectionState") })
            #expect(seen.all.contains { $0.contains("Reachability") })
        }
    }

    @Test("A message that a webhook calls delivered was received, with what the webhook says of it")
    func received() async throws {
        try await Harness.run(adjust: { $0.webhookSecret = Secret("sixteen-bytes-or-more") }) { harness in
            let reader = try #require(harness.backend.receipts)
            for word in ["delivered", "opened"] {
                let body = #"{"event":"\#(word)","messageId":"m-\#(word)","message":{"content":"Hi","data":{"a":1}}}"#
                _ = try reader.receipts(
                    in: ReceiptCallback(
                        headers: [],
                        body: Array(body.utf8),
                        receivedAt: harness.time.now,
                        pathSecret: Secret("sixteen-bytes-or-more")
                    )
                )
            }
            let messages = await harness.events().compactMap { event in
                if case .messageReceived(let message) = event { message } else { nil }
            }
            #expect(messages.map(\.messageID) == ["m-delivered"])
            #expect(messages.first?.customData == ["a": 1] && messages.first?.body == "Hi")
        }
    }

    @Test("A notification alone goes to one user, bare")
    func notifyUser() async throws {
        try await Harness.run { harness in
            _ = harness.simulator.addInstallation(of: "u/1".replacingOccurrences(of: "/", with: "-"))
            let sent = try await harness.backend.messages.notify(.sample, user: "u-1")
            #expect(sent.devices == 1)
            #expect(harness.bodies("push/notifyUser/u-1") == [["title": "Parcel 7781", "body": "Left Tabriz"]])
            let untitled = await failure { () async throws(PushError) in
                _ = try await harness.backend.messages.notify(PushNotification(body: "B"), user: "u-1")
            }
            #expect(untitled?.reason == "title_missing")
            let nobody = await failure { () async throws(PushError) in
                _ = try await harness.backend.messages.notify(.sample, user: "a/b")
            }
            #expect(nobody?.reason == "bad_user")
        }
    }
}
