import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Foundation
import HTTPTypes
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Notifications to an audience, from the request to the platform.
@Suite("A campaign", .timeLimit(.minutes(3)))
struct APICampaignTests {
    private static func backend(
        _ outcome: @escaping @Sendable (Addressee, Int) -> DeliveryOutcome? = { _, _ in
            .accepted(Acceptance(platformID: "p", status: 200))
        }
    ) -> ScriptedBackend { ScriptedBackend([.iOSAPNs, .androidFirebase], outcome) }

    /// Registers devices with a token each, and the tag `news`; each seventh has the tag `muted` too.
    private static func register(
        _ count: Int,
        _ store: any DeviceStore,
        _ more: [String] = [],
        user: String? = nil
    ) async throws {
        for start in stride(from: 0, to: count, by: 1_000) {
            let devices = (start..<min(count, start + 1_000)).map { number in
                var device = Device(id: "device-\(number)", createdAt: Date(timeIntervalSince1970: 1_700_000_000))
                device.user = user
                device.tags = (number % 7 == 0 ? ["muted", "news"] : ["news"]) + more
                device.tokens = [
                    RegisteredToken(
                        DeviceToken("token-\(number)", service: .iOSAPNs),
                        registeredAt: Date(timeIntervalSince1970: 1_700_000_000)
                    )
                ]
                return device
            }
            try await store.put(devices)
        }
    }

    private static func attempts(_ number: Int, _ backend: ScriptedBackend) -> Int {
        backend.attempts(.token(DeviceToken("token-\(number)", service: .iOSAPNs))).count
    }

    private static func post(_ gateway: Gateway, _ to: String, _ more: String = "") async throws -> APIHarness.Reply {
        let body = #"{"to":\#(to),"content":{"title":"Sale"}\#(more)}"#
        return try await APIHarness.send(gateway.responder, .post, "/v1/notifications", body)
    }

    private static func show(_ gateway: Gateway, _ id: String) async throws -> JSONValue {
        try await APIHarness.send(gateway.responder, .get, "/v1/notifications/\(id)").json
    }

    /// Looks at a campaign until `isDone`, and checks at each look that its numbers add up.
    @discardableResult
    private static func follow(
        _ gateway: Gateway,
        _ id: String,
        until isDone: (JSONValue) -> Bool
    ) async throws -> JSONValue {
        while true {
            let campaign = try await show(gateway, id)
            let audience = campaign["audience"]
            let skipped = (audience?["skipped"]?.objectValue ?? [:]).reduce(0) { $0 + ($1.value.integerValue ?? 0) }
            #expect(audience?["matched"]?.integerValue == (audience?["reached"]?.integerValue ?? 0) + skipped)
            if isDone(campaign) { return campaign }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private static func isOver(_ campaign: JSONValue) -> Bool { campaign["ended_at"] != nil }

    @Test(
        "reaches each of 10,000 devices once, and leaves out those that are excluded",
        arguments: EmbeddedGateway.Kind.allCases
    )
    func everyDeviceOnce(kind: EmbeddedGateway.Kind) async throws {
        let backend = Self.backend()
        let count = kind == .file ? 10_000 : 1_500
        try await EmbeddedGateway.run(kind, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(count, gateway.state.devices)
            let to = #"{"tags":{"any":["news"]},"exclude":{"tag":"muted"}}"#
            let reply = try await Self.post(gateway, to, #","name":"spring sale""#)
            #expect(reply.status == 202, "\(reply.text)")
            let id = try #require(reply.json["id"]?.stringValue)
            let campaign = try await Self.follow(gateway, id, until: Self.isOver)
            let muted = (count + 6) / 7
            #expect(campaign["audience"]?["matched"]?.integerValue == Int64(count))
            #expect(campaign["audience"]?["skipped"]?["excluded"]?.integerValue == Int64(muted))
            #expect(campaign["audience"]?["name"]?.stringValue == "spring sale")
            #expect(campaign["audience"]?["phase"]?.stringValue == "finished")
            #expect(campaign["counts"]?["accepted_by_platform"]?.integerValue == Int64(count - muted))
            for number in 0..<count { #expect(Self.attempts(number, backend) == (number % 7 == 0 ? 0 : 1)) }
            let page = try await APIHarness.send(
                gateway.responder,
                .get,
                "/v1/notifications/\(id)/deliveries?limit=1000"
            )
            let items = page.json["items"]?.arrayValue ?? []
            #expect(items.count == min(1_000, count - muted))
            #expect(items.allSatisfy { $0["attempts"] == [] && $0["state_at"] != nil }, "keep: failures has the time")
            let events = try await gateway.state.store.events(after: 0, limit: 10_000, wait: .zero)
                .compactMap { try? JSONValue(parsing: $0.json) }
            #expect(events.allSatisfy { $0["type"]?.stringValue != "delivery.accepted_by_platform" }, "keep: failures")
            #expect(events.contains { $0["type"]?.stringValue == "notification.ended" })
        }
    }

    @Test("is found by the users of its devices, and by its own id", arguments: EmbeddedGateway.Kind.allCases)
    func found(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [.init(name: "ios", backend: Self.backend())]) { gateway in
            try await Self.register(3, gateway.state.devices, user: "ali")
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            try await Self.follow(gateway, id, until: Self.isOver)
            let other = try await Self.post(gateway, #"{"devices":["device-1"]}"#)
            let single = try #require(other.json["id"]?.stringValue)
            for (query, count) in [
                ("user=ali", 4), ("device=device-1", 2), ("id=\(id)", 3), ("id=\(single)", 1),
                ("id=\(single),\(id)", 4),
                ("user=nobody", 0),
            ] {
                let found = try await APIHarness.send(gateway.responder, .get, "/v1/deliveries?\(query)")
                let items = found.json["items"]?.arrayValue ?? []
                #expect(items.count == count, "\(query): \(found.text)")
                let places = items.map { "\($0["notification"] ?? .null)/\($0["delivery"] ?? .null)" }
                #expect(Set(places).count == count, "\(query): \(found.text)")
            }
            let user = try await APIHarness.send(gateway.responder, .get, "/v1/users/ali")
            #expect(user.json["notifications"]?["items"]?.arrayValue?.count == 2, "\(user.text)")
        }
    }

    @Test("that two gateways share reaches each device once")
    func twoGateways() async throws {
        let backend = Self.backend()
        let database = MemoryDatabase(time: SystemTime())
        var configuration = GatewayConfiguration.keyless
        configuration.queue.drain = .seconds(1)
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: [.init(name: "ios", backend: backend)]
        )
        let other = try await Gateway.assemble(snapshot, store: MemoryStore(database), servesAPI: false, logger: quiet)
        let one = try await Gateway.assemble(snapshot, store: MemoryStore(database), servesAPI: false, logger: quiet)
        try await EmbeddedGateway.run(other) { _ in
            try await EmbeddedGateway.run(one) { gateway in
                try await Self.register(1_200, gateway.state.devices)
                let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#)
                let id = try #require(reply.json["id"]?.stringValue)
                try await Self.follow(gateway, id, until: Self.isOver)
                for number in 0..<1_200 { #expect(Self.attempts(number, backend) == 1) }
            }
        }
    }

    @Test("is over for what is sent again of it: that is a notification of its own, with its own story")
    func resent() async throws {
        let refusal = DeliveryOutcome.refused(Refusal(.platform, reason: "Closed", advice: .never))
        let backend = Self.backend { _, attempt in
            attempt == 1 ? refusal : .accepted(Acceptance(platformID: "p", status: 200))
        }
        try await EmbeddedGateway.run(.memory, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(1, gateway.state.devices, user: "ali")
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            try await Self.follow(gateway, id, until: Self.isOver)
            let again = try await APIHarness.send(
                gateway.responder,
                .post,
                "/v1/deliveries/resend",
                #"{"filter":{"user":"ali","dead":true},"options":{"ttl":60}}"#
            )
            let new = try #require(again.json["notifications"]?.arrayValue?.first?.stringValue, "\(again.text)")
            var story = JSONValue.null
            while story["state"]?.stringValue != "accepted_by_platform" {
                try await Task.sleep(for: .milliseconds(20))
                let path = "/v1/notifications/\(new)/deliveries"
                let page = try await APIHarness.send(gateway.responder, .get, path)
                story = page.json["items"]?.arrayValue?.first ?? .null
            }
            #expect(story["attempts"]?.arrayValue?.count == 1, "\(story)")
            let events = try await gateway.state.store.events(after: 0, limit: 1_000, wait: .zero)
                .compactMap { try? JSONValue(parsing: $0.json) }
            #expect(
                events.contains {
                    $0["type"] == "delivery.accepted_by_platform" && $0["notification"]?.stringValue == new
                }
            )
            let campaign = try await Self.show(gateway, id)
            #expect(campaign["counts"]?["failed"] == 1 && campaign["recipients"] == 1, "\(campaign)")
        }
    }

    @Test("is read with read_all where the key may use all backends, and is changed by its sender alone")
    func whoMayRead() async throws {
        var configuration = GatewayConfiguration()
        configuration.apiKeys = [
            APIHarness.key("shop", [.send, .read]), APIHarness.key("news", [.send, .read]),
            APIHarness.key("support", [.readAll]), APIHarness.key("editor", [.send, .readAll, .readContent]),
            APIHarness.key("droid", [.readAll], backends: ["android"]),
        ]
        let taken = Acceptance(platformID: "p", status: 200)
        let snapshot = GatewaySnapshot(
            configuration: configuration,
            backends: [
                .init(name: "ios", backend: ScriptedBackend([.iOSAPNs]) { _, _ in .accepted(taken) }),
                .init(name: "android", backend: ScriptedBackend([.androidFirebase]) { _, _ in .accepted(taken) }),
            ]
        )
        let gateway = try await Gateway.assemble(
            snapshot,
            store: MemoryStore(MemoryDatabase(time: SystemTime())),
            servesAPI: false,
            logger: quiet
        )
        @Sendable func ask(
            _ method: HTTPRequest.Method,
            _ path: String,
            _ body: String? = nil,
            by key: String
        ) async throws -> APIHarness.Reply {
            try await APIHarness.send(gateway.responder, method, path, body, headers: APIHarness.bearer(key))
        }
        try await EmbeddedGateway.run(gateway) { gateway in
            try await Self.register(1, gateway.state.devices)
            let body = #"{"to":{"tags":{"any":["news"]}},"content":{"title":"Sale"},"metadata":{"n":7}}"#
            let sent = try await ask(.post, "/v1/notifications", body, by: "shop")
            let id = try #require(sent.json["id"]?.stringValue, "\(sent.text)")
            for (key, isFound, hasContent) in [
                ("shop", true, true), ("news", false, false), ("support", true, false), ("editor", true, true),
                ("droid", false, false),
            ] {
                let one = try await ask(.get, "/v1/notifications/\(id)", by: key)
                #expect(one.status == (isFound ? 200 : 404), "\(key): \(one.text)")
                #expect(one.text.contains("Sale") == hasContent, "\(key): \(one.text)")
                let story = try await ask(.get, "/v1/notifications/\(id)/deliveries", by: key)
                #expect(story.status == (isFound ? 200 : 404), "\(key): \(story.text)")
                let list = try await ask(.get, "/v1/campaigns", by: key)
                #expect(list.json["items"]?.arrayValue?.count == (isFound ? 1 : 0), "\(key): \(list.text)")
                for reply in [one, list] {
                    #expect(reply.text.contains(#""n":7"#) == hasContent, "\(key): \(reply.text)")
                }
            }
            #expect(try await ask(.delete, "/v1/notifications/\(id)", by: "editor").status == 404)
            #expect(try await ask(.post, "/v1/notifications/\(id)/pause", "{}", by: "editor").status == 404)
        }
    }

    @Test("pauses within a second, goes on without loss, and is cancelled")
    func pauseResumeCancel() async throws {
        let backend = Self.backend()
        try await EmbeddedGateway.run(.file, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(2_000, gateway.state.devices)
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#, #","pace":{"per_minute":6000}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            while backend.attemptCount < 50 { try await Task.sleep(for: .milliseconds(20)) }
            let path = "/v1/notifications/\(id)"
            let paused = try await APIHarness.send(gateway.responder, .post, path + "/pause", "{}")
            #expect(paused.status == 200, "\(paused.text)")
            #expect(paused.json["audience"]?["paused"]?.boolValue == true)
            try await Task.sleep(for: .seconds(1))
            let before = backend.attemptCount
            try await Task.sleep(for: .seconds(1))
            #expect(backend.attemptCount == before, "nothing goes out while it is paused")
            let resumed = try await APIHarness.send(gateway.responder, .post, path + "/resume", "{}")
            #expect(resumed.json["audience"]?["paused"]?.boolValue == false)
            while backend.attemptCount < before + 50 { try await Task.sleep(for: .milliseconds(20)) }
            let cancelled = try await APIHarness.send(gateway.responder, .delete, path)
            #expect(cancelled.status == 200, "\(cancelled.text)")
            let campaign = try await Self.follow(gateway, id, until: Self.isOver)
            #expect(campaign["audience"]?["phase"]?.stringValue == "cancelled")
            let sum = (campaign["counts"]?.objectValue ?? [:]).reduce(0) { $0 + ($1.value.integerValue ?? 0) }
            #expect(sum == campaign["audience"]?["enqueued"]?.integerValue, "the counts add up")
            for number in 0..<2_000 { #expect(Self.attempts(number, backend) <= 1) }
            let late = try await APIHarness.send(gateway.responder, .post, path + "/pause", "{}")
            #expect(late.status == 409)
            #expect(late.code == "campaign_over")
        }
    }

    @Test("changes its pace while it runs, and nothing else")
    func pace() async throws {
        let backend = Self.backend()
        try await EmbeddedGateway.run(.memory, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(300, gateway.state.devices)
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#, #","pace":{"per_minute":0.5}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            let path = "/v1/notifications/\(id)"
            try await Task.sleep(for: .seconds(1))
            #expect(backend.attemptCount <= 1, "one in two minutes")
            let title = try await APIHarness.send(gateway.responder, .patch, path, #"{"content":{"title":"x"}}"#)
            #expect(title.status == 422)
            #expect(title.errors == ["#/content unknown_field", "#/pace missing"])
            let wrong = try await APIHarness.send(gateway.responder, .patch, path, #"{"pace":{"per_minute":0}}"#)
            #expect(wrong.errors == ["#/pace/per_minute out_of_range"])
            let long = try await APIHarness.send(gateway.responder, .patch, path, #"{"pace":{"over":999999}}"#)
            #expect(long.errors == ["#/pace/over over_beyond_ttl"], "\(long.text)")
            let faster = try await APIHarness.send(gateway.responder, .patch, path, #"{"pace":{}}"#)
            #expect(faster.status == 200, "\(faster.text)")
            try await Self.follow(gateway, id, until: Self.isOver)
            for number in 0..<300 { #expect(Self.attempts(number, backend) == 1) }
        }
    }

    @Test("in waves counts each device once, whatever becomes of it after its wave")
    func wavesCountOnce() async throws {
        let backend = Self.backend()
        try await EmbeddedGateway.run(.memory, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(200, gateway.state.devices)
            let to = #"{"tags":{"any":["news"]},"exclude":{"tag":"stopped"}}"#
            let reply = try await Self.post(gateway, to, #","pace":{"waves":[{"percent":50,"wait":2}]}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            let first = try await Self.follow(gateway, id) { campaign in
                let reached = campaign["audience"]?["reached"]?.integerValue ?? 0
                return reached > 0 && campaign["counts"]?["accepted_by_platform"]?.integerValue == reached
            }
            try await Self.register(200, gateway.state.devices, ["stopped"])
            let campaign = try await Self.follow(gateway, id, until: Self.isOver)
            let reached = try #require(first["audience"]?["reached"]?.integerValue)
            #expect(campaign["audience"]?["matched"]?.integerValue == 200)
            #expect(campaign["audience"]?["reached"]?.integerValue == reached)
            #expect(campaign["audience"]?["skipped"]?["excluded"]?.integerValue == 200 - reached)
        }
    }

    @Test("is found as the one notification that it is, by its id, a device and a user; a resend is none of it")
    func found() async throws {
        let backend = Self.backend { _, _ in
            .refused(Refusal(.account, reason: "InvalidProviderToken", status: 403, advice: .never))
        }
        try await EmbeddedGateway.run(.file, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(6, gateway.state.devices)
            var device = try #require(try await gateway.state.devices.device("device-4"))
            device.user = "ali"
            try await gateway.state.devices.put([device])
            // A delivery a window: the campaign has several notifications in the store.
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#, #","pace":{"per_minute":300}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            try await Self.follow(gateway, id, until: Self.isOver)
            func get(_ path: String) async throws -> JSONValue {
                try await APIHarness.send(gateway.responder, .get, path).json
            }
            for query in ["", "?id=\(id)", "?device=device-4", "?user=ali", "?state=failed"] {
                let items = try await get("/v1/notifications\(query)")["items"]?.arrayValue ?? []
                #expect(items.map { $0["id"]?.stringValue } == [id], "\(query)")
                #expect(items.first?["counts"]?["failed"] == 6, "\(query)")
            }
            let all = try await get("/v1/deliveries?id=\(id)")["items"]?.arrayValue ?? []
            #expect(all.allSatisfy { $0["notification"]?.stringValue == id })
            #expect(all.compactMap { $0["delivery"]?.integerValue }.sorted() == [0, 1, 2, 3, 4, 5])
            #expect(all.allSatisfy { $0["state_at"] != nil })
            for query in ["device=device-4", "user=ali"] {
                let items = try await get("/v1/deliveries?\(query)")["items"]?.arrayValue ?? []
                #expect(items.map { $0["recipient"]?.stringValue } == ["device:device-4"], "\(query)")
            }
            let listed = try await get("/v1/campaigns")["items"]?.arrayValue ?? []
            #expect(listed.first?["status"] == "failed")
            let place = try #require(
                all.first { $0["recipient"]?.stringValue == "device:device-4" }?["delivery"]?.integerValue
            )
            let body =
                #"{"deliveries":[{"notification":"\#(id)","delivery":\#(place)},{"notification":"\#(id)","delivery":6}],"#
                + #""options":{"ttl":600}}"#
            let resent = try await APIHarness.send(gateway.responder, .post, "/v1/deliveries/resend", body)
            #expect(resent.json["resent"] == 1, "\(resent.text)")
            #expect(resent.json["left_out"]?["missing"] == 1, "\(resent.text)")
            let new = try #require(resent.json["notifications"]?.arrayValue?.first?.stringValue)
            let shown = try await Self.show(gateway, new)
            #expect(shown["resend_of"]?["notification"]?.stringValue == id, "\(shown)")
            #expect(shown["resend_of"]?["delivery"]?.integerValue == place)
            let own = try await get("/v1/notifications?id=\(new)")["items"]?.arrayValue ?? []
            #expect(own.map { $0["id"]?.stringValue } == [new], "it is none of the campaign")
            let campaign = try await Self.show(gateway, id)
            #expect(campaign["audience"]?["enqueued"] == 6)
        }
    }

    @Test("is found by a segment that its rule names, with its name", arguments: EmbeddedGateway.Kind.allCases)
    func foundBySegment(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [.init(name: "ios", backend: Self.backend())]) { gateway in
            try await Self.register(2, gateway.state.devices)
            for (name, rule) in [
                ("readers", #"{"tag":"news"}"#), ("inner", #"{"segment":"readers"}"#), ("other", #"{"tag":"news"}"#),
            ] {
                let body = #"{"rule":\#(rule)}"#
                let put = try await APIHarness.send(gateway.responder, .put, "/v1/segments/\(name)", body)
                #expect(put.status == 201, "\(put.text)")
            }
            var ids: [String] = []
            for (to, more) in [
                (#"{"segment":"readers"}"#, #","name":"weekly""#),
                (#"{"audience":{"all":[{"tag":"news"},{"any":[{"segment":"readers"},{"segment":"other"}]}]}}"#, ""),
                (#"{"segment":"inner"}"#, ""), (#"{"tags":{"any":["news"]},"exclude":{"segment":"readers"}}"#, ""),
                (#"{"devices":["device-1"]}"#, ""),
            ] {
                let sent = try await Self.post(gateway, to, more)
                ids.append(try #require(sent.json["id"]?.stringValue, "\(sent.text)"))
            }
            for id in ids.prefix(4) { try await Self.follow(gateway, id, until: Self.isOver) }
            let since = "since=2020-01-01T00:00:00Z"
            for (query, wanted) in [
                ("segment=readers", ids[..<2]), ("segment=other", ids[1..<2]), ("segment=inner", ids[2..<3]),
                ("segment=readers&id=\(ids[1]),\(ids[4])", ids[1..<2]), ("segment=gone", []),
                ("segment=readers&app=default&limit=1", ids[1..<2]),
            ] as [(String, ArraySlice<String>)] {
                let listed = try await Self.get(gateway, "/v1/notifications?\(query)&\(since)")
                #expect(Self.texts(listed, "id") == wanted.reversed(), "\(query): \(listed)")
                let found = try await Self.get(gateway, "/v1/deliveries?\(query)&\(since)")
                #expect(Set(Self.texts(found, "notification")) == Set(wanted), "\(query): \(found)")
            }
            let weekly = try await Self.get(gateway, "/v1/deliveries?segment=readers&id=\(ids[0])&\(since)")
            #expect(Self.texts(weekly, "campaign_name") == ["weekly", "weekly"], "\(weekly)")
            let ofDevice = try await Self.get(gateway, "/v1/deliveries?device=device-1")
            #expect(Self.texts(ofDevice, "campaign_name") == ["weekly"], "\(ofDevice)")
            let without = try await APIHarness.send(gateway.responder, .get, "/v1/deliveries?segment=readers")
            #expect(without.errors == ["#/since since_missing"], "\(without.text)")
        }
    }

    @Test("keeps the segments that its rule names; of an older program's those with lists are known")
    func namedSegments() throws {
        let rule = AudienceRule.all([.segment("list"), .tag("news")])
        let audience = Audience(app: .default, rule: rule, services: [], moment: 0)
        let target = CampaignTarget(audience, choice: .route("r"), segments: ["list", "stored-rule"])
        let read = try #require(CampaignTarget(stored: target.stored))
        #expect(read.segments == ["list", "stored-rule"] && read.choice == .route("r"))
        #expect(CampaignTarget(stored: CampaignTarget(audience, choice: .automatic).stored)?.segments == ["list"])
    }

    private static func get(_ gateway: Gateway, _ path: String) async throws -> JSONValue {
        try await APIHarness.send(gateway.responder, .get, path).json
    }

    private static func texts(_ page: JSONValue, _ member: String) -> [String] {
        (page["items"]?.arrayValue ?? []).compactMap { $0[member]?.stringValue }
    }

    /// A backend whose check finds a fault in every message.
    private struct Refusing: BackendWrapper {
        let wrapped: any PushBackend
        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            await wrapped.send(requests, report: report)
        }
        func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
            PayloadCheck(faults: [Finding(pointer: "#/content/body", code: "missing_body", detail: "Give a body.")])
        }
    }

    @Test("does not go to a backend that would refuse it: devices that no other reaches are skipped")
    func refusedByOne() async throws {
        let taken = Acceptance(platformID: "p", status: 200)
        let (good, bad) = (
            ScriptedBackend([.iOSAPNs]) { _, _ in .accepted(taken) },
            ScriptedBackend([.androidFirebase]) { _, _ in .accepted(taken) }
        )
        let backends: [BackendRegistry.ConfiguredBackend] = [
            .init(name: "android", backend: Refusing(wrapped: bad)), .init(name: "ios", backend: good),
        ]
        try await EmbeddedGateway.run(.memory, backends) { gateway in
            try await Self.register(2, gateway.state.devices)
            for (name, services) in [
                ("droid", [TokenService.androidFirebase]), ("both", [.androidFirebase, .iOSAPNs]),
            ] {
                var device = Device(id: name, createdAt: Date(timeIntervalSince1970: 1_700_000_000))
                device.tags = ["news"]
                device.tokens = services.map {
                    RegisteredToken(DeviceToken("\(name)-\($0)", service: $0), registeredAt: device.createdAt)
                }
                try await gateway.state.devices.put([device])
            }
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#)
            #expect(reply.status == 202, "\(reply.text)")
            let id = try #require(reply.json["id"]?.stringValue)
            let campaign = try await Self.follow(gateway, id, until: Self.isOver)
            #expect(campaign["audience"]?["matched"] == 4 && campaign["audience"]?["reached"] == 3, "\(campaign)")
            #expect(campaign["audience"]?["skipped"] == ["message_refused": 1], "\(campaign)")
            #expect(campaign["counts"]?["accepted_by_platform"] == 3, "\(campaign)")
            #expect(bad.attemptCount == 0 && good.attemptCount == 3)
        }
    }

    @Test("is spread over its span where its devices are the last of the registry")
    func spanAtTheEnd() async throws {
        let backend = Self.backend()
        try await EmbeddedGateway.run(.memory, [.init(name: "ios", backend: backend)]) { gateway in
            try await Self.register(800, gateway.state.devices)
            var late: [Device] = []
            for number in 740..<800 {
                var device = try #require(try await gateway.state.devices.device("device-\(number)"))
                device.tags.insert("late", at: 0)
                late.append(device)
            }
            try await gateway.state.devices.put(late)
            let start = ContinuousClock.now
            let reply = try await Self.post(gateway, #"{"tags":{"any":["late"]}}"#, #","pace":{"over":4}"#)
            let id = try #require(reply.json["id"]?.stringValue)
            let campaign = try await Self.follow(gateway, id, until: Self.isOver)
            #expect(campaign["audience"]?["reached"]?.integerValue == 60)
            // By the density so far it was one a second.
            #expect(start.duration(to: .now) < .seconds(30))
        }
    }

    @Test("that matches no device is finished, and says so")
    func nobody() async throws {
        try await EmbeddedGateway.run(.memory, [.init(name: "ios", backend: Self.backend())]) { gateway in
            try await Self.register(3, gateway.state.devices)
            let reply = try await Self.post(gateway, #"{"tags":{"any":["nowhere"]}}"#)
            #expect(reply.status == 202, "\(reply.text)")
            let id = try #require(reply.json["id"]?.stringValue)
            let campaign = try await Self.follow(gateway, id, until: Self.isOver)
            #expect(campaign["audience"]?["phase"]?.stringValue == "finished")
            #expect(campaign["audience"]?["matched"]?.integerValue == 0)
        }
    }

    @Test("is refused with every mistake in its name, its pace and what is kept")
    func mistakes() async throws {
        try await EmbeddedGateway.run(.memory, [.init(name: "ios", backend: Self.backend())]) { gateway in
            let more =
                #","name":"","keep":"some","pace":{"over":0,"waves":[{"percent":5},{"percent":2}],"fast":true}"#
            let reply = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#, more)
            #expect(reply.status == 422)
            #expect(
                reply.errors.sorted() == [
                    "#/keep unknown_word", "#/name empty", "#/pace/fast unknown_field", "#/pace/over out_of_range",
                    "#/pace/waves/1/percent not_rising",
                ]
            )
            let waits = #","pace":{"waves":[{"percent":1,"wait":60},{"percent":5}]},"options":{"ttl":60}"#
            let late = try await Self.post(gateway, #"{"tags":{"any":["news"]}}"#, waits)
            #expect(late.errors == ["#/pace/waves waves_beyond_ttl"], "\(late.text)")
            let one = #"{"tokens":[{"token":"4f1c","service":"ios-apns"}]}"#
            let single = try await Self.post(gateway, one, #","name":"x""#)
            #expect(single.errors == ["#/name audience_only"])
        }
    }

    @Test("is looked at again before a send: a device that is excluded by now gets nothing")
    func secondLook() async throws {
        let store = MemoryStore(MemoryDatabase(time: ManualTime()))
        try await Self.register(8, store)
        let audience = Audience(
            app: .default,
            rule: .tag("news"),
            exclude: .tag("muted"),
            services: [TokenService.iOSAPNs.rawValue],
            moment: 1_800_000_000_000
        )
        var campaign = Campaign(
            id: store.makeID(recipients: 1),
            caller: "",
            app: .default,
            record: NotificationRecord(content: Array("{}".utf8), plans: [.init([""])], acceptedAt: store.time.steady),
            audience: CampaignTarget(audience, choice: .automatic).stored,
            expiresAt: store.time.steady + 60
        )
        var batch = EnqueueBatch([])
        batch.campaign = .new(campaign)
        _ = try await store.enqueue(batch)
        let directory = CampaignDirectory(store, store.abilities.audiences, time: store.time)
        var record = campaign.record
        record.partOf = campaign.nextPart
        let head = DeliveryHead(id: store.makeID(recipients: 8), record: record, expiresAt: campaign.expiresAt)
        let claims = (0..<8).map { ClaimedDelivery(id: Int64($0), head: head, recipient: .device("device-\($0)")) }
        let found = try await directory.look(at: claims).decisions
        #expect(found == [0: .end(reason: "excluded"), 7: .end(reason: "excluded")])
        campaign.isPaused = true
        directory.note(campaign)
        let paused = try await directory.look(at: claims).decisions
        #expect(paused.count == 8 && paused.values.allSatisfy { if case .wait = $0 { true } else { false } })
    }
}
