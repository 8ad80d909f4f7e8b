import Foundation
import HTTPTypes
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The calls of a program to its gateway, in place of requests over HTTP.
@Suite("A gateway within a program", .timeLimit(.minutes(1)))
struct EmbeddedGatewayTests {
    private static let phone = Recipient.token("4f1c", service: .iOSAPNs)

    private static func backend() -> BackendRegistry.ConfiguredBackend {
        .init(name: "a", backend: ScriptedBackend { _, _ in .accepted(Acceptance(platformID: "p")) })
    }

    /// Waits until a notification with one message has reached a state.
    private static func wait(_ gateway: Gateway, for id: NotificationID, _ state: DeliveryState) async throws {
        try await eventually("the message is \(state)") { try await gateway.states(of: id).map(\.state) == [state] }
    }

    private static func publish(_ count: Int, _ gateway: Gateway) async throws {
        let event = Array(#"{"type":"backend.parked","at":"2026-01-01T00:00:00Z","backend":"a"}"#.utf8)
        try await gateway.state.store.publish(Array(repeating: event, count: count))
    }

    // MARK: Setting up

    @Test("is set up with its backends and settings in a few lines")
    func setUp() async throws {
        let store = MemoryStore(MemoryDatabase(time: SystemTime()))
        let gateway = try await Gateway(store: store, logger: quiet) {
            try $0.add(ScriptedBackend { _, _ in .accepted(Acceptance()) }, as: "a")
            try $0.add(.init(name: "b", backend: ScriptedBackend { _, _ in nil }, maximumInFlight: 1))
            $0.configuration.queue.drain = .seconds(1)
            $0.configuration.routes = [.init(name: "alerts", plan: DeliveryPlan(["a", "b"]))]
        }
        #expect(gateway.state.snapshot.backends.map(\.name) == ["a", "b"])
        try await EmbeddedGateway.run(gateway) { gateway in
            let posted = try await gateway.post(PushNotification(title: "t"), to: Self.phone, via: "alerts")
            let id = try #require(posted.id.flatMap { NotificationID($0) })
            try await Self.wait(gateway, for: id, .acceptedByPlatform)
        }
    }

    @Test("says which backend is there twice, has no name, or is missing")
    func wrongSetUp() async throws {
        let store = MemoryStore(MemoryDatabase(time: SystemTime()))
        let backend = ScriptedBackend { _, _ in nil }
        let mistakes: [(String, @Sendable (inout GatewaySetup) throws -> Void)] = [
            ("backends.a: is there twice", { for _ in 0..<2 { try $0.add(backend, as: "a") } }),
            ("backends: my phone is not a name", { try $0.add(backend, as: "my phone") }),
            (
                "routes[0].use: no backend is named io. Did you mean ios?",
                {
                    try $0.add(backend, as: "ios")
                    $0.configuration.routes = [.init(plan: DeliveryPlan(["ios", "io"]))]
                }
            ),
        ]
        for (words, setUp) in mistakes {
            let error = await #expect(throws: ConfigurationError.self) {
                try await Gateway(store: store, logger: quiet, setUp)
            }
            #expect(error?.description.contains(words) ?? false, "\(error as Any)")
        }
        await store.close()
    }

    // MARK: Events

    @Test(
        "tells what happens, and goes on after the last event that was handled",
        arguments: EmbeddedGateway.Kind.allCases
    )
    func events(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [Self.backend()]) { gateway in
            let id = try await gateway.accept(PushNotification(title: "t"), to: [Self.phone]).id
            var seen: [GatewayEvent] = []
            for try await event in gateway.events(after: 0) {
                seen.append(event)
                if event.state == .acceptedByPlatform { break }
            }
            let accepted = try #require(seen.first { $0.type == "notification.accepted" })
            #expect(accepted.notification == id && accepted.content["title"] == "t" && accepted.recipient == nil)
            let last = try #require(seen.last)
            #expect(last.type == "delivery.accepted_by_platform" && last.notification == id)
            #expect(last.recipient == Self.phone && last.backend == "a" && last.reason == nil)
            let stored = try await gateway.state.store.events(after: 0, limit: 100, wait: .zero)
            #expect(seen.map(\.number) == stored.map(\.number).prefix(seen.count).map { $0 })
            #expect(last.content == (try JSONValue(parsing: stored[seen.count - 1].json)))

            try await Self.publish(2, gateway)
            var iterator = gateway.events(after: last.number).makeAsyncIterator()
            #expect(try await iterator.next()?.number == last.number + 1)
            #expect(try await iterator.next()?.number == last.number + 2)
        }
    }

    @Test("reads events no faster than they are handled, and nothing once the loop is left")
    func backPressure() async throws {
        let reads = Mutex((begun: 0, open: 0))
        let wrap = { @Sendable (base: any WrappingStore.Whole) -> any WrappingStore.Whole in
            WrappingStore(
                base,
                readsEvents: { isBegin in
                    reads.withLock { $0 = ($0.begun + (isBegin ? 1 : 0), $0.open + (isBegin ? 1 : -1)) }
                }
            )
        }
        try await EmbeddedGateway.run(.memory, [Self.backend()], wrap: wrap) { gateway in
            try await Self.publish(600, gateway)
            let events = gateway.events(after: 0)
            #expect(reads.withLock { $0.begun } == 0, "nothing is read before an iteration asks")
            var count = 0
            for try await event in events {
                count += 1
                #expect(event.number == Int64(count))
                if count == 256 { #expect(reads.withLock { $0.begun } == 1) }
                if count == 257 { break }
            }
            #expect(reads.withLock { ($0.begun, $0.open) } == (2, 0))
            try await Task.sleep(for: .milliseconds(50))
            #expect(reads.withLock { ($0.begun, $0.open) } == (2, 0), "nothing goes on after the loop")

            let waiting = Task { () throws(GatewayProblem) in
                var count = 0
                for try await _ in gateway.events() { count += 1 }
                return count
            }
            try await eventually("an iteration waits for an event") { reads.withLock { $0.open } == 1 }
            waiting.cancel()
            #expect(try await waiting.value == 0)
            #expect(reads.withLock { $0.open } == 0)
        }
    }

    @Test("ends the events at the shutdown, without an error")
    func shutdown() async throws {
        let first = AsyncStream<Void>.makeStream()
        let gatewayRuns = AsyncStream<Gateway>.makeStream()
        async let count: Int = {
            var count = 0
            for await gateway in gatewayRuns.stream {
                for try await _ in gateway.events(after: 0) {
                    count += 1
                    first.continuation.finish()
                }
            }
            return count
        }()
        try await EmbeddedGateway.run(.file, [Self.backend()]) { gateway in
            try await Self.publish(1, gateway)
            gatewayRuns.continuation.yield(gateway)
            gatewayRuns.continuation.finish()
            for await _ in first.stream {}
        }
        #expect(try await count == 1)
    }

    @Test("tells of events that are kept no longer, also a reader that is too slow")
    func gap() async throws {
        try await EmbeddedGateway.run(.memory, [Self.backend()]) { gateway in
            try await Self.publish(5, gateway)
            let store = try #require(gateway.state.store as? MemoryStore)
            store.database.removeEvents(2)
            var iterator = gateway.events(after: 1).makeAsyncIterator()
            let gap = try #require(try await iterator.next())
            #expect(gap.type == GatewayEvent.gap && gap.number == 2)
            #expect(gap.content["after"] == 1 && gap.content["next"] == 3)
            #expect(try await iterator.next()?.number == 3)
            var later = gateway.events(after: 3).makeAsyncIterator()
            #expect(try await later.next()?.number == 4)
            #expect(try await later.next()?.number == 5)
            try await Self.publish(3, gateway)
            store.database.removeEvents(5)
            let overtaken = try #require(try await later.next())
            #expect(overtaken.type == GatewayEvent.gap && overtaken.number == 7)
            #expect(try await later.next()?.number == 8)
        }
    }

    // MARK: Deliveries

    @Test("gives the deliveries of a notification page by page", arguments: EmbeddedGateway.Kind.allCases)
    func deliveries(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [Self.backend()]) { gateway in
            let recipients = (0..<1_100).map { Recipient.token("t\($0)", service: .iOSAPNs) }
            let id = try await gateway.accept(PushNotification(title: "t"), to: recipients).id
            let deliveries = gateway.deliveries(of: id)
            for _ in 0..<2 {  // Each iteration begins anew.
                var seen: [Recipient] = []
                for try await delivery in deliveries { seen.append(delivery.recipient) }
                #expect(seen == recipients)
            }
            let unknown = NotificationID(rawValue: 1)
            let problem = await #expect(throws: GatewayProblem.self) {
                for try await _ in gateway.deliveries(of: unknown) {}
            }
            #expect(problem?.code == "not_found" && problem?.retryAfter == nil)
            #expect(try await gateway.states(of: unknown).isEmpty)
        }
    }

    // MARK: Sending

    @Test("is a sender: by a route or a backend, with the caller's wishes", arguments: EmbeddedGateway.Kind.allCases)
    func posts(kind: EmbeddedGateway.Kind) async throws {
        let other = ScriptedBackend { _, _ in .refused(Refusal(.token, reason: "Unregistered", advice: .never)) }
        let backends: [BackendRegistry.ConfiguredBackend] = [Self.backend(), .init(name: "b", backend: other)]
        let change = { (configuration: inout GatewayConfiguration) in
            configuration.routes = [
                .init(service: .iOSAPNs, plan: DeliveryPlan(["a"])), .init(name: "alerts", plan: DeliveryPlan(["b"])),
            ]
        }
        try await EmbeddedGateway.run(kind, backends, change) { gateway in
            let sender: any PushSender = gateway
            let message = PushNotification(title: "t")
            for (name, backend) in [("alerts", "b"), ("a", "a"), (nil, "a")] {
                let posted = try await sender.post(message, to: Self.phone, via: name)
                #expect(posted.outcomes == nil && !posted.isReplay)
                let id = try #require(posted.id.flatMap { NotificationID($0) })
                try await Self.wait(gateway, for: id, backend == "a" ? .acceptedByPlatform : .failed)
                #expect(try await gateway.states(of: id).map(\.backend) == [backend])
            }
            let options = SendOptions(timeToLive: .seconds(60), idempotencyKey: "order-42")
            let first = try await sender.post(message, to: Self.phone, options: options)
            let second = try await sender.post(message, to: Self.phone, options: options)
            #expect(second.isReplay && second.id == first.id)
            let id = try #require(first.id.flatMap { NotificationID($0) })
            let stored = try #require(try await gateway.state.store.notification(id))
            #expect(abs(stored.expiresAt.timeIntervalSince(stored.acceptedAt) - 60) < 0.01)
            let unknown = await #expect(throws: GatewayProblem.self) {
                try await sender.post(message, to: Self.phone, via: "iso")
            }
            #expect(unknown?.errors.map(\.pointer) == ["#/backend"])
        }
    }

    // MARK: Cancelling and retrying

    @Test("cancels what waits, and asks platforms when it is to", arguments: EmbeddedGateway.Kind.allCases)
    func cancel(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [Self.backend()]) { gateway in
            let later = PushNotification(title: "t", sendAt: Date().addingTimeInterval(3_600))
            let id = try await gateway.accept(later, to: [Self.phone, .token("4f1d", service: .iOSAPNs)]).id
            let cancelled = try await gateway.cancel(id)
            #expect((cancelled.cancelled, cancelled.tooLate, cancelled.inFlight) == (2, 0, 0))
            #expect(cancelled.platforms == nil)
            #expect(try await gateway.states(of: id).map(\.state) == [.cancelled, .cancelled])

            let sent = try await gateway.accept(PushNotification(title: "t"), to: [Self.phone]).id
            try await Self.wait(gateway, for: sent, .acceptedByPlatform)
            let late = try await gateway.cancel(sent, onPlatforms: true)
            #expect((late.cancelled, late.tooLate) == (0, 1))
            #expect(late.platforms?.unsupported == 1 && late.platforms?.cancelled == 0)
            let answer = try await APIHarness.send(gateway.responder, .delete, "/v1/notifications/\(sent)").json
            #expect(answer["too_late"] == 1)

            let problem = await #expect(throws: GatewayProblem.self) {
                try await gateway.cancel(NotificationID(rawValue: 1))
            }
            #expect(problem?.code == "not_found")
        }
    }

    @Test("retries a parked backend at once", arguments: EmbeddedGateway.Kind.allCases)
    func retry(kind: EmbeddedGateway.Kind) async throws {
        let isMended = Mutex(false)
        let refusal = Refusal(.account, reason: "InvalidProviderToken", advice: .parkBackend)
        let platform = ScriptedBackend { _, _ in
            isMended.withLock { $0 } ? .accepted(Acceptance()) : .refused(refusal)
        }
        try await EmbeddedGateway.run(kind, [.init(name: "a", backend: platform)]) { gateway in
            let id = try await gateway.accept(PushNotification(title: "t"), to: [Self.phone]).id
            // The backend probes by itself as well: a call may find the message under way.
            try await eventually("a retry finds the message and the pause") {
                let retried = try await gateway.retry("a")
                return retried.deliveries == 1 && retried.operations == 0 && retried.kept.isEmpty
                    && retried.ended.map(\.kind) == ["parked"] && retried.ended[0].reason == "InvalidProviderToken"
            }
            isMended.withLock { $0 = true }
            try await Self.wait(gateway, for: id, .acceptedByPlatform)
            #expect(try await gateway.retry("a").deliveries == 0)
            let problem = await #expect(throws: GatewayProblem.self) { try await gateway.retry("b") }
            #expect(problem?.code == "not_found")
        }
    }

    // MARK: Devices

    private static let registration = DeviceRegistration(
        "phone",
        user: "ada",
        platform: "ios",
        tokens: [
            .init(DeviceToken("4f1c", service: .iOSAPNs), environment: .development),
            .init(DeviceToken("4f1d", service: .iOSAPNs), kind: .liveActivityUpdate(activity: "order-42")),
        ],
        tags: ["gold"],
        locale: "fa-IR",
        appVersion: "1.4",
        timeZone: "Asia/Tehran",
        attributes: ["os_version": "26.0"],
        lastSeen: Date(timeIntervalSince1970: 1_700_000_000)
    )

    private static let body = #"""
        {"user":"ada","platform":"ios","tokens":{"ios-apns":{"token":"4f1c","environment":"development"},
        "ios-apns/live_activity_update/order-42":"4f1d"},"tags":["gold"],"locale":"fa-IR","app_version":"1.4",
        "time_zone":"Asia/Tehran","attributes":{"os_version":"26.0"},"last_seen":"2023-11-14T22:13:20Z"}
        """#

    @Test("registers a device as the API does, and reaches it", arguments: EmbeddedGateway.Kind.allCases)
    func register(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [Self.backend()]) { gateway in
            let put = try await gateway.register(Self.registration)
            #expect(put.isNew && put.device.name == "phone")
            let posted = try await APIHarness.send(gateway.responder, .put, "/v1/devices/phone", Self.body)
            #expect(posted.status == 200, "\(posted.text)")
            let device = try #require(try await gateway.state.devices.device("phone"))
            var expected = put.device
            expected.updatedAt = device.updatedAt
            for place in expected.tokens.indices {
                expected.tokens[place].registeredAt = device.tokens[place].registeredAt
            }
            #expect(device == expected)
            let id = try await gateway.accept(PushNotification(title: "t"), to: [.device("phone")]).id
            try await Self.wait(gateway, for: id, .acceptedByPlatform)

            #expect(try await gateway.register(DeviceRegistration("phone", user: "ada")).device.tags.isEmpty)
            try await gateway.unregister("phone")
            #expect(try await gateway.state.devices.device("phone") == nil)
            let gone = await #expect(throws: GatewayProblem.self) { try await gateway.unregister("phone") }
            #expect(gone?.code == "not_found")
        }
    }

    @Test("says every mistake of a device, and takes nothing while it shuts down")
    func mistakes() async throws {
        try await EmbeddedGateway.run(.memory, [Self.backend()]) { gateway in
            var wrong = Self.registration
            (wrong.platform, wrong.locale) = ("ios7", "Persian!")
            wrong.tokens.append(.init(DeviceToken("4f1e", service: .iOSAPNs)))
            let problem = await #expect(throws: GatewayProblem.self) { try await gateway.register(wrong) }
            #expect(problem?.code == "invalid_request")
            let pointers = Set((problem?.errors ?? []).map(\.pointer))
            #expect(pointers == ["#/platform", "#/locale", "#/tokens/ios-apns"], "\(problem as Any)")
            let text = (problem as (any Error)?)?.localizedDescription ?? ""
            #expect(text.contains("#/platform"), "\(text)")
            let bad = await #expect(throws: GatewayProblem.self) {
                try await gateway.register(DeviceRegistration("no id"))
            }
            #expect(bad?.code == "bad_device_id")
            let elsewhere = await #expect(throws: GatewayProblem.self) {
                try await gateway.register(DeviceRegistration("phone", app: AppName(rawValue: "other")))
            }
            #expect(elsewhere?.errors.map(\.pointer) == ["#/app"])

            gateway.state.beginDraining()
            let calls: [@Sendable () async throws -> Void] = [
                { try await gateway.register(Self.registration) }, { try await gateway.unregister("phone") },
                { _ = try await gateway.retry("a") }, { for try await _ in gateway.events() {} },
            ]
            for call in calls {
                let late = await #expect(throws: GatewayProblem.self) { try await call() }
                #expect(late?.code == "draining" && late?.retryAfter != nil)
            }
        }
    }
}
