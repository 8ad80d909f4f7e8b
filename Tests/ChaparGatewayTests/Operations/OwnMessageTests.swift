import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Apps' reports about the gateway's own messages", .timeLimit(.minutes(1)))
struct OwnMessageTests {
    /// Ways to name the second delivery of a notification.
    enum Naming: CaseIterable {
        case notification, message, payload, wrappedPayload

        func body(_ event: String, _ id: NotificationID, instance: UInt64 = OwnMessageTests.instance) -> String {
            let message = MessageID(instance: instance, delivery: id.rawValue + 1)
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

    static let instance: UInt64 = 0x0123_4567_89AB_CDEF

    @Test("A delivery becomes delivered and opened, once, and never less", arguments: Naming.allCases)
    func moves(naming: Naming) async throws {
        try await OperationRig.run { rig in
            let state = GatewayState(snapshot: rig.snapshot([:]), store: rig.store, devices: rig.store, time: rig.time)
            let api = rig.api(state)
            _ = try await rig.store.put([rig.device("a")])
            try await rig.store.saveState("gateway.instance", Array("\(Self.instance)".utf8))
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

    @Test(
        "Who knows or guesses an id opens no message of another device, nor one of another gateway",
        arguments: Naming.allCases
    )
    func forged(naming: Naming) async throws {
        try await OperationRig.run { rig in
            let state = GatewayState(snapshot: rig.snapshot([:]), store: rig.store, devices: rig.store, time: rig.time)
            let api = rig.api(state)
            try await rig.store.saveState("gateway.instance", Array("\(Self.instance)".utf8))
            _ = try await rig.store.put([rig.device("a"), rig.device("b")])
            func open(_ device: String, _ body: String) async throws -> APIHarness.Reply {
                try await APIHarness.send(api.responder, .post, "/v1/devices/\(device)/events", body)
            }
            let first = DeviceToken("x", service: .iOSAPNs)
            let recipients: [Recipient] = [
                .token(DeviceToken("t-a", service: .iOSAPNs)), .device("a"), .user("user of a"),
            ]
            for recipient in recipients {
                let id = try await rig.accepted([.token(first), recipient])
                let others = try await open("b", naming.body("opened", id))
                #expect(others.json["deliveries"]?.arrayValue?.isEmpty ?? true, "\(others.text)")
                if naming != .notification {
                    let foreign = try await open("a", naming.body("opened", id, instance: 7))
                    #expect(foreign.status == 422, "\(foreign.text)")
                }
                let counts = try await rig.store.notification(id)?.counts
                #expect(counts == [.acceptedByPlatform: 2], "\(recipient)")
            }
        }
    }

    @Test("A key for other backends opens no message of this one, by any name", arguments: Naming.allCases)
    func otherBackend(naming: Naming) async throws {
        try await OperationRig.run { rig in
            var configuration = GatewayConfiguration.keyless
            configuration.apiKeys = ["ios", "crm"].map { APIHarness.key($0, [.devices], backends: [$0]) }
            let backends = ["ios", "crm"].map {
                BackendRegistry.ConfiguredBackend(name: $0, backend: ScriptedPlatform(), registersDevices: false)
            }
            let snapshot = GatewaySnapshot(configuration: configuration, backends: backends)
            let state = GatewayState(snapshot: snapshot, store: rig.store, devices: rig.store, time: rig.time)
            let api = rig.api(state)
            try await rig.store.saveState("gateway.instance", Array("\(Self.instance)".utf8))
            _ = try await rig.store.put([rig.device("a")])
            let id = try await rig.accepted([.token(DeviceToken("other", service: .iOSAPNs)), .device("a")])
            for (key, count) in [("crm", 0), ("ios", 1)] {
                let reply = try await APIHarness.send(
                    api.responder,
                    .post,
                    "/v1/devices/a/events",
                    naming.body("opened", id),
                    headers: APIHarness.bearer(key)
                )
                #expect(reply.json["deliveries"]?.arrayValue?.count ?? 0 == count, "\(key): \(reply.text)")
                #expect(try await rig.store.notification(id)?.counts[.opened] ?? 0 == count)
            }
        }
    }

    @Test("A message to an audience is opened by any device with its id")
    func audience() async throws {
        try await OperationRig.run { rig in
            let state = GatewayState(snapshot: rig.snapshot([:]), store: rig.store, devices: rig.store, time: rig.time)
            try await rig.store.saveState("gateway.instance", Array("\(Self.instance)".utf8))
            _ = try await rig.store.put([rig.device("b")])
            let id = try await rig.accepted([.topic("news"), .topic("sport")])
            let body = Naming.message.body("opened", id)
            let reply = try await APIHarness.send(rig.api(state).responder, .post, "/v1/devices/b/events", body)
            #expect(reply.json["deliveries"]?.arrayValue?.first?["state"] == "opened", "\(reply.text)")
        }
    }

    /// The names of the message in a report, and the backend that gets it; nil where the request must name the backend.
    static let platformMessages: [(more: String, sentBy: String, told: String?)] = [
        (#""payload":{"_crm":1,"_uid":"u","chapar_id":"ID"}"#, "crm", "crm"),
        (#""payload":{"_crm":1,"_uid":"u","chapar_id":"ID"}"#, "crm2", "crm2"),
        (#""payload":{"_crm":1,"_uid":"u","chapar_id":"ID"},"backend":"crm2""#, "crm", "crm2"),
        (#""payload":{"_crm":1,"_uid":"u"},"backend":"crm2""#, "crm", "crm2"),
        (#""payload":{"_crm":1,"_uid":"u"}"#, "crm", nil),
        (#""payload":{"_crm":1,"_uid":"u","chapar_id":"ID"}"#, "ios", nil),
    ]

    @Test(
        "A message that two platforms of a kind take for theirs is told to the one that sent it",
        arguments: platformMessages
    )
    func twoOfAKind(more: String, sentBy: String, told: String?) async throws {
        try await OperationRig.run { rig in
            let snapshot = rig.snapshot(["crm": ScriptedPlatform(), "crm2": ScriptedPlatform()])
            let state = GatewayState(snapshot: snapshot, store: rig.store, devices: rig.store, time: rig.time)
            try await rig.store.saveState("gateway.instance", Array("\(Self.instance)".utf8))
            _ = try await rig.store.put([rig.device("a")])
            let id = try await rig.accepted([.token(DeviceToken("t-a", service: .iOSAPNs))], by: sentBy)
            let message = MessageID(instance: Self.instance, delivery: id.rawValue)
            let body = #"{"event":"opened",\#(more.replacing("ID", with: "\(message)"))}"#
            let reply = try await APIHarness.send(rig.api(state).responder, .post, "/v1/devices/a/events", body)
            let waiting = try await rig.store.entries(ofDevice: "a", limit: 9).map(\.operation.backend)
            #expect(waiting == [told].compactMap(\.self), "\(reply.text)")
            if told == nil {
                #expect(reply.errors == ["#/backend backend_missing"], "\(reply.text)")
                #expect(reply.text.contains("crm, crm2"))
            } else {
                #expect(reply.status == 202, "\(reply.text)")
            }
        }
    }

    @Test(
        "A backend that is named must be there and take events",
        arguments: [("crm3", "#/backend unknown_backend"), ("ios", "#/backend unsupported")]
    )
    func namedBackend(name: String, error: String) async throws {
        try await OperationRig.run { rig in
            let snapshot = rig.snapshot(["crm": ScriptedPlatform(), "ios": StubBackend.ios])
            let state = GatewayState(snapshot: snapshot, store: rig.store, devices: rig.store, time: rig.time)
            _ = try await rig.store.put([rig.device("a")])
            let body = #"{"event":"opened","payload":{"_crm":1,"_uid":"u"},"backend":"\#(name)"}"#
            let reply = try await APIHarness.send(rig.api(state).responder, .post, "/v1/devices/a/events", body)
            #expect(reply.errors == [error], "\(reply.text)")
        }
    }
}
