import Foundation
import HTTPTypes
import Hummingbird
import ChaparComposition
import ChaparCore
import ChaparModules
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Every route of the table is tried with keys that must learn nothing from it: of another app, for another backend, of
/// another caller.
///
/// A foreign name gets word for word the answer of a name that never existed; no answer holds a foreign name that the
/// request did not hold; no foreign platform is called.
@Suite("The reach of an API key", .timeLimit(.minutes(2)))
struct APITenancyTests {
    private static let kiosk = AppName(rawValue: "kiosk-shop")
    private static let agora = AppName(rawValue: "zq-world")

    /// A key that is foreign to something, and to what.
    private struct Stranger: Sendable {
        var key: GatewayConfiguration.APIKey
        /// The foreign values of `$BACKEND` and so on.
        var foreign: [String: String]
        /// Names that no answer to it may hold.
        var secrets: [String]
    }

    /// Every scope but those that see beyond what a key sent.
    private static let allScopes = Set(GatewayConfiguration.APIKey.Scope.allCases)
        .subtracting([.admin, .readAll, .readContent])

    private static func strangers(_ note: String) -> [Stranger] {
        func key(
            _ name: String,
            _ scopes: Set<GatewayConfiguration.APIKey.Scope> = allScopes,
            app: AppName? = nil,
            backends: Set<String>? = nil
        ) -> GatewayConfiguration.APIKey {
            var key = APIHarness.key(name, scopes, backends: backends)
            key.app = app
            return key
        }
        let ofKiosk = ["$BACKEND": "farmhouse", "$ROUTE": "farmroute", "$NOTE": note, "$KEY": "owner-key"]
        let ofAgora = ["$APP": "zq-world"]
        let agora = ["zq-world", "zq-push", "zq-route"]
        return [
            Stranger(
                key: key("other-app", app: Self.agora),
                foreign: ofKiosk.merging(["$APP": "kiosk-shop"]) { $1 },
                secrets: ["kiosk-shop", "own-apns", "farmhouse", "farmroute", "way-own", "planted-user", "owner-key"]
            ),
            Stranger(
                key: key("other-backend", backends: ["own-apns"]),
                foreign: ofKiosk.merging(ofAgora) { $1 },
                secrets: agora + ["farmhouse", "farmroute", "owner-key"]
            ),
            Stranger(
                key: key("other-admin", [.admin], backends: ["own-apns"]),
                foreign: ofKiosk.merging(ofAgora) { $1 },
                secrets: agora + ["farmhouse", "farmroute", "owner-key"]
            ),
            Stranger(
                key: key("other-caller", app: Self.kiosk),
                foreign: ofAgora.merging([
                    "$NOTE": note, "$KEY": "owner-key", "$BACKEND": "zq-push", "$ROUTE": "zq-route",
                ]) { $1 },
                secrets: agora + ["owner-key"]
            ),
        ]
    }

    /// Names of nothing, as long as the real ones and unlike any of them.
    private static let invented = [
        "$BACKEND": "unheard-1", "$ROUTE": "unheard-2", "$APP": "unheard-3", "$NOTE": "0000000000001",
        "$KEY": "unheard-4",
    ]

    /// The release notes' paths, as openapi.json has them.
    private struct Notes: GatewayModule {
        let prefix = "/v1/apps/"

        func endpoint(_ path: Substring) -> ModuleEndpoint? {
            let steps = path.dropFirst(prefix.count).split(separator: "/")
            guard steps.count == 2, let last = steps.last else { return nil }
            return ModuleEndpoint("/v1/apps/{app}/\(last)", ["POST": .admin], app: String(steps[0]))
        }

        func answer(_ request: ModuleRequest, through gate: any ModuleGate) async throws(ModuleProblem) -> ModuleAnswer
        {
            let app = request.path.split(separator: "/")[2]
            guard ["kiosk-shop", "zq-world"].contains(app) else {
                throw ModuleProblem(404, "not_found", "Not found", detail: "There is no such app.")
            }
            return ModuleAnswer(200, body: Array("{\"backends\":\"\(gate.backends)\"}".utf8))
        }
    }

    /// A gateway that is in use: two apps, three platforms with every ability, and something of everything.
    private struct Rig {
        let harness: APIHarness
        let platforms: [String: AblePlatform]
        let note: String

        init(keys: [GatewayConfiguration.APIKey] = []) async throws {
            let platforms = ["own-apns", "farmhouse", "zq-push"].map { ($0, AblePlatform()) }
            self.platforms = Dictionary(uniqueKeysWithValues: platforms)
            var owner = APIHarness.key("owner-key", APITenancyTests.allScopes)
            owner.app = APITenancyTests.kiosk
            let all = [owner, APIHarness.key("boss", [.admin])] + APITenancyTests.strangers("").map(\.key) + keys
            harness = APIHarness(
                platforms: platforms.map { ($0.0, $0.1) },
                apps: [
                    "own-apns": APITenancyTests.kiosk, "farmhouse": APITenancyTests.kiosk,
                    "zq-push": APITenancyTests.agora,
                ],
                modules: [Notes()],
                keys: all
            ) {
                $0.apps = [APITenancyTests.agora, APITenancyTests.kiosk]
                $0.routes = [
                    .init(name: "way-own", app: APITenancyTests.kiosk, plan: DeliveryPlan(["own-apns"])),
                    .init(
                        name: "farmroute",
                        app: APITenancyTests.kiosk,
                        platform: "web",
                        plan: DeliveryPlan(["farmhouse"])
                    ),
                    .init(name: "zq-route", app: APITenancyTests.agora, plan: DeliveryPlan(["zq-push"])),
                ]
            }
            note = try await Self.use(harness)
        }

        /// Registers, sends, refuses, counts.
        private static func use(_ harness: APIHarness) async throws -> String {
            let boss = APIHarness.bearer("boss")
            for app in ["kiosk-shop", "zq-world"] {
                let user = app == "kiosk-shop" ? "planted-user" : "visitor"
                let body = #"{"user":"\#(user)","tokens":{"ios-apns":"planted-\#(app)"}}"#
                let reply = try await harness.send(.put, "/v1/devices/phone?app=\(app)", body, headers: boss)
                try #require(reply.status == 201, "\(reply.text)")
            }
            let body = #"{"to":{"devices":["phone"]},"content":{"title":"x"},"backend":"farmhouse"}"#
            let sent = try await harness.post(body, headers: APIHarness.bearer("owner-key"))
            let at = harness.time.now
            _ = try await harness.devices.record(
                [("kiosk-shop", "farmhouse"), ("zq-world", "zq-push")].map { app, backend in
                    TokenRefusal(
                        DeviceToken("planted-\(app)", service: .iOSAPNs),
                        of: AppName(rawValue: app),
                        asOf: at,
                        at: at,
                        backend: backend,
                        reason: "NOT_OURS",
                        isCertain: false,
                        alternatives: ["other"]
                    )
                }
            )
            for backend in ["own-apns", "farmhouse", "zq-push"] {
                harness.metrics.attempted(
                    backend: backend,
                    app: backend == "zq-push" ? APITenancyTests.agora : APITenancyTests.kiosk,
                    kind: "able",
                    outcome: "accepted",
                    reason: "",
                    count: 1
                )
                harness.metrics.fellBack(from: backend, to: "own-apns", reason: "x")
                harness.metrics.waitedForQuota(backend: backend, .seconds(1))
                try await harness.store.publish([
                    EventJSON.backend("parked", backend, reason: "x", until: nil, at: at)
                ])
            }
            return try #require(sent.json["id"]?.stringValue, "\(sent.text)")
        }

        /// Every route there is, with those that modules add.
        func routes() throws -> [(name: String, access: Route.Access)] {
            var routes = harness.api.responder.table.routes.map { (name: "\($0.method) \($0.path)", access: $0.access) }
            let description = try JSONValue(parsing: StaticDocuments.description(.current, []))
            for (path, item) in description["paths"]?.objectValue ?? [:] where path.hasPrefix("/v1/apps/") {
                for (method, _) in item.objectValue ?? [:] where ["get", "post", "put", "delete"].contains(method) {
                    let access = method == "get" ? Route.Access.open : .scope(.admin)
                    routes.append((name: "\(method.uppercased()) \(path)", access: access))
                }
            }
            return routes
        }
    }

    private static func fill(_ text: String, _ values: [String: String]) -> String {
        values.reduce(text) { $0.replacing($1.key, with: $1.value) }
    }

    /// The text of an answer without its request id and the names that its request had.
    private static func told(_ reply: APIHarness.Reply, _ values: [String: String]) -> String {
        var text = reply.text.replacing(/"request_id":"[^"]*"/, with: "")
        for (name, value) in values { text = text.replacing(value, with: name) }
        return "\(reply.status) \(text)"
    }

    @Test("has an expectation for every route of the table and of its modules, and none for another one")
    func complete() async throws {
        let routes = try await Rig().routes().map(\.name).sorted()
        #expect(TenancyRequests.all.map(\.route).sorted() == routes)
    }

    @Test("ends at its app, its backends and its notifications: other names are unknown", arguments: 0..<4)
    func bounds(number: Int) async throws {
        for entry in TenancyRequests.all {
            for call in entry.calls { try await attempt(call, entry.route, number) }
        }
    }

    private func attempt(_ call: TenancyRequests.Call, _ route: String, _ number: Int) async throws {
        let method = try #require(HTTPRequest.Method(rawValue: String(route.prefix { $0 != " " })))
        let rig = try await Rig()
        let stranger = Self.strangers(rig.note)[number]
        let name = "\(stranger.key.name): \(route) \(call.path) \(call.body ?? "")"
        // The values that are not foreign to this key are its own.
        let own = [
            "$BACKEND": "own-apns", "$ROUTE": "way-own", "$APP": "kiosk-shop", "$NOTE": rig.note, "$KEY": "owner-key",
        ]
        func send(_ names: [String: String]) async throws -> APIHarness.Reply {
            let values = own.merging(names) { $1 }
            let (path, body) = (Self.fill(call.path, values), call.body.map { Self.fill($0, values) })
            let headers = APIHarness.bearer(stranger.key.name)
            if route == "GET /v1/events" { return try await Self.stream(rig.harness, stranger.key) }
            return try await rig.harness.send(method, path, body, headers: headers)
        }
        let reply = try await send(stranger.foreign)
        let asked = Self.fill(call.path + (call.body ?? ""), stranger.foreign)
        for secret in stranger.secrets where !asked.contains(secret) {
            #expect(!reply.text.contains(secret), "the answer to \(name) holds \(secret): \(reply.text)")
        }
        let used = (call.path + (call.body ?? "")).matches(of: /\$[A-Z]+/).map { String($0.output) }
        let foreign = used.filter { stranger.foreign[$0] != nil && !(call.isSharedWithinApp && number == 3) }
        if !foreign.isEmpty {
            let invented = stranger.foreign.merging(Self.invented.filter { foreign.contains($0.key) }) { $1 }
            let unknown = try await send(invented)
            let (seen, wanted) = (Self.told(reply, stranger.foreign), Self.told(unknown, invented))
            #expect(seen == wanted, "\(name)")
            #expect(
                (400..<500).contains(reply.status) || reply.text.contains("\"items\":[]")
                    || reply.text.contains("refused") || reply.text.contains("\"matched\":0")
                    || reply.text.contains("\"notifications\":0")
            )
        }
        try await expectUntouched(rig, stranger, name)
    }

    /// Nothing has happened at platforms, to notifications or to the registry of others.
    private func expectUntouched(_ rig: Rig, _ stranger: Stranger, _ name: String) async throws {
        for (backend, platform) in rig.platforms where stranger.secrets.contains(backend) {
            #expect(platform.uses.isEmpty, "\(name): \(backend) was asked \(platform.uses)")
        }
        let device = try #require(try await rig.harness.devices.device(Self.kiosk.key("phone")))
        if stranger.secrets.contains("kiosk-shop") {
            #expect(device.userName == "planted-user" && device.tags.isEmpty, "\(name)")
        }
        let other = try await rig.harness.devices.device(Self.agora.key("phone"))
        if stranger.secrets.contains("zq-world") {
            #expect(other?.userName == "visitor" && other?.tags == [], "\(name)")
        }
        // A change of the registry goes to every platform of the app; a request that asks a platform goes to the key's
        // alone.
        for app in [Self.kiosk, Self.agora] {
            for entry in try await rig.harness.devices.entries(ofDevice: app.key("phone"), limit: 100) {
                let isAsked =
                    [.subscription, .event].contains(entry.operation.kind)
                    || String(decoding: JSONValue.object(entry.operation.body).bytes, as: UTF8.self).contains(
                        "planted\""
                    )
                #expect(!isAsked || !stranger.secrets.contains(entry.operation.backend), "\(name): \(entry.operation)")
            }
        }
        let id = try #require(NotificationID(rig.note))
        #expect(try await rig.harness.store.notification(id)?.counts == [.queued: 1], "\(name)")
        let through = rig.harness.store.accepted.flatMap(\.plan.backends)
        #expect(through == ["farmhouse"] || !stranger.secrets.contains { through.dropFirst().contains($0) }, "\(name)")
    }

    /// Every event that the key may see, as one text.
    private static func stream(
        _ harness: APIHarness,
        _ key: GatewayConfiguration.APIKey
    ) async throws -> APIHarness.Reply {
        let head = HTTPRequest(
            method: .get,
            scheme: "http",
            authority: "localhost",
            path: "/v1/events",
            headerFields: APIHarness.bearer(key.name)
        )
        let snapshot = harness.api.responder.snapshots.current
        let caller = try snapshot.admit(CallerFields(head), .scope(.read), at: harness.time.reading)
        let view = EventView(caller)
        let events = try await harness.store.events(after: 0, limit: 1000, wait: .zero)
        let shown = events.compactMap { view.shown($0, type: EventJSON.type(of: $0.json)) }.flatMap { $0 }
        return APIHarness.Reply(status: 200, headers: [:], bytes: shown)
    }

    @Test("needs its scope on every route, whatever other scopes it has")
    func scopes() async throws {
        let scopes = GatewayConfiguration.APIKey.Scope.allCases
        let rig = try await Rig(keys: scopes.map { APIHarness.key("only-\($0.rawValue)", [$0]) })
        for (name, access) in try rig.routes() {
            let needed = access.scopes
            guard !needed.isEmpty else { continue }
            let entry = try #require(TenancyRequests.all.first { $0.route == name })
            let method = try #require(HTTPRequest.Method(rawValue: String(name.prefix { $0 != " " })))
            for scope in scopes where !needed.contains(where: { scope == $0 || scope.includes($0) }) {
                for call in entry.calls {
                    let own = [
                        "$BACKEND": "own-apns", "$ROUTE": "way-own", "$APP": "kiosk-shop", "$NOTE": rig.note,
                        "$KEY": "owner-key",
                    ]
                    let reply = try await rig.harness.send(
                        method,
                        Self.fill(call.path, own),
                        call.body.map { Self.fill($0, own) },
                        headers: APIHarness.bearer("only-\(scope.rawValue)")
                    )
                    #expect(reply.status == 403 && reply.code == "forbidden", "\(scope): \(name): \(reply.text)")
                }
            }
        }
    }

    @Test("bounds administrators too: one sees the keys whose bounds are within its own, and their notifications")
    func administrators() async throws {
        let rig = try await Rig(keys: [APIHarness.key("small", [.send], backends: ["own-apns"])])
        let body = #"{"to":{"devices":["phone"]},"content":{"title":"x"}}"#
        let sent = try await rig.harness.post(body, headers: APIHarness.bearer("small"))
        let id = try #require(sent.json["id"]?.stringValue, "\(sent.text)")
        let admin = APIHarness.bearer("other-admin")
        #expect(try await rig.harness.send(.get, "/v1/notifications/\(id)", headers: admin).status == 200)
        #expect(try await rig.harness.send(.get, "/v1/notifications/\(rig.note)", headers: admin).status == 404)
        #expect(try await rig.harness.send(.delete, "/v1/notifications/\(rig.note)", headers: admin).status == 404)
        let keys = try await rig.harness.send(.get, "/v1/keys", headers: admin).json["keys"]?.arrayValue
        let names = Set((keys ?? []).compactMap { $0["name"]?.stringValue })
        #expect(names == ["other-admin", "other-backend", "small"])
        // An erasure would end notifications of other keys.
        let erased = try await rig.harness.send(.delete, "/v1/users/planted-user", headers: admin)
        #expect(erased.status == 403 && erased.code == "forbidden")
        // The ids of all apps have one key.
        let rotated = try await rig.harness.send(.post, "/v1/receipt-keys/rotate", "{}", headers: admin)
        #expect(rotated.status == 403 && rotated.code == "forbidden", "\(rotated.text)")
        let all = try await rig.harness.send(.get, "/v1/keys", headers: APIHarness.bearer("boss"))
        #expect(all.json["keys"]?.arrayValue?.count == 7)
    }

    @Test("is its app in the registry: changes go to every platform of the app, questions to its own backends")
    func registry() async throws {
        let rig = try await Rig()
        for backend in ["own-apns", "farmhouse"] {
            _ = try await rig.harness.devices.cancelEntries(of: backend, device: nil)
        }
        let key = APIHarness.bearer("other-backend")
        func waiting() async throws -> [String] {
            try await rig.harness.devices.entries(ofDevice: Self.kiosk.key("phone"), limit: 100).map {
                "\($0.operation.backend) \($0.operation.kind.rawValue)"
            }.sorted()
        }
        let patched = try await rig.harness.send(.patch, "/v1/devices/phone", #"{"locale":"fa"}"#, headers: key)
        #expect(patched.status == 200, "\(patched.text)")
        #expect(try await waiting() == ["farmhouse register", "own-apns register"])
        let shown = try await rig.harness.send(.get, "/v1/devices/phone/operations", headers: key)
        #expect(shown.json["items"]?.arrayValue?.compactMap { $0["backend"]?.stringValue } == ["own-apns"])
        let path = "/v1/devices/phone/subscription"
        let put = try await rig.harness.send(.put, path, #"{"status":"suspended"}"#, headers: key)
        #expect(put.json["operations"]?.arrayValue?.compactMap { $0["backend"]?.stringValue } == ["own-apns"])
        #expect(try await waiting() == ["farmhouse register", "own-apns register", "own-apns subscription"])
        let asked = try await rig.harness.send(.get, path, headers: key)
        #expect(asked.json["backend"] == "own-apns", "the only one that it could mean: \(asked.text)")
        _ = try await rig.harness.send(.post, "/v1/users/sara/switch", #"{"device":"phone"}"#, headers: key)
        #expect(rig.platforms["own-apns"]?.uses == ["resume"] && rig.platforms["farmhouse"]?.uses == [])
    }

    @Test("reports clicks on what it may see, and on what went to the device or the user that it names")
    func clicks() async throws {
        let rig = try await Rig()
        let claims = try await rig.harness.store.claim(backend: "farmhouse", limit: 10, wait: .zero)
        try await rig.harness.store.record(
            claims.map { claim in
                Resolution(
                    of: claim,
                    .end(.acceptedByPlatform),
                    attempt: Array(#"{"outcome":"accepted","platform_id":"m1"}"#.utf8),
                    event: Array("{}".utf8),
                    receipt: ReceiptAddress(backend: "farmhouse", platformID: "m1", token: nil)
                )
            }
        )
        let id = try #require(NotificationID(rig.note))
        func counts() async throws -> [DeliveryState: Int]? { try await rig.harness.store.notification(id)?.counts }
        #expect(try await counts() == [.acceptedByPlatform: 1])
        func click(_ key: String, _ message: String, _ more: String = "") async throws -> APIHarness.Reply {
            let body = #"{"user_info":{"id":"\#(message)"}\#(more)}"#
            let path = "/v1/backends/farmhouse/clicks"
            return try await rig.harness.send(.post, path, body, headers: APIHarness.bearer(key))
        }
        let others = [
            "", #","user_id":"visitor""#, #","device":"tablet""#, #","user_id":"planted-user","device":"tablet""#,
        ]
        for more in others {
            let foreign = try await click("other-caller", "m1", more)
            let unknown = try await click("other-caller", "m0", more)
            #expect(foreign.status == 200 && foreign.json["deliveries"] == [], "\(more): \(foreign.text)")
            #expect(Self.told(foreign, [:]) == Self.told(unknown, [:]), "\(more)")
        }
        for key in ["other-app", "other-backend", "other-admin"] {
            #expect(try await click(key, "m1", #","device":"phone""#).status == 404, "\(key)")
        }
        #expect(try await counts() == [.acceptedByPlatform: 1])
        for (key, more) in [
            ("other-caller", #","user_id":"planted-user""#), ("other-caller", #","device":"phone""#), ("owner-key", ""),
        ] {
            let taken = try await click(key, "m1", more)
            let delivery = taken.json["deliveries"]?.arrayValue?.first
            #expect(delivery?["notification"]?.stringValue == rig.note, "\(key) \(more): \(taken.text)")
            #expect(delivery?["state"] == "opened", "\(key) \(more): \(taken.text)")
        }
        #expect(try await counts() == [.opened: 1])
    }

    @Test("gets events of its backends, and of devices and users of their app with the scope for devices only")
    func events() async throws {
        let reader = APIHarness.key("reader", [.read], backends: ["own-apns"])
        let every = APIHarness.key("every-reader", [.read])
        let rig = try await Rig(keys: [reader, every])
        let at = rig.harness.time.now
        func notice(_ name: String, _ backend: String, device: String?) -> [UInt8] {
            let detail: JSONObject = ["user": "planted-user"]
            let notice = BackendNotice(.info, name, device: device, message: "m", detail: detail)
            return EventJSON.notice(notice, backend: backend, at: at)
        }
        func operation(_ name: String, _ app: AppName) -> [UInt8] {
            let event: JSONObject = [
                "type": "operation.done", "operation": .string(name), "backend": "own-apns",
                "device": .string(app.key("phone")), "user": .string(app.key("visitor")),
            ]
            return JSONValue.object(event).bytes
        }
        try await rig.harness.store.publish([
            notice("of-device", "own-apns", device: Self.kiosk.key("phone")),
            notice("of-none", "own-apns", device: nil),
            notice("of-farm", "farmhouse", device: Self.kiosk.key("phone")),
            notice("of-farms", "farmhouse", device: nil),
            // The backend's name was another app's then.
            notice("of-before", "own-apns", device: Self.agora.key("phone")),
            operation("op-before", Self.agora),
            operation("op-own", Self.kiosk),
        ])
        let names = ["of-device", "of-none", "of-farm", "of-farms", "of-before", "op-before", "op-own"]
        func shown(_ key: GatewayConfiguration.APIKey) async throws -> (names: [String], text: String) {
            let text = try await Self.stream(rig.harness, key).text
            return (names.filter { text.contains("\"\($0)\"") }, text)
        }
        let holder = try #require(Self.strangers(rig.note).map(\.key).first { $0.name == "other-backend" })
        let full = try await shown(holder)
        #expect(full.names == ["of-device", "of-none", "op-own"] && full.text.contains("planted-user"))
        let bound = try await shown(reader)
        #expect(bound.names == ["of-none"] && !bound.text.contains("planted-user"), "\(bound.text)")
        let whole = try await shown(every)
        #expect(whole.names == ["of-none", "of-farms"] && !whole.text.contains("planted-user"), "\(whole.text)")
    }

    @Test("changes what a module keeps of an app with all of the app's backends only")
    func modules() async throws {
        var ofApp = APIHarness.key("app-admin", [.admin])
        ofApp.app = Self.kiosk
        let both = APIHarness.key("both-admin", [.admin], backends: ["own-apns", "farmhouse"])
        let rig = try await Rig(keys: [ofApp, both])
        let statuses = [("other-admin", 403), ("app-admin", 200), ("both-admin", 200), ("boss", 200)]
        for entry in TenancyRequests.all where entry.route.hasPrefix("POST /v1/apps/") {
            let call = try #require(entry.calls.first)
            for (key, status) in statuses {
                let path = Self.fill(call.path, ["$APP": "kiosk-shop"])
                let headers = APIHarness.bearer(key)
                let reply = try await rig.harness.send(.post, path, call.body, headers: headers)
                #expect(reply.status == status, "\(key): \(path): \(reply.text)")
                #expect(status == 200 || reply.code == "forbidden", "\(key): \(path)")
                guard key != "boss" else { continue }
                let foreign = Self.fill(call.path, ["$APP": "zq-world"])
                let other = try await rig.harness.send(.post, foreign, call.body, headers: headers)
                #expect(other.status == 404, "\(key): \(foreign): \(other.text)")
            }
        }
    }

    @Test("sees the numbers of its backends and app, and those of the gateway as a whole")
    func metrics() async throws {
        let rig = try await Rig()
        let text = try await rig.harness.send(.get, "/metrics", headers: APIHarness.bearer("other-backend")).text
        #expect(text.contains(#"chapar_deliveries_total{backend="own-apns""#))
        #expect(text.contains(#"chapar_queue_depth{backend="own-apns"}"#) && text.contains("chapar_store_up 1"))
        #expect(!text.contains("farmhouse") && !text.contains("zq-"))
        #expect(!text.contains("# TYPE chapar_inflight"), "a family of which nothing is shown has no head")
        let whole = try await rig.harness.send(.get, "/metrics", headers: APIHarness.bearer("boss")).text
        #expect(whole.contains(#"chapar_deliveries_total{backend="farmhouse""#) && whole.contains(#"from="zq-push""#))
    }
}

/// A platform with every ability that a route asks for, which counts what it is asked.
private final class AblePlatform: PushBackend, MessageCanceller, ClickReader {
    let kind: BackendKind = "able"
    let audience = BackendAudience(services: [.iOSAPNs], forms: [.platformID, .topic, .everyone])
    private let told = ScriptedPlatform()
    private let kept = KeepingPlatform()
    private let other = Mutex<[String]>([])

    /// Its calls, without those of the outbox.
    var uses: [String] {
        kept.calls + told.resumed.map { _ in "resume" } + told.forgotten.map { _ in "forget" }
            + other.withLock { $0 }
    }

    var devices: (any DeviceRegistrar)? { told }
    var subscriptions: (any SubscriptionManager)? { told }
    var tags: (any TagEditor)? { told }
    var events: (any EventReporter)? { told }
    var topics: (any TopicManager)? { kept }
    var channels: (any ChannelManager)? { kept }
    var tokenDirectory: (any TokenDirectory)? { kept }
    var cancellation: (any MessageCanceller)? { self }
    var clicks: (any ClickReader)? { self }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
    func forget(device: String?) async throws(PushError) { try await told.forget(device: device) }

    func cancel(platformID: String) async throws(PushError) -> Bool {
        other.withLock { $0.append("cancel") }
        return true
    }

    func read(_ click: ReportedClick) async throws(PushError) -> ClickResult {
        other.withLock { $0.append("click") }
        let receipt = click.payload["id"]?.stringValue.map {
            DeliveryReceipt(.opened, platformID: $0, reason: "opened", at: click.at)
        }
        return ClickResult(receipt: receipt, notification: [:], forwarding: nil)
    }
}
