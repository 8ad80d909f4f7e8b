import Foundation
import HTTPTypes
import PushCore
import PushStoreSQLite
import PushTesting
import Testing

@testable import PushGateway

@Suite("What apps tell about the gateway's own messages", .timeLimit(.minutes(1)))
struct OwnMessageTests {
    /// Ways to name the second delivery of a notification.
    enum Naming: CaseIterable {
        case notification, message, payload, wrappedPayload

        func body(_ event: String, _ id: NotificationID) -> String {
            let message = MessageID(high: 7, low: UInt64(bitPattern: id.rawValue + 1) | 1 << 63)
            let naming: String =
                switch self {
                case .notification: #""notification":"\#(id)""#
                case .message: #""delivery":"\#(message)""#
                case .payload: #""payload":{"chapar_id":"\#(message)"}"#
                case .wrappedPayload: #""payload":{"data":{"chapar_id":"\#(message)"}}"#
                }
            return #"{"event":"\#(event)",\#(naming)}"#
        }
    }

    @Test("A delivery becomes delivered and opened, once, and never less", arguments: Naming.allCases)
    func moves(naming: Naming) async throws {
        try await OperationRig.run { rig in
            let state = GatewayState(snapshot: rig.snapshot([:]), store: rig.store, devices: rig.store, time: rig.time)
            let api = rig.api(state)
            _ = try await rig.store.put([rig.device("a")])
            let other = Recipient.token(DeviceToken("other", service: .iOSAPNs))
            let id = try await rig.accepted([other, .token(DeviceToken("t-a", service: .iOSAPNs))])
            for (event, expected) in [("delivered", "delivered"), ("opened", "opened"), ("delivered", "opened")] {
                let reply = try await APIHarness.send(
                    api.responder,
                    .post,
                    "/v1/devices/a/events",
                    naming.body(event, id)
                )
                #expect(reply.status == 202, "\(reply.text)")
                let delivery = reply.json["deliveries"]?.arrayValue?.first
                #expect(delivery?["state"]?.stringValue == expected && delivery?["delivery"] == 1)
            }
            let counts = try await rig.store.notification(id)?.counts
            #expect(counts == [.acceptedByPlatform: 1, .opened: 1])
            let types = try await rig.events().compactMap { $0["type"]?.stringValue }
            #expect(types == ["delivery.delivered", "delivery.opened"])
        }
    }

    @Test("A notification that went to other devices is none of this one's")
    func foreign() async throws {
        try await OperationRig.run { rig in
            let state = GatewayState(snapshot: rig.snapshot([:]), store: rig.store, devices: rig.store, time: rig.time)
            _ = try await rig.store.put([rig.device("a")])
            let id = try await rig.accepted([.device("b")])
            let reply = try await APIHarness.send(
                rig.api(state).responder,
                .post,
                "/v1/devices/a/events",
                Naming.notification.body("opened", id)
            )
            #expect(reply.errors == ["#/notification unknown_message"])
        }
    }
}
