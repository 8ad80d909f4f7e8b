import Foundation
import HTTPTypes
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("A notification to devices or users of the registry", .timeLimit(.minutes(1)))
struct APIDeviceAudienceTests {
    private func harness(
        _ backends: [StubBackend] = [.ios, .android],
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) async throws -> APIHarness {
        let harness = APIHarness(backends: backends, change)
        let devices: [(String, String?, [String])] = [
            ("phone", "ali", ["ios-apns"]), ("pixel", "ali", ["android-firebase"]),
            ("both", "sara", ["ios-apns", "ios-firebase"]), ("huawei", "reza", ["android-huawei"]),
            ("bare", "reza", []),
        ]
        for (id, user, services) in devices {
            let tokens = services.map { "\"\($0)\":\"\(id)\"" }.joined(separator: ",")
            let body = #"{"user":"\#(user ?? "")","tokens":{\#(tokens)}}"#
            #expect(try await harness.send(.put, "/v1/devices/\(id)", body).status == 201)
        }
        return harness
    }

    private func post(_ harness: APIHarness, _ to: String, _ more: String = "") async throws -> APIHarness.Reply {
        try await harness.post(#"{"to":\#(to),"content":{"title":"x"}\#(more)}"#)
    }

    private func plans(_ notification: NewNotification?) -> [String] {
        guard let notification else { return [] }
        return notification.recipients.indices.map { place in
            let plan = notification.plan(ofRecipient: place).backends.joined(separator: ">")
            return "\(notification.recipients[place].storedForm) \(plan)"
        }
    }

    @Test("becomes one delivery for each device, each with the backends that take its live tokens")
    func expanded() async throws {
        let harness = try await harness()
        let reply = try await post(harness, #"{"users":["ali","sara"]}"#)
        #expect(reply.status == 202, "\(reply.text)")
        #expect(reply.json["recipients"] == ["count": 3, "exact": true])
        #expect(reply.json["warnings"] == [])
        #expect(
            plans(harness.store.accepted.first) == [
                "device:phone ios", "device:pixel android", "device:both ios>android",
            ]
        )
        _ = try await post(harness, #"{"devices":["pixel","both"]}"#)
        #expect(plans(harness.store.accepted.last) == ["device:pixel android", "device:both ios>android"])
    }

    @Test("takes users whose names differ in their form of Unicode for two, as the registry does")
    func forms() async throws {
        let harness = try await harness()
        let names = ["ren\u{e9}", "rene\u{301}"]
        for (id, user) in zip(["composed", "decomposed"], names) {
            let body = #"{"user":"\#(user)","tokens":{"ios-apns":"\#(id)"}}"#
            #expect(try await harness.send(.put, "/v1/devices/\(id)", body).status == 201)
        }
        let reply = try await post(harness, #"{"users":["\#(names[1])","\#(names[0])"]}"#)
        #expect(reply.status == 202, "\(reply.text)")
        #expect(reply.json["warnings"] == [])
        #expect(plans(harness.store.accepted.last) == ["device:decomposed ios", "device:composed ios"])
        _ = try await post(harness, #"{"users":["\#(names[0])"]}"#)
        #expect(plans(harness.store.accepted.last) == ["device:composed ios"])
    }

    @Test("follows the route that matches the device, with the backends that can reach it")
    func routes() async throws {
        let harness = try await harness([.ios, .android, .crm]) { configuration in
            configuration.routes = [
                GatewayConfiguration.Route(platform: "ios", plan: DeliveryPlan(["android", "ios", "crm"])),
                GatewayConfiguration.Route(service: .androidFirebase, plan: DeliveryPlan(["ios", "android"])),
                GatewayConfiguration.Route(
                    name: "fan",
                    platform: "x",
                    plan: DeliveryPlan(["ios", "android"]),
                    isFanOut: true
                ),
            ]
        }
        _ = try await post(harness, #"{"devices":["phone","pixel","both","huawei"]}"#)
        #expect(
            plans(harness.store.accepted.first) == [
                "device:phone ios>crm", "device:pixel android", "device:both android>ios>crm", "device:huawei crm",
            ]
        )
        _ = try await post(harness, #"{"devices":["phone","both"]}"#, #","route":"fan""#)
        #expect(
            plans(harness.store.accepted.last) == ["device:phone ios", "device:both ios", "device:both android"]
        )
        _ = try await post(harness, #"{"devices":["both"]}"#, #","backend":"android""#)
        #expect(plans(harness.store.accepted.last) == ["device:both android"])
    }

    @Test("prefers tokens in the order of the configuration")
    func priority() async throws {
        let harness = try await harness { $0.tokenPriority = [.iOSFirebase, .iOSAPNs] }
        _ = try await post(harness, #"{"devices":["both"]}"#)
        #expect(plans(harness.store.accepted.first) == ["device:both android>ios"])
    }

    @Test("leaves out dead tokens, and takes those whose tombstones are quarantined for alive")
    func deadTokens() async throws {
        let harness = try await harness()
        let refusals = ["both", "phone"].map { id in
            TokenRefusal(
                DeviceToken(id, service: .iOSAPNs),
                asOf: harness.time.now,
                at: harness.time.now,
                backend: "ios",
                reason: "Unregistered"
            )
        }
        _ = try await harness.devices.invalidate([refusals[0]])
        _ = try await harness.devices.quarantine([refusals[1]])
        _ = try await post(harness, #"{"devices":["both","phone"]}"#)
        #expect(plans(harness.store.accepted.first) == ["device:both android", "device:phone ios"])
    }

    @Test("warns of users without devices and of devices that nothing reaches")
    func warnings() async throws {
        let harness = try await harness()
        let reply = try await post(harness, #"{"users":["nobody","ali","reza"]}"#)
        #expect(reply.status == 202)
        #expect(reply.json["recipients"]?["count"] == 2)
        let warnings = (reply.json["warnings"]?.arrayValue ?? []).map {
            "\($0["pointer"]?.stringValue ?? "") \($0["code"]?.stringValue ?? "")"
        }
        #expect(
            warnings == [
                "#/to/users/0 no_device", "#/to/users/2 audience_not_supported", "#/to/users/2 no_live_token",
            ]
        )
    }

    static let refused: [(String, String, [String])] = [
        (
            #"{"devices":["phone","nobody","no one"]}"#, "",
            ["#/to/devices/1 unknown_device", "#/to/devices/2 unknown_device"]
        ),
        (#"{"users":["nobody"]}"#, "", ["#/to/users audience_empty"]),
        (#"{"users":["reza"]}"#, "", ["#/to/users/0 audience_not_supported", "#/to/users/0 no_live_token"]),
        (#"{"devices":["bare"]}"#, "", ["#/to/devices/0 no_live_token"]),
        (#"{"devices":["phone","both"]}"#, #","backend":"andriod""#, ["#/backend unknown_backend"]),
        (#"{"devices":["phone"]}"#, #","route":"fast""#, ["#/route unknown_route"]),
        (#"{"devices":["phone"]}"#, #","backend":"android""#, ["#/to/devices/0 audience_not_supported"]),
    ]

    @Test("is refused when it would reach no device", arguments: refused)
    func nobody(to: String, more: String, errors: [String]) async throws {
        let harness = try await harness()
        let reply = try await post(harness, to, more)
        #expect(reply.status == 422)
        #expect(reply.errors == errors)
        #expect(harness.store.accepted.isEmpty)
    }

    @Test("is looked up in a batch as well, each notification by itself")
    func batch() async throws {
        let harness = try await harness()
        let reply = try await harness.send(
            .post,
            "/v1/notifications/batch",
            """
            {"notifications":[{"to":{"users":["ali"]},"content":{"title":"x"}},
            {"to":{"devices":["nobody"]},"content":{"title":"x"}},
            {"to":{"users":["sara","nobody"]},"content":{"title":"x"}}]}
            """
        )
        let items = reply.json["notifications"]?.arrayValue ?? []
        #expect(items.map { $0["status"]?.integerValue } == [202, 422, 202])
        #expect(APIHarness.errors(of: items[1]["problem"]) == ["#/notifications/1/to/devices/0 unknown_device"])
        #expect(items[2]["warnings"]?.arrayValue?.first?["pointer"] == "#/notifications/2/to/users/1")
        #expect(harness.store.accepted.map(\.recipients.count) == [2, 1])
    }

    @Test("is refused when its users have more devices than one notification may have recipients")
    func tooMany() async throws {
        let harness = APIHarness()
        let now = harness.time.now
        for part in 0..<11 {
            _ = try await harness.devices.put(
                (0..<1000).map { number in
                    let token = DeviceToken("\(part)-\(number)", service: .iOSAPNs)
                    return Device(
                        id: "d\(part)-\(number)",
                        user: "crowd",
                        tokens: [RegisteredToken(token, registeredAt: now)],
                        createdAt: now
                    )
                }
            )
        }
        let reply = try await post(harness, #"{"users":["crowd"]}"#)
        #expect(reply.status == 422)
        #expect(reply.errors == ["#/to/users too_many_recipients"])
    }

    @Test("is not looked up for anything else: a registry that fails stops no notification to a token")
    func independent() async throws {
        let harness = try await harness()
        harness.devices.fail(.failed("x"))
        #expect(try await harness.post(APIHarness.sample()).status == 202)
        #expect(try await post(harness, #"{"devices":["phone"]}"#).code == "store_failed")
    }
}
