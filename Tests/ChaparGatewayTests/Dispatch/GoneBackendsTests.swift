import Foundation
import HTTPTypes
import Logging
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Deliveries whose backend was removed or renamed.
@Suite("A backend that is gone", .timeLimit(.minutes(2)))
struct GoneBackendsTests {
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p", status: 200))

    private static func good() -> ScriptedBackend { ScriptedBackend { _, _ in accepted } }

    /// Returns what settles the deliveries of gone backends, without a dispatcher that runs it.
    private static func goneBackends(
        of rig: DispatcherRig,
        nodes: (any NodeExchange)? = nil,
        logger: Logger = quiet
    ) -> GoneBackends {
        GoneBackends(
            store: rig.store,
            nodes: nodes,
            clock: WallClock(rig.time),
            observer: SilentObserver(),
            logger: logger
        )
    }

    /// Lets time pass, a second at a time, until a notification's only delivery stands so.
    private func pass(_ rig: DispatcherRig, until id: NotificationID, is state: DeliveryState) async throws {
        try await rig.until {
            rig.time.advance(by: .seconds(1))
            return try await rig.store.notification(id)?.counts == [state: 1]
        }
    }

    @Test("leaves its deliveries to the next step of their plan that is configured")
    func passesOn() async throws {
        let backend = Self.good()
        try await DispatcherRig.run(["b": backend]) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["gone", "other", "b"]))
            try await pass(rig, until: id, is: .acceptedByPlatform)
            let story = try await rig.attemptLog(id)
            #expect(story.map { $0["reason"] } == ["backend_gone", nil])
            #expect(story.first?["outcome"] == "skipped")
            #expect(story.first?["backend"] == "gone")
        }
    }

    @Test(
        "is not gone while another gateway has it, or may have it: its deliveries stay with that one",
        arguments: [["fresh"], nil]
    )
    func elsewhere(_ backends: Set<String>?) async throws {
        let (node, _) = Pair.make()
        node.otherBackends.withLock { $0 = .some(backends) }
        let rig = try await DispatcherRig(nodes: node)
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(["b": Self.good()]) {
            let id = try await rig.accept(plan: DeliveryPlan(["fresh", "b"]))
            try await rig.until { !node.declared.withLock { $0.isEmpty } }
            #expect(node.declared.withLock { $0 } == ["b"])
            for _ in 0..<20 {
                rig.time.advance(by: .seconds(1))
                await Task.yield()
            }
            let gone = try #require(rig.dispatcher.goneBackends)
            #expect(try await gone.depths().isEmpty)
            try await rig.until {
                do throws(GoneBackends.Failure) {
                    _ = try await gone.drop("fresh")
                    return false
                } catch {
                    // Busy is also the answer before it is known what other gateways have.
                    return error == .configured || backends == nil && error == .busy
                }
            }
            #expect(try await rig.store.notification(id)?.counts == [.queued: 1])
            // The other one ends, or is given a configuration without it.
            node.otherBackends.withLock { $0 = .some([]) }
            try await pass(rig, until: id, is: .acceptedByPlatform)
            #expect(try await rig.attemptLog(id).map { $0["reason"] } == ["backend_gone", nil])
        }
        await rig.store.close()
    }

    @Test("is not gone for a gateway that cannot know which others live, as after it stood still")
    func mayNotJudge() async throws {
        let (node, _) = Pair.make()
        node.isCurrent.withLock { $0 = false }
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let gone = Self.goneBackends(of: rig, nodes: node)
        let snapshot = DispatcherRig.snapshot(["b": Self.good()])
        await gone.install(snapshot)
        let id = try await rig.accept(plan: DeliveryPlan(["gone", "b"]))
        rig.time.advance(by: .seconds(1))
        for _ in 0..<3 { await gone.work() }
        #expect(try await rig.store.notification(id)?.counts == [.queued: 1])
        #expect(try await gone.depths().isEmpty)
        #expect(!snapshot.isGone("gone"))
        await #expect(throws: GoneBackends.Failure.configured) { _ = try await gone.drop("b") }
        await #expect(throws: GoneBackends.Failure.busy) { _ = try await gone.drop("gone") }
        node.isCurrent.withLock { $0 = true }
        for _ in 0..<2 { await gone.work() }
        #expect(try await rig.store.notification(id)?.counts == [.retrying: 1])
        await rig.store.close()
    }

    @Test("is not looked for in a cancelled start, which logs nothing of the store", arguments: [true, false])
    func cancelledStart(isCancelled: Bool) async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        await rig.store.close()
        let log = RecordedLog()
        let gone = Self.goneBackends(of: rig, logger: log.logger)
        let snapshot = DispatcherRig.snapshot(["b": Self.good()])
        let start = Task {
            while isCancelled, !Task.isCancelled { await Task.yield() }
            await gone.install(snapshot)
        }
        if isCancelled { start.cancel() }
        await start.value
        #expect(log.lines.isEmpty == isCancelled, "\(log.lines)")
    }

    @Test("stays dropped over a start at which it cannot be known which gateways live")
    func droppedBefore() async throws {
        let (node, _) = Pair.make()
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        func start() async -> GoneBackends {
            let gone = Self.goneBackends(of: rig, nodes: node)
            await gone.install(DispatcherRig.snapshot(["b": Self.good()]))
            return gone
        }
        let id = try await rig.accept(plan: DeliveryPlan(["gone"]), dueIn: .seconds(100))
        #expect(try await start().drop("gone") == 1)
        node.isCurrent.withLock { $0 = false }
        let gone = await start()
        node.isCurrent.withLock { $0 = true }
        rig.time.advance(by: .seconds(101))
        for _ in 0..<3 { await gone.work() }
        #expect(try await rig.store.notification(id)?.counts == [.failed: 1])
        await rig.store.close()
    }

    @Test("leaves the others waiting until it comes back")
    func comesBack() async throws {
        let backend = Self.good()
        try await DispatcherRig.run(["b": Self.good()]) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["gone"]))
            let gone = try #require(rig.dispatcher.goneBackends)
            rig.time.advance(by: .seconds(1))
            try await rig.until { try await gone.depths()["gone"]?.waiting == 1 }
            #expect(backend.attemptCount == 0)
            // An installation before the dispatcher's own first one would be replaced by that.
            try await rig.until { rig.dispatcher.workers.first?.backend == "b" }
            rig.dispatcher.install(DispatcherRig.snapshot(["gone": backend]))
            try await rig.until { rig.dispatcher.workers.first?.backend == "gone" }
            try await rig.expect(id, [.acceptedByPlatform: 1])
            let depths = try await gone.depths()
            #expect(depths.isEmpty)
        }
    }

    @Test("has what waits ended when an operator drops it, what is due later when it is")
    func drop() async throws {
        try await DispatcherRig.run(["b": Self.good()]) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["gone"]))
            let later = try await rig.accept(plan: DeliveryPlan(["gone"]), dueIn: .seconds(100))
            let gone = try #require(rig.dispatcher.goneBackends)
            try await rig.until { !rig.dispatcher.workers.isEmpty }
            await #expect(throws: GoneBackends.Failure.configured) { _ = try await gone.drop("b") }
            await #expect(throws: GoneBackends.Failure.unknown) { _ = try await gone.drop("never") }
            let dropped = try await rig.withTimeGoing { try await gone.drop("gone") }
            #expect(dropped == 2)
            try await pass(rig, until: id, is: .failed)
            #expect(try await rig.attemptLog(id).map { $0["reason"] } == ["backend_dropped"])
            try await pass(rig, until: later, is: .failed)
            try await rig.until { try await rig.eventTypes().contains("delivery.failed") }
        }
    }

    @Test("has what waits handed to another one when an operator moves it")
    func move() async throws {
        let backend = Self.good()
        try await DispatcherRig.run(["b": backend]) { rig in
            let id = try await rig.accept(plan: DeliveryPlan(["gone"]))
            let later = try await rig.accept(plan: DeliveryPlan(["gone"]), dueIn: .seconds(100))
            let gone = try #require(rig.dispatcher.goneBackends)
            try await rig.until { !rig.dispatcher.workers.isEmpty }
            await #expect(throws: GoneBackends.Failure.unknownTarget(nearest: nil)) {
                _ = try await gone.move("gone", to: "nobody")
            }
            let moved = try await rig.withTimeGoing { try await gone.move("gone", to: "b") }
            #expect(moved == 2)
            try await pass(rig, until: id, is: .acceptedByPlatform)
            try await pass(rig, until: later, is: .acceptedByPlatform)
        }
    }

    private static let (shop, forum) = (AppName(rawValue: "shop"), AppName(rawValue: "forum"))

    /// Starts with backends of apps, without workers.
    private func start(_ apps: KeyValuePairs<String, AppName>, _ rig: DispatcherRig) async -> GoneBackends {
        let gone = Self.goneBackends(of: rig)
        let backends = apps.map {
            BackendRegistry.ConfiguredBackend(name: $0.key, backend: Self.good(), app: $0.value)
        }
        await gone.install(GatewaySnapshot(configuration: .keyless, backends: backends))
        return gone
    }

    @Test("has nothing handed to a backend of another app, whatever its recipients and due time")
    func otherApp() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        _ = await start(["old": Self.shop, "given-on": Self.shop, "forum-ios": Self.forum], rig)
        try await rig.accept(
            [.token(DeviceToken("aa", service: .iOSAPNs))],
            plan: DeliveryPlan(["old"]),
            dueIn: .seconds(100)
        )
        let gone = await start(["shop-ios": Self.shop, "forum-ios": Self.forum], rig)
        await #expect(throws: GoneBackends.Failure.otherApp(waiting: Self.shop, target: Self.forum)) {
            _ = try await gone.move("old", to: "forum-ios")
        }
        #expect(try await gone.depths()["old"]?.waiting == 1)
        #expect(try await gone.move("old", to: "shop-ios") == 1)
        // A name is of the app that had it last.
        _ = await start(["given-on": Self.forum, "shop-ios": Self.shop], rig)
        try await rig.accept(plan: DeliveryPlan(["given-on"]))
        let later = await start(["shop-ios": Self.shop, "forum-ios": Self.forum], rig)
        #expect(try await later.move("given-on", to: "forum-ios") == 1)
        await rig.store.close()
    }

    @Test("has devices and users of another app kept from a backend where an older version did not note the app")
    func appNotNoted() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let gone = await start(["shop-ios": Self.shop, "ios": .default], rig)
        let token = Recipient.token(DeviceToken("aa", service: .iOSAPNs))
        try await rig.accept([token, .device(Self.shop.key("phone"))], plan: DeliveryPlan(["old-shop"]))
        try await rig.accept([token, .user(AppName.default.key("a/b"))], plan: DeliveryPlan(["old-default"]))
        rig.time.advance(by: .seconds(1))
        await #expect(throws: GoneBackends.Failure.otherApp(waiting: Self.shop, target: .default)) {
            _ = try await gone.move("old-shop", to: "ios")
        }
        await #expect(throws: GoneBackends.Failure.otherApp(waiting: .default, target: Self.shop)) {
            _ = try await gone.move("old-default", to: "shop-ios")
        }
        #expect(try await gone.move("old-shop", to: "shop-ios") == 2)
        #expect(try await gone.move("old-default", to: "ios") == 2)
        await rig.store.close()
    }

    @Test("costs nothing in rounds of upkeep: nothing is written for waiting deliveries, however many there are")
    func writesNothing() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let gone = Self.goneBackends(of: rig)
        await gone.install(DispatcherRig.snapshot(["b": Self.good()]))
        for _ in 0..<3 {
            try await rig.accept((0..<4_000).map { "t\($0)" }, plan: DeliveryPlan(["gone"]), lives: .seconds(86_400))
        }
        try await rig.accept(["one"], plan: DeliveryPlan(["gone"]), lives: .seconds(86_400))
        _ = try await rig.store.claimExpired(limit: 1)  // Gives the last one its row, as upkeep does once.
        rig.time.advance(by: .seconds(6))
        _ = try await rig.store.claimExpired(limit: 1)
        let before = try rig.fileContents()
        for _ in 0..<200 {
            rig.time.advance(by: .seconds(1))
            await gone.work()
        }
        #expect(try rig.fileContents() == before, "200 rounds wrote something")
        let depths = try await gone.depths()
        #expect(depths["gone"]?.waiting == 12_001)
        // All of it is there at once, in its order.
        var claims: [ClaimedDelivery] = []
        for _ in 0..<2 { claims += try await rig.store.claim(backend: "gone", limit: 10_000, wait: .zero) }
        #expect(claims.count == 12_001)
        #expect(claims.map(\.id) == claims.map(\.id).sorted())
        await rig.store.close()
    }

    @Test("passes on later deliveries at once, and leaves those without another backend alone")
    func comesLater() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let gone = Self.goneBackends(of: rig)
        await gone.install(DispatcherRig.snapshot(["b": Self.good()]))
        let left = try await rig.accept(plan: DeliveryPlan(["gone"]))
        await gone.work()
        rig.time.advance(by: .seconds(1))
        let passed = try await rig.accept(plan: DeliveryPlan(["gone", "b"]))
        await gone.work()
        #expect(try await rig.store.notification(left)?.counts == [.queued: 1])
        #expect(try await rig.store.notification(passed)?.counts == [.retrying: 1])
        #expect(try await rig.store.claim(backend: "b", limit: 10, wait: .zero).map(\.notificationID) == [passed])
        // A configuration that has a worker for it.
        await gone.install(DispatcherRig.snapshot(["gone": Self.good(), "b": Self.good()]))
        await gone.work()
        let depths = try await gone.depths()
        #expect(depths.isEmpty)
        #expect(try await rig.store.claim(backend: "gone", limit: 10, wait: .zero).map(\.notificationID) == [left])
        await rig.store.close()
    }

    @Test("shows and is settled over the API, by administrators only")
    func api() async throws {
        let snapshot = DispatcherRig.snapshot(["b": Self.good()]) {
            $0.apiKeys = [APIHarness.key("boss", [.admin]), APIHarness.key("viewer", [.read])]
        }
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let state = GatewayState(snapshot: snapshot, store: rig.store, devices: rig.store, time: rig.store.time)
        let api = GatewayAPI(state: state, workers: rig.dispatcher, metrics: GatewayMetrics(), logger: quiet)
        @Sendable func ask(_ path: String, _ body: String?, as key: String = "boss") async throws -> APIHarness.Reply {
            try await APIHarness.send(
                api.responder,
                body == nil ? .get : .post,
                path,
                body,
                headers: APIHarness.bearer(key)
            )
        }
        try await rig.run(snapshot) {
            try await rig.until { !rig.dispatcher.workers.isEmpty }
            let id = try await rig.accept(plan: DeliveryPlan(["gone"]))
            try await rig.until { try await rig.dispatcher.goneBackends?.depths()["gone"]?.waiting == 1 }
            var shown: [JSONValue] = []
            try await rig.until {
                shown = try await ask("/v1/backends", nil).json["backends"]?.arrayValue ?? []
                return shown.last?["worker"]?["waiting"] == 1
            }
            #expect(shown.map { $0["name"] } == ["b", "gone"])
            #expect(shown.map { $0["gone"] } == [nil, true])
            #expect(shown.last?["worker"]?["waiting"] == 1)
            #expect(try await ask("/v1/backends/gone/drop", "{}", as: "viewer").status == 403)
            #expect(try await ask("/v1/backends/gone/drop", #"{"x":1}"#).status == 422)
            #expect(try await ask("/v1/backends/b/drop", "{}").code == "backend_configured")
            #expect(try await ask("/v1/backends/never/drop", "{}").status == 404)
            #expect(try await ask("/v1/backends/gone/move", "{}").errors == ["#/to missing"])
            #expect(try await ask("/v1/backends/gone/move", #"{"to":"c"}"#).errors == ["#/to unknown_backend"])
            let dryMove = try await ask("/v1/backends/gone/move", #"{"to":"b","dry_run":true}"#)
            #expect(dryMove.json["moved"] == 1 && dryMove.json["dry_run"] == true, "\(dryMove.text)")
            let dryDrop = try await ask("/v1/backends/gone/drop", #"{"dry_run":true}"#)
            #expect(dryDrop.json["dropped"] == 1 && dryDrop.json["dry_run"] == true, "\(dryDrop.text)")
            #expect(try await rig.dispatcher.goneBackends?.depths()["gone"]?.waiting == 1, "a dry run moves nothing")
            let moved = try await rig.withTimeGoing { try await ask("/v1/backends/gone/move", #"{"to":"b"}"#) }
            #expect(moved.status == 200)
            #expect(moved.json["moved"] == 1)
            try await pass(rig, until: id, is: .acceptedByPlatform)
            #expect(try await ask("/v1/backends", nil).json["backends"]?.arrayValue?.count == 1)
            try await rig.accept([.device("shop/phone")], plan: DeliveryPlan(["old"]))
            try await rig.until { try await rig.dispatcher.goneBackends?.depths()["old"] != nil }
            #expect(try await ask("/v1/backends/old/move", #"{"to":"b"}"#).errors == ["#/to other_app"])
            let dropped = try await rig.withTimeGoing { try await ask("/v1/backends/old/drop", "{}") }
            #expect(dropped.json["dropped"] == 1)
        }
        await rig.store.close()
    }
}
