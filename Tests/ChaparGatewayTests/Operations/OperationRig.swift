import Foundation
import Logging
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparStoreContract
import ChaparTesting
import Synchronization

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A platform with every ability, which answers what a test tells it to and remembers what it was told.
final class ScriptedPlatform: PushBackend, DeviceRegistrar, SubscriptionManager, TagEditor, EventReporter,
    CustomEventReporter
{
    /// Something that it was told.
    struct Call: Sendable {
        var kind: OutboxEntry.Kind
        var device: DeviceRecord
        var attempt: OutboxAttempt?
        var detail: JSONObject
    }

    /// The answer to a call; the number counts the earlier calls of its kind for its device.
    typealias Script = @Sendable (Call, Int) async throws(PushError) -> Void

    let kind: BackendKind = "scripted"
    let audience = BackendAudience(services: [.iOSAPNs, .iOSFirebase])
    let stamp: String
    let operationPolicy: RetrySchedule
    private let script: Script
    private let state = Mutex<(calls: [Call], resumed: [DeviceRecord], forgotten: [String?])>(([], [], []))
    /// A further action when it is asked whether it takes a device.
    let inspect = Mutex<@Sendable (DeviceRecord) -> Void>({ _ in })
    /// The devices whose next registration it wants to hear of.
    let awaited = Mutex<Set<String>>([])
    /// The answer of ``resume(_:)``.
    let resumption: Mutex<Result<SubscriptionReport?, PushError>>

    init(
        stamp: String = "1",
        policy: RetrySchedule = RetrySchedule(
            delays: [.seconds(1), .seconds(2)],
            sweep: .seconds(4),
            maximumAttempts: 4,
            jitter: 0
        ),
        resumption: Result<SubscriptionReport?, PushError> = .success(nil),
        _ script: @escaping Script = { _, _ in }
    ) {
        self.stamp = stamp
        self.script = script
        operationPolicy = policy
        self.resumption = Mutex(resumption)
    }

    var devices: (any DeviceRegistrar)? { self }
    var subscriptions: (any SubscriptionManager)? { self }
    var tags: (any TagEditor)? { self }
    var events: (any EventReporter)? { self }
    var customEvents: (any CustomEventReporter)? { self }

    var calls: [Call] { state.withLock { $0.calls } }
    var resumed: [DeviceRecord] { state.withLock { $0.resumed } }
    var forgotten: [String?] { state.withLock { $0.forgotten } }
    /// `kind device` of each call, in order.
    var words: [String] { calls.map { "\($0.kind.rawValue) \($0.device.id)" } }

    private func take(
        _ kind: OutboxEntry.Kind,
        _ device: DeviceRecord,
        _ attempt: OutboxAttempt? = nil,
        _ detail: JSONObject = JSONObject()
    ) async throws(PushError) {
        let call = Call(kind: kind, device: device, attempt: attempt, detail: detail)
        let earlier = state.withLock { state in
            defer { state.calls.append(call) }
            return state.calls.count { $0.kind == kind && $0.device.id == device.id }
        }
        try await script(call, earlier)
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}
    func forget(device: String?) async throws(PushError) { state.withLock { $0.forgotten.append(device) } }

    func issues(in event: CustomEvent, of device: DeviceRecord) -> [Finding] {
        event.data["bad"].map { _ in [Finding(pointer: "#/data/bad", code: "bad_value", detail: "It is bad.")] } ?? []
    }

    func report(
        _ event: CustomEvent,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        let detail: JSONObject = ["name": .string(event.name), "data": .object(event.data)]
        try await take(.event, device, attempt, detail)
        return ["taken": .string(event.name)]
    }

    func accepts(_ device: DeviceRecord) -> Bool {
        inspect.withLock { $0 }(device)
        return !device.tokens.isEmpty
    }
    func awaits(_ device: DeviceRecord) -> Bool { awaited.withLock { $0.contains(device.id) } }
    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        try await take(.register, device)
        return "platform-\(device.id)"
    }
    func remove(_ device: DeviceRecord) async throws(PushError) { try await take(.remove, device) }

    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {}
    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? { .subscribed }
    func issues(in change: SubscriptionChange, of device: DeviceRecord) -> [Finding] {
        guard change.options["cats"] != nil else { return [] }
        return [Finding(pointer: "#/options/cats", code: "bad_cats", detail: "No cats here.")]
    }
    func change(
        _ change: SubscriptionChange,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await take(.subscription, device, attempt, ["status": .string(change.status.rawValue)])
        return ["answer": "taken"]
    }
    func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError) -> SubscriptionReport {
        SubscriptionReport(.suspended, detail: ["query": .string("\(query)")])
    }
    func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport? {
        state.withLock { $0.resumed.append(device) }
        return try resumption.withLock { $0 }.get()
    }

    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {}
    func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] {
        tags["bad"] == nil ? [] : [Finding(pointer: "#/bad", code: "bad_tag", detail: "No such tag.")]
    }
    func edit(_ tags: JSONObject, of device: DeviceRecord, as attempt: OutboxAttempt) async throws(PushError)
        -> JSONObject
    {
        try await take(.tags, device, attempt, tags)
        return JSONObject()
    }

    func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError) {}
    func platformID(in payload: JSONObject) throws(PushError) -> String? {
        guard payload["_crm"] != nil else { return nil }
        guard let id = payload["_uid"]?.stringValue else { throw PushError(.invalidRequest, "no _uid") }
        return id
    }
    func report(
        _ event: PushEvent,
        platformID: String,
        device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await take(.event, device, attempt, ["event": .string(event.rawValue), "id": .string(platformID)])
        return JSONObject()
    }
}

/// A desk for operations over a real store in a folder of its own, on a clock that the test moves.
struct OperationRig: Sendable {
    let time = ManualTime()
    let store: SQLiteStore
    let metrics = GatewayMetrics()

    static func run(_ body: (OperationRig) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-ops-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let rig = try OperationRig(path: folder.appending(path: "test.db").path)
        try await body(rig)
        await rig.store.close()
    }

    private init(path: String) throws {
        store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time, logger: Logger(label: "test"))
    }

    func snapshot(_ backends: KeyValuePairs<String, any PushBackend>, registers: Bool = true) -> GatewaySnapshot {
        GatewaySnapshot(
            configuration: .keyless,
            backends: backends.map {
                BackendRegistry.ConfiguredBackend(name: $0.key, backend: $0.value, registersDevices: registers)
            }
        )
    }

    /// Runs a desk while `body` runs, then stops it; the store stays open.
    ///
    /// `notifications` is asked whether claims are held.
    func run(
        _ backends: KeyValuePairs<String, any PushBackend>,
        registers: Bool = true,
        nodes: (any NodeExchange)? = nil,
        notifications: (any NotificationStore)? = nil,
        _ body: (GatewayState, OutboxRelay) async throws -> Void
    ) async throws {
        let state = GatewayState(
            snapshot: snapshot(backends, registers: registers),
            store: notifications ?? store,
            devices: store,
            time: time
        )
        let desk = OutboxRelay(
            state: state,
            nodes: nodes,
            metrics: metrics,
            logger: quiet,
            planning: OutboxPlanner.ownThread()
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await desk.run() }
            let result: Result<Void, any Error>
            do {
                try await body(state, desk)
                result = .success(())
            } catch {
                result = .failure(error)
            }
            group.addTask { await desk.stop() }
            // Calls that never end get their grace by the clock that the test owns.
            group.addTask { [time] in
                try? await eventually("the task is cancelled", within: .seconds(600), every: .milliseconds(2)) {
                    time.advance(by: .seconds(1))
                    return Task.isCancelled
                }
            }
            try await group.next()
            try await group.next()
            group.cancelAll()
            try result.get()
        }
    }

    /// Moves the clock until something holds; no faster than the store writes, so that a slow disk lets no lease lapse.
    func until(
        by step: Duration = .milliseconds(50),
        _ what: String = "it",
        sourceLine: Int = #line,
        _ condition: () async throws -> Bool
    ) async throws {
        try await eventually("\(what), in line \(sourceLine)", within: .seconds(45), every: .milliseconds(1)) {
            if try await condition() { return true }
            time.advance(by: step)
            // It takes its turn after everything that waits to be written, and finds nothing.
            _ = try await store.claimEntries(of: "nobody", limit: 1, lease: .zero, wait: .zero)
            return false
        }
    }

    /// Waits until nothing waits for any backend.
    func settled(sourceLine: Int = #line) async throws {
        try await until("the end of all operations", sourceLine: sourceLine) {
            // In this order: what was planned in between shows in the depths.
            guard try await store.unplannedCount(ofDevice: nil) == 0 else { return false }
            return try await store.outboxDepths().isEmpty
        }
    }

    /// Waits until every device has been introduced to the backends that are there.
    func introduced(sourceLine: Int = #line) async throws {
        try await until("the introduction", sourceLine: sourceLine) {
            let kept = try await store.loadState("operations.introduced").map { try JSONValue(parsing: $0) }
            let done = kept?.objectValue?.map { $0.value["done"] == true } ?? []
            return !done.isEmpty && done.allSatisfy { $0 }
        }
    }

    /// A planner of what is in the store's outbox.
    func planner(_ snapshot: GatewaySnapshot) -> OutboxPlanner {
        OutboxPlanner(store: store, time: time, logger: quiet) { snapshot.deviceSync }
    }

    /// The events of operations and notices so far.
    func events() async throws -> [JSONValue] {
        try await store.events(after: 0, limit: 10_000, wait: .zero).map { try JSONValue(parsing: $0.json) }
    }

    /// A device with an Apple token.
    func device(_ id: String, user: String? = "ali", tags: [String] = []) -> Device {
        let token = RegisteredToken(DeviceToken("t-\(id)", service: .iOSAPNs), registeredAt: time.now)
        return Device(id: id, user: user, tokens: [token], tags: tags, createdAt: time.now)
    }

    /// An API over the store.
    func api(_ state: GatewayState) -> GatewayAPI {
        GatewayAPI(
            state: state,
            workers: StubWorkers(),
            metrics: metrics,
            logger: quiet
        )
    }

    /// A notification to recipients, of which the platform has accepted every one; returns its id.
    func accepted(_ recipients: [Recipient], by backend: String = "ios") async throws -> NotificationID {
        let id = store.makeID(recipients: recipients.count)
        let notification = NewNotification(
            id: id,
            notification: PushNotification(title: "t"),
            record: NotificationRecord(
                content: Array("{}".utf8),
                plans: [DeliveryPlan([backend])],
                acceptedAt: time.now
            ),
            recipients: recipients,
            caller: "",
            expiresAt: time.now + 3_600,
            event: Array("{}".utf8)
        )
        _ = try await store.enqueue(EnqueueBatch([notification]))
        let claims = try await store.claim(backend: backend, limit: 10, wait: .zero)
        let attempt = Array(#"{"outcome":"accepted"}"#.utf8)
        try await store.record(
            claims.map { Resolution(delivery: $0.id, transition: .end(.acceptedByPlatform), attempt: attempt) }
        )
        return id
    }

    func subscription(_ device: String, backend: String = "crm", user: String? = nil) -> OutboxEntry {
        OutboxEntry(
            backend: backend,
            device: device,
            user: user,
            kind: .subscription,
            body: ["status": "subscribed"],
            at: time.now
        )
    }
}
