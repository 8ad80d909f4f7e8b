import Foundation
import HTTPTypes
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Receipts of apps without an API key", .timeLimit(.minutes(1)))
struct AppReceiptsTests {
    private static let shop = AppName(rawValue: "shop")

    /// An API over a file, whose apps send receipts unless `receipts` says otherwise.
    private struct Phones: Sendable {
        let rig: OperationRig
        let state: GatewayState
        let api: GatewayAPI

        init(_ rig: OperationRig, receipts: [AppName: Int] = [.default: 500, AppReceiptsTests.shop: 500]) {
            self.rig = rig
            var configuration = GatewayConfiguration()
            // Phones have no key, where others need one.
            configuration.apiKeys = [APIHarness.key("shop", [.send]), APIHarness.key("boss", [.admin])]
            for (app, perSecond) in receipts {
                var settings = GatewayConfiguration.Receipts()
                settings.perSecond = perSecond
                configuration.receipts[app] = settings
            }
            let snapshot = GatewaySnapshot(
                configuration: configuration,
                backends: [
                    .init(name: "ios", backend: ScriptedPlatform(), registersDevices: false),
                    .init(name: "shop-ios", backend: ScriptedPlatform(), app: shop, registersDevices: false),
                ]
            )
            state = GatewayState(snapshot: snapshot, store: rig.store, devices: rig.store, time: rig.time)
            api = rig.api(state)
        }

        func id(_ subject: ReceiptSubject, of app: AppName = .default) async throws -> String {
            try await state.receiptKeys.stamp(for: app, at: rig.time.now).id(of: subject)
        }

        func report(
            _ id: String,
            _ event: String = "opened",
            _ more: String = "",
            headers: HTTPFields = [:]
        ) async throws -> APIHarness.Reply {
            let body = #"{"event":"\#(event)"\#(more)}"#
            return try await APIHarness.send(
                api.responder,
                .post,
                "/v1/receipts/\(id)",
                body,
                headers: headers,
                host: "push.example.com"
            )
        }

        /// The count of reports with a result.
        func counted(_ series: String) throws -> Double {
            var text = PrometheusText()
            rig.metrics.registry.write(to: &text)
            return try PrometheusSamples(String(decoding: text.bytes, as: UTF8.self))[series] ?? 0
        }

        func result(_ result: String, event: String = "opened", of app: String = "default") throws -> Double {
            try counted(#"chapar_app_receipts_total{app="\#(app)",event="\#(event)",result="\#(result)"}"#)
        }

        /// Moves the clock until `body` has ended.
        func withTime<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
            let time = rig.time
            return try await withThrowingTaskGroup(of: Value?.self) { group in
                group.addTask { try await body() }
                group.addTask {
                    try? await eventually("the end", within: .seconds(50), every: .milliseconds(2)) {
                        time.advance(by: .milliseconds(100))
                        return Task.isCancelled
                    }
                    return nil
                }
                let value = try await group.next()
                group.cancelAll()
                return try #require(value ?? nil)
            }
        }
    }

    private static let token = Recipient.token(DeviceToken("t-a", service: .iOSAPNs))
    private static let other = Recipient.token(DeviceToken("other", service: .iOSAPNs))

    @Test("A delivery becomes delivered and opened, once, and never less, with an event that names its backend")
    func moves() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let id = try await rig.accepted([Self.other, Self.token])
            let receipt = try await phones.id(.delivery(id.rawValue + 1))
            for event in ["delivered", "opened", "delivered", "opened"] {
                rig.time.advance(by: .seconds(90))
                #expect(try await phones.report(receipt, event).status == 204)
            }
            #expect(try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1, .opened: 1])
            let events = try await rig.events().filter { $0["type"] != nil }
            #expect(events.compactMap { $0["type"]?.stringValue } == ["delivery.delivered", "delivery.opened"])
            // By it a webhook of the app gets the event.
            #expect(events.allSatisfy { $0["backend"] == "ios" }, "\(events)")
            #expect(events.allSatisfy { $0["attempt"]?["backend"] == "app" }, "\(events)")
            #expect(try phones.result("recorded") == 1 && phones.result("repeated") == 1)
        }
    }

    @Test("An administrator replaces the key: ids of the old one are taken for a while, or no longer")
    func rotated() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let id = try await rig.accepted([Self.token, Self.other])
            let first = try await phones.id(.delivery(id.rawValue))
            let rotate = { (body: String, key: String) in
                try await APIHarness.send(
                    phones.api.responder,
                    .post,
                    "/v1/receipt-keys/rotate",
                    body,
                    headers: APIHarness.bearer(key),
                    host: "push.example.com"
                )
            }
            #expect(try await rotate("{}", "shop").status == 403)
            for body in [#"{"keep_old":-1}"#, #"{"keep_old":7776001}"#, #"{"keep_old":"1"}"#, #"{"old":1}"#] {
                #expect(try await rotate(body, "boss").status == 422, "\(body)")
            }
            let reply = try await rotate("{}", "boss")
            #expect(reply.status == 200 && reply.json["keys"] == 2, "\(reply.text)")
            #expect(reply.json["used_from"]?.stringValue == RFC3339.string(rig.time.now + ReceiptKeys.lead))
            #expect(try await phones.report(first).status == 204)
            #expect(try phones.result("recorded") == 1)
            #expect(try await rotate(#"{"keep_old":0}"#, "boss").json["keys"] == 1)
            let second = try await phones.id(.delivery(id.rawValue + 1))
            #expect(try await phones.report(first, "delivered").status == 204)
            #expect(try phones.counted("chapar_app_receipts_forged_total") == 1)
            #expect(try await phones.report(second).status == 204)
            #expect(try phones.result("recorded") == 2)
        }
    }

    @Test("Every id gets the same answer, and a forged one stores nothing")
    func sameAnswer() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let id = try await rig.accepted([Self.token])
            let genuine = try await phones.id(.delivery(id.rawValue))
            let gone = try await phones.id(.delivery(7))
            let foreign = try await ReceiptKeys(MemoryState()).stamp(for: .default, at: rig.time.now)
                .id(of: .delivery(id.rawValue))
            let swapped = String(genuine.reversed())
            let before = try await rig.events().count
            for forged in [foreign, swapped, "x", String(repeating: "A", count: 32), "a-b_c"] {
                let reply = try await phones.report(forged)
                #expect(reply.status == 204 && reply.bytes.isEmpty, "\(forged): \(reply.status) \(reply.text)")
            }
            #expect(try phones.counted("chapar_app_receipts_forged_total") == 5)
            #expect(try await rig.events().count == before)
            #expect(try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1])
            var heads: Set<String> = []
            for known in [genuine, genuine, foreign, gone] {
                let reply = try await phones.withTime { try await phones.report(known) }
                #expect(reply.status == 204 && reply.bytes.isEmpty)
                heads.insert(reply.headers.map { "\($0.name)" }.sorted().joined(separator: " "))
            }
            #expect(heads.count == 1, "\(heads)")
            #expect(try phones.result("unknown") == 1)
            #expect(try await rig.store.notification(id)?.counts == [.opened: 1])
        }
    }

    @Test("Without an app that sends receipts no key is made, and no id is good")
    func optIn() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig, receipts: [:])
            let id = try await rig.accepted([Self.token])
            #expect(try await phones.report(String(repeating: "A", count: 32)).status == 204)
            #expect(try await rig.store.loadState(ReceiptKeys.name) == nil)
            let receipt = try await phones.id(.delivery(id.rawValue))
            #expect(try await phones.report(receipt).status == 204)
            #expect(try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1])
            #expect(try phones.counted("chapar_app_receipts_forged_total") == 2)
        }
    }

    @Test("A repeated report costs no look at the store for a minute")
    func repeated() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig, receipts: [.default: 1])
            let id = try await rig.accepted([Self.token])
            let receipt = try await phones.id(.delivery(id.rawValue))
            // With one report a second, each that reached the store would be refused soon.
            for _ in 0..<50 { #expect(try await phones.report(receipt).status == 204) }
            #expect(try phones.result("recorded") == 1 && phones.result("repeated") == 49)
        }
    }

    @Test("Tokens that a phone makes up cannot use up the app's rate with the id of its delivery")
    func madeUpTokens() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig, receipts: [.default: 1])
            let id = try await rig.accepted([Self.token, Self.other])
            let receipt = try await phones.id(.delivery(id.rawValue))
            for number in 0..<50 {
                #expect(try await phones.report(receipt, "opened", #","token":"made-up-\#(number)""#).status == 204)
            }
            #expect(try phones.result("recorded") == 1 && phones.result("repeated") == 49)
            let second = try await phones.id(.delivery(id.rawValue + 1))
            #expect(try await phones.report(second).status == 204, "another phone is heard")
        }
    }

    @Test("A report before the platform's answer is not held against the next one")
    func unknownForgotten() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let id = rig.store.makeID(recipients: 1)
            let receipt = try await phones.id(.delivery(id.rawValue))
            for unknown in 1...2 {
                async let first = phones.report(receipt)
                try await eventually("the second look") { rig.time.sleeping > 0 }
                rig.time.advance(by: AppReceiptsAPI.earlyDelay)
                #expect(try await first.status == 204)
                #expect(try await phones.report(receipt).status == 204)
                #expect(try phones.result("unknown") == Double(unknown), "the store is asked again")
                #expect(try phones.result("repeated") == Double(unknown))
                rig.time.advance(by: .seconds(RecentReceipts.unknownSpan))
            }
        }
    }

    @Test("An app that has used up its rate is told when to come again, and another one goes on")
    func rate() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig, receipts: [.default: 2, Self.shop: 2])
            let id = try await rig.accepted((0..<10).map { .token(DeviceToken("t-\($0)", service: .iOSAPNs)) })
            var statuses: [Int: Int] = [:]
            for place in 0..<10 {
                let receipt = try await phones.id(.delivery(id.rawValue + Int64(place)))
                let reply = try await phones.report(receipt)
                statuses[reply.status, default: 0] += 1
                if reply.status == 429 { #expect(reply.headers[.retryAfter] != nil && reply.code == "rate_limited") }
            }
            #expect(statuses == [204: 4, 429: 6])
            #expect(try phones.result("limited") == 6)
            let shop = try await rig.accepted([Self.token], by: "shop-ios")
            let receipt = try await phones.id(.delivery(shop.rawValue), of: Self.shop)
            #expect(try await phones.report(receipt).status == 204)
            #expect(try await rig.store.notification(shop)?.counts == [.opened: 1])
            rig.time.advance(by: .seconds(2))
            let late = try await phones.id(.delivery(id.rawValue + 9))
            #expect(try await phones.report(late).status == 204)
            #expect(try await rig.store.notification(id)?.counts[.opened] == 5)
        }
    }

    @Test("An id of many recipients needs the token of one, and opens the message of that one alone")
    func shared() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            _ = try await rig.store.put([rig.device("a"), rig.device("b")])
            let tokens = try await rig.accepted([Self.other, Self.token, .platformID("p-1")])
            let devices = try await rig.accepted([.device("b"), .device("a")])
            let receipt = try await phones.id(.notification(tokens.rawValue))
            #expect(try await phones.report(receipt).status == 204)
            #expect(try phones.result("unattributed") == 1)
            #expect(try await phones.report(receipt, "opened", #","token":"nobody's""#).status == 204)
            #expect(try phones.result("unknown") == 1)
            #expect(try await rig.store.notification(tokens)?.counts == [.acceptedByPlatform: 3])
            for token in ["t-a", "p-1"] {
                #expect(try await phones.report(receipt, "opened", #","token":"\#(token)""#).status == 204)
            }
            let states = try await rig.store.deliveries(of: tokens, after: nil, limit: 10).map(\.state)
            #expect(states == [.acceptedByPlatform, .opened, .opened])
            let toDevices = try await phones.id(.notification(devices.rawValue))
            #expect(try await phones.report(toDevices, "delivered", #","token":"t-a""#).status == 204)
            let second = try await rig.store.deliveries(of: devices, after: nil, limit: 10).map(\.state)
            #expect(second == [.acceptedByPlatform, .delivered])
        }
    }

    @Test("A report that is faster than the commit of the platform's answer is not lost")
    func early() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let id = rig.store.makeID(recipients: 1)
            let notification = NewNotification(
                id: id,
                notification: PushNotification(title: "t"),
                record: NotificationRecord(
                    content: Array("{}".utf8),
                    plans: [DeliveryPlan(["ios"])],
                    acceptedAt: rig.time.now
                ),
                recipients: [Self.token],
                caller: "",
                expiresAt: rig.time.now + 3_600,
                event: Array("{}".utf8)
            )
            _ = try await rig.store.enqueue(EnqueueBatch([notification]))
            let claims = try await rig.store.claim(backend: "ios", limit: 10, wait: .zero)
            let receipt = try await phones.id(.delivery(id.rawValue))
            async let reply = phones.report(receipt, "delivered")
            try await eventually("the second look") { rig.time.sleeping > 0 }
            let attempt = Array("{}".utf8)
            try await rig.store.record(
                claims.map { Resolution(delivery: $0.id, transition: .end(.acceptedByPlatform), attempt: attempt) }
            )
            rig.time.advance(by: AppReceiptsAPI.earlyDelay)
            #expect(try await reply.status == 204)
            #expect(try await rig.store.notification(id)?.counts == [.delivered: 1])
        }
    }

    @Test("A report ends a delivery for which another backend would take over, and is told with the one that took it")
    func escalation() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            var plan = DeliveryPlan(["ios", "sms"])
            plan.escalation = Escalation(step: 1, after: .seconds(120), unless: .opened)
            let new = NewNotification(
                id: rig.store.makeID(recipients: 1),
                notification: PushNotification(title: "t"),
                record: NotificationRecord(content: Array("{}".utf8), plans: [plan], acceptedAt: rig.time.now),
                recipients: [Self.token],
                caller: "",
                expiresAt: rig.time.now + 3_600,
                event: Array("{}".utf8)
            )
            _ = try await rig.store.enqueue(EnqueueBatch([new]))
            let claims = try await rig.store.claim(backend: "ios", limit: 1, wait: .zero)
            let attempt = Array(#"{"at":"1","backend":"ios","outcome":"accepted"}"#.utf8)
            let later = Resolution.Transition.retry(at: rig.time.now + 120, step: 1)
            try await rig.store.record(
                claims.map { Resolution(of: $0, later, attempt: attempt, mayHaveBeenSent: true) }
            )
            let receipt = try await phones.id(.delivery(new.id.rawValue))
            #expect(try await phones.report(receipt, "delivered").status == 204)
            #expect(try await rig.store.notification(new.id)?.counts == [.retrying: 1])
            #expect(try await phones.report(receipt, "opened").status == 204)
            #expect(try await rig.store.notification(new.id)?.counts == [.opened: 1])
            let events = try await rig.events().filter { $0["type"] != nil }
            #expect(events.compactMap { $0["type"]?.stringValue } == ["delivery.receipt", "delivery.opened"])
            #expect(events.allSatisfy { $0["backend"] == "ios" }, "\(events)")
            #expect(try phones.result("recorded", event: "delivered") == 1 && phones.result("recorded") == 1)
        }
    }

    @Test(
        "Bad input is told with the fix, whether the id is good or not",
        arguments: [
            (#"{"event":"eaten"}"#, 422, "#/event unknown_event"), (#"{}"#, 422, "#/event missing"),
            (#"{"event":"opened","at":"noon"}"#, 422, "#/at bad_time"),
            (#"{"event":"opened","user":"u"}"#, 422, "#/user unknown_field"), ("odd", 400, ""),
            (#"{"event":"opened","token":"\#(String(repeating: "x", count: 5_000))"}"#, 413, ""),
        ]
    )
    func badInput(body: String, status: Int, error: String) async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let good = try await phones.id(.delivery(1))
            for id in [good, "forged"] {
                let reply = try await APIHarness.send(phones.api.responder, .post, "/v1/receipts/\(id)", body)
                #expect(reply.status == status, "\(reply.text)")
                #expect(reply.errors == (error.isEmpty ? [] : [error]))
            }
        }
    }

    @Test("A service worker of another origin and a phone whose clock is ahead are heard")
    func strangers() async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let id = try await rig.accepted([Self.token])
            let receipt = try await phones.id(.delivery(id.rawValue))
            let headers: HTTPFields = [.contentType: "text/plain;charset=UTF-8", .origin: "https://shop.example"]
            let reply = try await phones.report(receipt, "opened", #","at":"2099-01-01T00:00:00Z""#, headers: headers)
            #expect(reply.status == 204, "\(reply.text)")
            let log = try await rig.store.deliveries(of: id, after: nil, limit: 1).first?.attemptLog ?? []
            #expect(!String(decoding: log, as: UTF8.self).contains("2099"))
        }
    }

    @Test("A time before the message, or after now, counts as now", arguments: [-56 * 31_557_600, -1, 5, 30, 3_600])
    func times(offset: Int) async throws {
        try await OperationRig.run { rig in
            let phones = Phones(rig)
            let sent = rig.time.now
            let id = try await rig.accepted([Self.token])
            rig.time.advance(by: .seconds(60))
            let told = RFC3339.string(sent + TimeInterval(offset))
            let receipt = try await phones.id(.delivery(id.rawValue))
            #expect(try await phones.report(receipt, "opened", #","at":"\#(told)""#).status == 204)
            let log = try await rig.store.deliveries(of: id, after: nil, limit: 1).first?.attemptLog ?? []
            let entry = String(decoding: log, as: UTF8.self)
            let kept = (0...60).contains(offset) ? told : RFC3339.string(rig.time.now)
            #expect(entry.contains(kept), "\(entry)")
        }
    }

    @Test("A message is checked with the id that it will have, whose name the sender cannot use")
    func checked() async throws {
        let seen = Mutex<[String]>([])
        var backend = StubBackend.ios
        backend.finding = { notification in
            seen.withLock { $0.append(notification.data["chapar_receipt"]?.stringValue ?? "") }
            return PayloadCheck()
        }
        for isOn in [true, false] {
            let harness = APIHarness(backends: [backend]) { configuration in
                if isOn { configuration.receipts[.default] = .init() }
            }
            #expect(try await harness.post(APIHarness.sample()).status == 202)
            let taken = #"{"title":"Order 42","data":{"chapar_receipt":"x"}}"#
            let reply = try await harness.post(APIHarness.sample(content: taken))
            #expect(reply.errors == (isOn ? ["#/content/data/chapar_receipt reserved_key"] : []))
        }
        #expect(seen.withLock { $0.map(\.count) } == [32, 32, 0, 1])
    }
}
