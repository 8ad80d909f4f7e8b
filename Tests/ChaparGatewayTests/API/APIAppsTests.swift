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

@Suite("Apps that share a gateway", .timeLimit(.minutes(1)))
struct APIAppsTests {
    private let harness: APIHarness

    init() {
        var (shop, forum) = (StubBackend.ios, StubBackend.ios)
        (shop.name, forum.name) = ("shop-ios", "forum-ios")
        let key = GatewayConfiguration.APIKey(
            name: "seller",
            hashes: [APIHarness.hash(of: "seller")],
            scopes: [.send, .devices, .read],
            app: AppName(rawValue: "shop"),
            backends: ["shop-ios"]
        )
        harness = APIHarness(
            backends: [shop, forum],
            apps: ["shop-ios": AppName(rawValue: "shop"), "forum-ios": AppName(rawValue: "forum")],
            keys: [APIHarness.key("boss", [.admin]), key]
        )
    }

    private func send(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: String? = nil,
        as key: String = "boss"
    ) async throws -> APIHarness.Reply {
        try await harness.send(method, path, body, headers: APIHarness.bearer(key))
    }

    private func register() async throws {
        for app in ["shop", "forum"] {
            let body = #"{"user":"ali","tokens":{"ios-apns":"same"},"tags":["\#(app)"]}"#
            #expect(try await send(.put, "/v1/devices/phone?app=\(app)", body).status == 201)
        }
    }

    @Test("have devices of the same id, user and token, each its own")
    func devices() async throws {
        try await register()
        for app in ["shop", "forum"] {
            let device = try await send(.get, "/v1/devices/phone?app=\(app)").json
            #expect(device["id"] == "phone")
            #expect(device["app"]?.stringValue == app)
            #expect(device["user"] == "ali")
            #expect(device["tags"]?.arrayValue == [.string(app)])
            #expect(device["tokens"]?["ios-apns"]?["alive"] == true)
            let list = try await send(.get, "/v1/devices?app=\(app)&user=ali").json["items"]?.arrayValue
            #expect(list?.count == 1)
            #expect(list?.first?["app"]?.stringValue == app)
        }
        #expect(try await send(.delete, "/v1/devices/phone?app=shop").status == 204)
        #expect(try await send(.get, "/v1/devices/phone?app=shop").status == 404)
        #expect(try await send(.get, "/v1/devices/phone?app=forum").status == 200)
    }

    @Test("have to be named, unless the API key says which; another one than the key's is refused")
    func naming() async throws {
        try await register()
        #expect(try await send(.get, "/v1/devices/phone").errors == ["#/app app_missing"])
        #expect(try await send(.get, "/v1/devices").errors == ["#/app app_missing"])
        #expect(try await send(.get, "/v1/devices/phone?app=shup").errors == ["#/app unknown_app"])
        let own = try await send(.get, "/v1/devices/phone", as: "seller")
        #expect(own.json["app"] == "shop")
        let other = try await send(.put, "/v1/devices/new?app=forum", "{}", as: "seller")
        #expect(other.errors == ["#/app unknown_app"])
        #expect(try await harness.devices.device("forum/new") == nil)
        let contradiction = try await send(.put, "/v1/devices/new?app=forum", #"{"app":"shop"}"#)
        #expect(contradiction.errors == ["#/app other_app"])
    }

    @Test("get messages for their own devices and users, through their own backends")
    func notifications() async throws {
        try await register()
        func post(_ to: String, _ more: String, as key: String = "boss") async throws -> APIHarness.Reply {
            try await send(.post, "/v1/notifications", #"{"to":\#(to),"content":{"title":"x"}\#(more)}"#, as: key)
        }
        let wants: [(to: String, more: String, key: String, recipient: String, backend: String)] = [
            (#"{"devices":["phone"]}"#, #","app":"forum""#, "boss", "device:forum/phone", "forum-ios"),
            (#"{"users":["ali"]}"#, #","app":"shop""#, "boss", "device:shop/phone", "shop-ios"),
            (#"{"users":["ali"]}"#, "", "seller", "device:shop/phone", "shop-ios"),
            (#"{"devices":["phone"]}"#, #","backend":"forum-ios""#, "boss", "device:forum/phone", "forum-ios"),
            (
                #"{"tokens":[{"token":"a","service":"ios-apns"}]}"#, #","app":"forum""#, "boss", "ios-apns:a",
                "forum-ios"
            ),
        ]
        for want in wants {
            let reply = try await post(want.to, want.more, as: want.key)
            #expect(reply.status == 202, "\(want): \(reply.text)")
            let notification = harness.store.accepted.last
            #expect(notification?.recipients.map(\.storedForm) == [want.recipient])
            #expect(notification?.plan.backends == [want.backend])
        }
        let count = harness.store.accepted.count
        for (more, key, error) in [
            (#","backend":"shop-oss""#, "boss", "#/backend unknown_backend"),
            (#","route":"nowhere""#, "boss", "#/route unknown_route"),
            ("", "boss", "#/app app_missing"), (#","app":"shop","backend":"forum-ios""#, "boss", "#/backend other_app"),
            (#","app":"nowhere""#, "boss", "#/app unknown_app"),
            (#","app":"forum""#, "seller", "#/app unknown_app"),
            (#","backend":"forum-ios""#, "seller", "#/backend unknown_backend"),
        ] {
            let reply = try await post(#"{"devices":["phone"]}"#, more, as: key)
            #expect(reply.status == 422)
            #expect(reply.errors == [error])
        }
        #expect(harness.store.accepted.count == count)
    }

    @Test("are told apart item by item in batches")
    func batches() async throws {
        let body =
            #"{"devices":[{"id":"a","app":"shop"},{"id":"a","app":"forum","tokens":{"ios-apns":"t"}},{"id":"b"},{"id":"c","app":"x"}]}"#
        let reply = try await send(.post, "/v1/devices/batch", body)
        #expect(reply.json["created"] == 2)
        let items = reply.json["devices"]?.arrayValue ?? []
        #expect(
            items.compactMap { APIHarness.errors(of: $0["problem"]).first } == [
                "#/devices/2/app app_missing", "#/devices/3/app unknown_app",
            ]
        )
        let notifications = #"""
            {"notifications":[
            {"to":{"devices":["a"]},"content":{"title":"x"},"app":"forum"},{"to":{"devices":["a"]},"content":{"title":"x"}}
            ]}
            """#
        let sent = try await send(.post, "/v1/notifications/batch", notifications)
        #expect(sent.json["accepted"] == 1, "\(sent.status) \(sent.text)")
        #expect(sent.json["refused"] == 1)
    }

    @Test("A key for one of two backends sends through that one, where the request names none")
    func oneOfTwo() async throws {
        var (production, development) = (StubBackend.ios, StubBackend.ios)
        production.audience.environment = .production
        (development.name, development.audience.environment) = ("ios-dev", .development)
        let harness = APIHarness(
            backends: [production, development],
            keys: [APIHarness.key("apple", [.send, .devices], backends: ["ios"]), APIHarness.key("all", [.send])]
        )
        for (key, backends) in [("apple", ["ios"]), ("all", ["ios", "ios-dev"])] {
            let reply = try await harness.post(APIHarness.sample(), headers: APIHarness.bearer(key))
            #expect(reply.status == 202, "\(reply.text)")
            #expect(harness.store.accepted.last?.plan.backends == backends)
        }
    }

    @Test("lose no user of one by an erasure of the same user of the other")
    func erasure() async throws {
        try await register()
        #expect(try await send(.delete, "/v1/users/ali").errors == ["#/app app_missing"])
        #expect(try await send(.get, "/v1/devices/phone?app=forum").status == 200)
    }

    @Test("Operations that wait for a device at a removed backend are cancelled, whichever app the backend had")
    func clearedAtGoneBackend() async throws {
        let device = AppName(rawValue: "shop").key("phone")
        try await harness.devices.enqueue([
            OutboxEntry(backend: "gone", device: device, kind: .tags, at: harness.time.now),
            OutboxEntry(backend: "gone", device: "other", kind: .tags, at: harness.time.now),
        ])
        #expect(try await send(.post, "/v1/backends/gone/clear", #"{"device":"phone"}"#).json["removed"] == 1)
        #expect(try await harness.devices.entries(ofDevice: device, limit: 9).isEmpty)
        #expect(try await harness.devices.entries(ofDevice: "other", limit: 9).count == 1)
    }
}
