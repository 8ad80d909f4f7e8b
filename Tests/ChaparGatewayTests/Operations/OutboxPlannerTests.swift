import Dispatch
import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Changes of devices are planned", .timeLimit(.minutes(2)))
struct OutboxPlannerTests {
    /// Makes plugin code stand still for one device.
    private final class Hold: Sendable {
        private let isOpen = Mutex(false)
        private let gate = DispatchSemaphore(value: 0)
        private let isReached = Mutex(false)

        func pass(_ device: String) {
            guard device == "slow", !isOpen.withLock({ $0 }) else { return }
            isReached.withLock { $0 = true }
            gate.wait()
        }

        /// Waits until the plugin stands still; asks nothing of the store, which may do so too.
        func reached() async throws {
            try await eventually("the plugin is asked") { isReached.withLock { $0 } }
        }

        /// Lets everybody through from now on.
        func open() {
            isOpen.withLock { $0 = true }
            gate.signal()
        }
    }

    @Test("A plugin that takes long over a device delays the news of devices and nothing else")
    func slowPlugin() async throws {
        try await OperationRig.run { rig in
            let hold = Hold()
            defer { hold.open() }
            let platform = ScriptedPlatform()
            platform.inspect.withLock { $0 = { hold.pass($0.id) } }
            try await rig.run(["crm": platform]) { state, _ in
                try await rig.introduced()
                _ = try await state.devices.put([rig.device("slow"), rig.device("b")])
                let responder = rig.api(state).responder
                async let patched = APIHarness.send(responder, .patch, "/v1/devices/slow", #"{"locale":"fa"}"#)
                try await hold.reached()
                // Plugin code stands still; whatever is accepted, claimed, recorded or registered now is committed.
                let work = Task {
                    _ = try await rig.accepted([.token(DeviceToken("4f1c", service: .iOSAPNs))])
                    _ = try await state.devices.patch("b", outbox: state.outbox) { $0.locale = "fa" }
                    return try await APIHarness.send(responder, .put, "/v1/devices/c", "{}").status
                }
                let isDone = Mutex(false)
                let watcher = Task {
                    defer { isDone.withLock { $0 = true } }
                    return try await work.value
                }
                try? await eventually("the work is done") { isDone.withLock { $0 } }
                #expect(isDone.withLock { $0 }, "the store takes work while a plugin is asked")
                #expect(platform.calls.isEmpty)
                hold.open()
                #expect(try await watcher.value == 201)
                #expect(try await patched.status == 200)
                try await rig.settled()
            }
            #expect(platform.words.sorted() == ["register b", "register slow"], "what has been waiting, once")
        }
    }

    @Test(
        "Entries of one device go out in their order, also while its platform fails, and hold up no other device"
    )
    func order() async throws {
        try await OperationRig.run { rig in
            // The first two calls of each kind fail for one device: no later entry may overtake them.
            let platform = ScriptedPlatform { call, earlier throws(PushError) in
                if call.device.id == "a", earlier < 2 { throw PushError(.unavailable, "busy") }
            }
            try await rig.run(["crm": platform]) { state, _ in
                try await rig.introduced()
                _ = try await state.devices.put([rig.device("a", tags: ["x"])], outbox: state.outbox)
                let changes = ["subscribed", "suspended", "unsubscribed"].map { status in
                    var change = rig.subscription("a")
                    change.body["status"] = .string(status)
                    return change
                }
                try await rig.store.enqueue(changes)
                _ = try await state.devices.put([rig.device("b")], outbox: state.outbox)
                try await rig.settled()
            }
            let words = platform.calls.map { call in
                "\(call.kind.rawValue) \(call.device.id) \(call.detail["status"]?.stringValue ?? "")"
            }
            let attempts = { (word: String) in Array(repeating: word, count: 3) }
            #expect(
                words.filter { $0.contains(" a ") }
                    == attempts("register a ") + attempts("tags a ") + attempts("subscription a subscribed")
                    + ["subscription a suspended", "subscription a unsubscribed"]
            )
            let other = try #require(words.firstIndex(of: "register b "))
            #expect(other < words.count - 1, "\(words)")
        }
    }

    @Test("An operation requested after an unplanned change is carried out after it")
    func unplanned() async throws {
        try await OperationRig.run { rig in
            let hold = Hold()
            defer { hold.open() }
            let platform = ScriptedPlatform()
            platform.inspect.withLock { $0 = { hold.pass($0.id) } }
            try await rig.run(["crm": platform]) { state, _ in
                try await rig.introduced()
                _ = try await state.devices.put([rig.device("slow", tags: ["x"])], outbox: state.outbox)
                try await hold.reached()
                try await rig.store.enqueue([rig.subscription("slow")])
                _ = try await state.devices.delete("slow", outbox: state.outbox)
                try await rig.store.enqueue([rig.subscription("b")])
                try await rig.until("what has nothing before it") { try await rig.store.outboxDepths().isEmpty }
                hold.open()
                try await rig.settled()
            }
            // The subscription is moot once its device is gone, and the registration too.
            #expect(platform.words == ["remove slow"])
            let kinds = try await rig.events().compactMap { event in
                event["device"] == "slow" ? event["kind"]?.stringValue : nil
            }
            #expect(kinds == ["register", "tags", "subscription", "remove"])
        }
    }

    @Test("A change that was read but not committed when the process died is planned by the next one, once")
    func killed() async throws {
        try await OperationRig.run { rig in
            let snapshot = rig.snapshot(["crm": ScriptedPlatform()])
            let store = InterruptedStore(rig.store)
            let planner = OutboxPlanner(store: store, time: rig.time, logger: quiet) { snapshot.deviceSync }
            _ = try await rig.store.put([rig.device("a")], outbox: rig.time.now)
            _ = try await rig.store.patch("a", outbox: rig.time.now) { $0.user = "sara" }
            // The end comes before the commit, and then after it, but before its answer.
            for step in [InterruptedStore.Step.before, .after] {
                store.end.withLock { $0 = step }
                await #expect(throws: StoreError.closed) { _ = try await planner.planSome() }
            }
            #expect(try await rig.planner(snapshot).planSome() == 0)
            let waiting = try await rig.store.entries(ofDevice: "a", limit: 9)
            #expect(waiting.map(\.operation.user) == ["ali", "sara"])
            #expect(waiting.map(\.operation.kind) == [.register, .register])
        }
    }

    @Test("Two planners at the same time plan nothing twice")
    func twoPlanners() async throws {
        try await OperationRig.run { rig in
            let snapshot = rig.snapshot(["crm": ScriptedPlatform()])
            for number in 0..<300 {
                _ = try await rig.store.put([rig.device("d\(number)", tags: ["x"])], outbox: rig.time.now)
            }
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        let planner = rig.planner(snapshot)
                        while (try? await planner.planSome()) ?? 0 > 0 {}
                    }
                }
            }
            #expect(try await rig.store.outboxDepths()["crm"]?.waiting == 600)
            #expect(try await rig.store.unplannedCount(ofDevice: nil) == 0)
        }
    }
}

/// A store whose owner dies around a commit of plans.
private final class InterruptedStore: OutboxStore {
    enum Step {
        case before, after
    }

    let end = Mutex<Step?>(nil)
    private let store: any OutboxStore

    init(_ store: any OutboxStore) { self.store = store }

    func record(_ plans: [OutboxPlan]) async throws(StoreError) {
        let step = end.withLock { $0 }
        if step == .before { throw .closed }
        try await store.record(plans)
        if step == .after { throw .closed }
    }

    func unplannedChanges(limit: Int, wait: Duration) async throws(StoreError) -> [OutboxChange] {
        try await store.unplannedChanges(limit: limit, wait: wait)
    }
    func unplannedCount(ofDevice device: String?) async throws(StoreError) -> Int {
        try await store.unplannedCount(ofDevice: device)
    }
    func enqueue(_ entries: [OutboxEntry]) async throws(StoreError) { try await store.enqueue(entries) }
    func claimEntries(of backend: String, limit: Int, lease: Duration, wait: Duration) async throws(StoreError)
        -> [ClaimedEntry]
    {
        try await store.claimEntries(of: backend, limit: limit, lease: lease, wait: wait)
    }
    func record(_ results: [OutboxResult]) async throws(StoreError) { try await store.record(results) }
    func entries(ofDevice device: String, limit: Int) async throws(StoreError) -> [WaitingEntry] {
        try await store.entries(ofDevice: device, limit: limit)
    }
    func cancelEntries(of backend: String, device: String?) async throws(StoreError) -> Int {
        try await store.cancelEntries(of: backend, device: device)
    }
    func outboxDepths() async throws(StoreError) -> [String: OutboxDepth] { try await store.outboxDepths() }
    func makeRetriesDue(ofEntriesAt backend: String) async throws(StoreError) -> Int {
        try await store.makeRetriesDue(ofEntriesAt: backend)
    }
}
