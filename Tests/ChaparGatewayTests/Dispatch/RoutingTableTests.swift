import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Finding the backends of a recipient", .timeLimit(.minutes(1)))
struct RoutingTableTests {
    private struct Stand: PushBackend {
        let kind: BackendKind = "stand"
        let audience: BackendAudience
        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
    }

    private static let backends = [
        BackendRegistry.ConfiguredBackend(name: "ios", backend: Stand(audience: BackendAudience(services: [.iOSAPNs]))),
        BackendRegistry.ConfiguredBackend(
            name: "fcm",
            backend: Stand(audience: BackendAudience(services: [.androidFirebase], forms: [.topic]))
        ),
        BackendRegistry.ConfiguredBackend(
            name: "crm",
            backend: Stand(audience: BackendAudience(services: [.iOSAPNs, .androidFirebase]))
        ),
    ]
    private static let apple = Recipient.token(DeviceToken("aa", service: .iOSAPNs))
    private static let android = Recipient.token(DeviceToken("bb", service: .androidFirebase))
    private let table = RoutingTable(
        routes: [
            GatewayConfiguration.Route(platform: "ios", plan: DeliveryPlan(["fcm", "ios", "crm"], onUnknown: .next)),
            GatewayConfiguration.Route(name: "crm-only", service: .androidFirebase, plan: DeliveryPlan(["crm"])),
        ],
        backends: backends
    )

    @Test("A route's backends are tried in its order, without those that cannot address the recipient")
    func matching() throws {
        #expect(try table.plan(for: Self.apple, .automatic) == DeliveryPlan(["ios", "crm"], onUnknown: .next))
        #expect(try table.plan(for: Self.android, .automatic) == DeliveryPlan(["crm"]))
    }

    @Test("Without a route that matches, the first backend that takes the recipient has it")
    func automatic() throws {
        let bare = RoutingTable(routes: [], backends: Self.backends)
        #expect(try bare.plan(for: Self.android, .automatic) == DeliveryPlan(["fcm"]))
        #expect(try bare.plan(for: .topic("news"), .route("default")) == DeliveryPlan(["fcm"]))
    }

    @Test("A recipient without a route that can address it is routed as if there were no routes")
    func unmatched() throws {
        let routes = [
            GatewayConfiguration.Route(platform: "web", plan: DeliveryPlan(["fcm"])),
            GatewayConfiguration.Route(name: "phones", platform: "android", plan: DeliveryPlan(["ios"])),
        ]
        let table = RoutingTable(routes: routes, backends: Self.backends)
        #expect(try table.plan(for: Self.apple, .automatic) == DeliveryPlan(["ios"]))
        #expect(try table.plan(for: Self.android, .automatic) == DeliveryPlan(["fcm"]))
        #expect(try table.plan(for: .topic("news"), .automatic) == DeliveryPlan(["fcm"]))
        #expect(throws: RoutingTable.Failure.noBackend) {
            try table.plan(for: .token(DeviceToken("cc", service: .androidHuawei)), .automatic)
        }
        #expect(throws: RoutingTable.Failure.notAddressable(["ios"])) {
            try table.plan(for: Self.android, .route("phones"))
        }
    }

    @Test("A route for everybody says where topics go, in its order; without one, several backends are a question")
    func topics() throws {
        let huawei = BackendRegistry.ConfiguredBackend(
            name: "hms",
            backend: Stand(audience: BackendAudience(services: [.androidHuawei], forms: [.topic]))
        )
        func make(_ routes: GatewayConfiguration.Route...) -> RoutingTable {
            RoutingTable(routes: routes, backends: Self.backends + [huawei])
        }
        let topic = Recipient.topic("news")
        let question = RoutingTable.Failure.ambiguous(backends: ["fcm", "hms"])
        #expect(throws: question) { try make().plan(for: topic, .automatic) }
        // A route for devices of a platform says nothing about topics, nor does one without a backend that has any.
        let phones = make(GatewayConfiguration.Route(platform: "android", plan: DeliveryPlan(["hms", "fcm"])))
        #expect(throws: question) { try phones.plan(for: topic, .automatic) }
        let without = make(GatewayConfiguration.Route(plan: DeliveryPlan(["ios"])))
        #expect(throws: question) { try without.plan(for: topic, .automatic) }
        // The plan is the operator's word: its order is meant, as for tokens.
        let everybody = make(GatewayConfiguration.Route(plan: DeliveryPlan(["ios", "hms", "fcm"])))
        #expect(try everybody.plan(for: topic, .automatic) == DeliveryPlan(["hms", "fcm"]))
        let named = make(GatewayConfiguration.Route(name: "phones", platform: "android", plan: DeliveryPlan(["fcm"])))
        #expect(try named.plan(for: topic, .route("phones")) == DeliveryPlan(["fcm"]))
    }

    @Test("Without a route, a device goes through one backend for each of its services, those of one's own last")
    func devices() throws {
        let own = TokenService(rawValue: "x-pager")
        let pager = BackendRegistry.ConfiguredBackend(
            name: "pager",
            backend: Stand(audience: BackendAudience(services: [own]))
        )
        let bare = RoutingTable(routes: [], backends: [pager] + Self.backends)
        let registered = Date(timeIntervalSince1970: 0)
        func device(_ services: TokenService...) -> Device {
            let tokens = services.map { RegisteredToken(DeviceToken("t", service: $0), registeredAt: registered) }
            return Device(id: "d", tokens: tokens, createdAt: registered)
        }
        #expect(try bare.routing(for: device(own), .automatic).plan == DeliveryPlan(["pager"]))
        #expect(
            try bare.routing(for: device(own, .androidFirebase, .iOSAPNs), .automatic).plan
                == DeliveryPlan(["ios", "fcm", "pager"])
        )
        let preferred = RoutingTable(routes: [], backends: [pager] + Self.backends, priority: [own, .iOSAPNs])
        #expect(
            try preferred.routing(for: device(own, .androidFirebase, .iOSAPNs), .automatic).plan
                == DeliveryPlan(["pager", "ios", "fcm"])
        )
    }

    @Test("A route of which only the backends that take over reach a device leaves it to a route with a push")
    func escalations() throws {
        let own = TokenService(rawValue: "x-sms")
        let sms = BackendRegistry.ConfiguredBackend(
            name: "sms",
            backend: Stand(audience: BackendAudience(services: [own]))
        )
        func route(_ name: String) -> GatewayConfiguration.Route {
            var plan = DeliveryPlan([name, "sms"])
            plan.escalation = Escalation(step: 1, after: .seconds(120), maximumPerDay: 5)
            return GatewayConfiguration.Route(name: name, plan: plan)
        }
        func device(_ services: TokenService...) -> Device {
            let registered = Date(timeIntervalSince1970: 0)
            let tokens = services.map { RegisteredToken(DeviceToken("t", service: $0), registeredAt: registered) }
            return Device(id: "d", tokens: tokens, createdAt: registered)
        }
        let backends = Self.backends.filter { $0.name != "crm" } + [sms]
        let one = RoutingTable(routes: [route("fcm")], backends: backends)
        let both = RoutingTable(routes: [route("fcm"), route("ios")], backends: backends)
        for (table, device, expected, first) in [
            (one, device(.androidFirebase, own), ["fcm", "sms"], 1),
            (both, device(.iOSAPNs, own), ["ios", "sms"], 1),
            // No route has a push for it: its own tokens decide.
            (one, device(.iOSAPNs, own), ["ios", "sms"], nil),
            // It has nothing else: the limit of the day holds.
            (both, device(own), ["sms"], 0),
        ] as [(RoutingTable, Device, [String], Int?)] {
            let plan = try table.routing(for: device, .automatic).plan
            #expect(plan.backends == expected)
            #expect(plan.escalation?.step == first, "\(expected)")
        }
        #expect(try one.routing(for: device(.iOSAPNs, own), .route("fcm")).plan.backends == ["sms"])
    }

    @Test("A name that does not exist is answered with the nearest that does")
    func names() {
        #expect(throws: RoutingTable.Failure.unknownBackend(nearest: "ios")) {
            try table.plan(for: Self.apple, .backend("iso"))
        }
        #expect(throws: RoutingTable.Failure.unknownRoute(nearest: "crm-only")) {
            try table.plan(for: Self.apple, .route("crm-onyl"))
        }
    }

    @Test("A backend is never handed a token of another service")
    func addressing() {
        #expect(throws: RoutingTable.Failure.notAddressable(["ios"])) {
            try table.plan(for: Self.android, .backend("ios"))
        }
        #expect(throws: RoutingTable.Failure.noBackend) { try table.plan(for: .everyone, .automatic) }
    }

    @Test("A route that fans out gives every backend that can address the recipient a delivery of its own")
    func fanOut() throws {
        let plan = DeliveryPlan(["ios", "fcm", "crm"], onUnknown: .stop)
        let table = RoutingTable(
            routes: [GatewayConfiguration.Route(name: "all", plan: plan, isFanOut: true)],
            backends: Self.backends
        )
        let routing = try table.routing(for: Self.apple, .route("all"))
        #expect(routing.isFanOut)
        #expect(routing.plan == .all("ios", "crm").onUnknown(.stop))
        let same = RoutingTable(
            routes: [GatewayConfiguration.Route(name: "all", plan: .all("ios", "fcm", "crm").onUnknown(.stop))],
            backends: Self.backends
        )
        #expect(try same.routing(for: Self.apple, .route("all")) == routing, "the value of the plan says it as well")
    }
}
