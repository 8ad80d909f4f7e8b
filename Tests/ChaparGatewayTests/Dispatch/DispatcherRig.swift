import Foundation
import Logging
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A platform that does what a test says, message by message.
final class ScriptedBackend: PushBackend {
    let kind: BackendKind = "scripted"
    let audience: BackendAudience
    let tracking: (any MessageTracker)?
    let devices: (any DeviceRegistrar)?
    /// Returns the outcome of the n-th attempt (from 1) for a recipient; nil never reports it.
    private let script: @Sendable (Addressee, Int) -> DeliveryOutcome?
    private let seen = Mutex<[String: [Addressee]]>([:])
    private let ended = Mutex(false)
    private let repeatIsHarmful: Bool
    private let use: TokenUse

    init(
        _ services: Set<TokenService> = [.iOSAPNs, .androidFirebase],
        environment: TokenEnvironment = .unknown,
        repeatIsHarmful: Bool = false,
        tracking: (any MessageTracker)? = nil,
        devices: (any DeviceRegistrar)? = nil,
        use: TokenUse = TokenUse(.device),
        _ script: @escaping @Sendable (Addressee, Int) -> DeliveryOutcome?
    ) {
        audience = BackendAudience(
            services: services,
            forms: devices == nil ? [.topic] : [.topic, .device],
            environment: environment
        )
        self.tracking = tracking
        self.devices = devices
        self.repeatIsHarmful = repeatIsHarmful
        self.use = use
        self.script = script
    }

    func tokenUse(of notification: PushNotification) -> TokenUse? { use }

    /// The attempts that were made for a recipient.
    func attempts(_ recipient: Recipient) -> [Addressee] { seen.withLock { $0[recipient.storedForm] ?? [] } }

    /// The number of attempts for all recipients.
    var attemptCount: Int { seen.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    var isShutDown: Bool { ended.withLock { $0 } }

    func isRepeatHarmful(_ notification: PushNotification) -> Bool { repeatIsHarmful }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (row, request) in requests.enumerated() {
            for (place, addressee) in request.recipients.enumerated() {
                let attempt = seen.withLock { seen in
                    seen[addressee.recipient.storedForm, default: []].append(addressee)
                    return seen[addressee.recipient.storedForm]?.count ?? 0
                }
                guard let outcome = script(addressee, attempt) else { continue }
                report([DeliveryReport(request: row, recipient: place, outcome: outcome)])
            }
        }
    }

    func shutdown(grace: Duration) async { ended.withLock { $0 = true } }
}

/// A dispatcher over a real store in a folder of its own, on a clock that the test moves.
final class DispatcherRig: Sendable {
    let time: ManualTime
    let store: SQLiteStore
    let folder: URL
    let dispatcher: Dispatcher

    init(
        time: ManualTime = ManualTime(),
        folder: URL? = nil,
        nodes: (any NodeExchange)? = nil,
        quotas: (any QuotaLedger)? = nil,
        receipts: Bool = false,
        observer: any DispatchObserver = SilentObserver(),
        tracing: TraceExporter? = nil,
        logger: Logger = Logger(label: "test")
    ) async throws {
        self.time = time
        self.folder =
            folder ?? FileManager.default.temporaryDirectory.appending(path: "chapar-dispatch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let options = SQLiteStoreOptions(path: self.folder.appending(path: "test.db").path)
        store = try SQLiteStore(options, time: time, logger: Logger(label: "test"))
        dispatcher = Dispatcher(
            store: store,
            devices: store,
            operations: store,
            receipts: receipts ? ReceiptKeys(store) : nil,
            nodes: nodes,
            quotas: quotas,
            time: store.time,
            observer: observer,
            tracing: tracing,
            logger: logger
        ) { content in
            var notification = PushNotification(title: "stored")
            if content == Self.nowOrNever { notification.timeToLive = .zero }
            return notification
        }
    }

    /// Runs the dispatcher over named backends while `body` runs, then drains it and closes the store.
    static func run(
        _ backends: KeyValuePairs<String, any PushBackend>,
        queue: GatewayConfiguration.Queue = GatewayConfiguration.Queue(),
        _ change: (inout GatewayConfiguration) -> Void = { _ in },
        _ body: (DispatcherRig) async throws -> Void
    ) async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        try await rig.run(backends, queue: queue, change) { try await body(rig) }
        await rig.store.close()
    }

    /// Runs the dispatcher while `body` runs, then drains it; the store stays open.
    func run(
        _ backends: KeyValuePairs<String, any PushBackend>,
        queue: GatewayConfiguration.Queue = GatewayConfiguration.Queue(),
        _ change: (inout GatewayConfiguration) -> Void = { _ in },
        _ body: () async throws -> Void
    ) async throws {
        try await run(Self.snapshot(backends, queue: queue, change), body)
    }

    /// Runs the dispatcher over a snapshot while `body` runs, then drains it; the store stays open.
    func run(_ snapshot: GatewaySnapshot, _ body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [dispatcher] in try await dispatcher.run(snapshot) }
            let result: Result<Void, any Error>
            do {
                try await body()
                result = .success(())
            } catch {
                result = .failure(error)
                // What the body left under way ends with the time that a drain has.
                group.addTask { await self.letTimeGo() }
            }
            dispatcher.stop()
            try await group.next()
            group.cancelAll()
            try result.get()
        }
    }

    static func snapshot(
        _ backends: KeyValuePairs<String, any PushBackend>,
        queue: GatewayConfiguration.Queue = GatewayConfiguration.Queue(),
        _ change: (inout GatewayConfiguration) -> Void = { _ in }
    ) -> GatewaySnapshot {
        var configuration = GatewayConfiguration.keyless
        configuration.queue = queue
        change(&configuration)
        return GatewaySnapshot(
            configuration: configuration,
            backends: backends.map { BackendRegistry.ConfiguredBackend(name: $0.key, backend: $0.value) }
        )
    }

    /// Accepts one notification for topics, as the API would.
    @discardableResult
    func accept(
        _ topics: [String] = ["t"],
        plan: DeliveryPlan = DeliveryPlan(["a"]),
        lives: Duration = .seconds(3600),
        dueIn: Duration? = nil
    ) async throws -> NotificationID {
        try await accept(topics.map { .topic($0) }, plan: plan, lives: lives, dueIn: dueIn)
    }

    private static let nowOrNever = Array(#"{"options":{"ttl":0}}"#.utf8)

    /// Accepts one notification for recipients, as the API would; a life of zero is now or never.
    @discardableResult
    func accept(
        _ recipients: [Recipient],
        plan: DeliveryPlan,
        lives: Duration = .seconds(3600),
        dueIn: Duration? = nil,
        activity: String? = nil,
        priority: PushNotification.Priority = .high,
        trace: TraceContext? = nil,
        caller: String = ""
    ) async throws -> NotificationID {
        let id = store.makeID(recipients: recipients.count)
        let now = store.time.steady
        var pushed = PushNotification(title: "t", activity: activity, priority: priority)
        pushed.sendAt = dueIn.map { time.now.addingTimeInterval($0.inSeconds) }
        if lives == .zero { pushed.timeToLive = Duration.zero }
        let life = lives > .zero ? lives.inSeconds : ClaimedDelivery.graceForNowOrNever
        let content = Array((activity.map { #"{"activity":"\#($0)"}"# } ?? "{}").utf8)
        var notification = NewNotification(
            id: id,
            notification: pushed,
            record: NotificationRecord(
                content: lives > .zero ? content : Self.nowOrNever,
                plans: [plan],
                acceptedAt: now
            ),
            recipients: recipients,
            caller: caller,
            dueAt: dueIn.map { now.addingTimeInterval($0.inSeconds) },
            expiresAt: now.addingTimeInterval(life),
            event: Array("{}".utf8)
        )
        notification.record.trace = trace
        _ = try await store.enqueue(EnqueueBatch([notification]))
        return id
    }

    /// Waits until the counts of a notification are these; gives up after a while with what they are.
    func expect(_ id: NotificationID, _ counts: [DeliveryState: Int], sourceLine: Int = #line) async throws {
        var last: [DeliveryState: Int]?
        do {
            try await eventually("the counts", within: .seconds(20), every: .milliseconds(1)) {
                last = try await store.notification(id)?.counts
                return last == counts
            }
        } catch is ConformanceFailure {
            throw ConformanceFailure("line \(sourceLine): \(String(describing: last)) instead of \(counts)")
        }
    }

    /// Waits until something holds.
    func until(sourceLine: Int = #line, _ condition: () async throws -> Bool) async throws {
        try await eventually(
            "what line \(sourceLine) waits for",
            within: .seconds(20),
            every: .milliseconds(1),
            condition
        )
    }

    /// Moves the clock until a run has ended.
    ///
    /// When it does not end in time, `release` frees the plugins that it waits for, so that the test ends too, with an
    /// error.
    func untilEnd(
        of running: Task<Void, any Error>,
        sourceLine: Int = #line,
        release: () -> Void
    ) async throws {
        let ended = Mutex(false)
        async let end: Void = {
            defer { ended.withLock { $0 = true } }
            try await running.value
        }()
        do {
            try await until(sourceLine: sourceLine) {
                time.advance(by: .seconds(1))
                return ended.withLock { $0 }
            }
        } catch {
            while !ended.withLock({ $0 }) {
                release()
                time.advance(by: .seconds(1))
                await Task.yield()
            }
            throw error
        }
        try await end
    }

    /// Does something that may wait on the rig's clock, which moves meanwhile.
    func withTimeGoing<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                await self.letTimeGo()
                return nil
            }
            defer { group.cancelAll() }
            while let ended = try await group.next() {
                if let value = ended { return value }
            }
            throw CancellationError()
        }
    }

    /// Moves the rig's clock on until the task is cancelled.
    private func letTimeGo() async {
        try? await eventually("the task is cancelled", within: .seconds(600), every: .milliseconds(1)) {
            time.advance(by: .milliseconds(10))
            return Task.isCancelled
        }
    }

    /// Registers a device with tokens, now or earlier.
    func register(
        _ id: String,
        _ tokens: [(String, TokenService)],
        locale: String? = nil,
        ago: TimeInterval = 0,
        lastSeen: Date? = nil
    ) async throws {
        let at = time.now.addingTimeInterval(-ago)
        let registered = tokens.map { RegisteredToken(DeviceToken($0.0, service: $0.1), registeredAt: at) }
        _ = try await store.put([Device(id: id, tokens: registered, locale: locale, createdAt: at, lastSeen: lastSeen)])
    }

    /// Everything that the store's files hold, to see whether something was written.
    func fileContents() throws -> [Data] {
        try ["test.db", "test.db-wal"].map { try Data(contentsOf: folder.appending(path: $0)) }
    }

    /// The types of the events so far.
    func eventTypes() async throws -> [String] {
        let events = try await store.events(after: 0, limit: 10_000, wait: .zero)
        return try events.compactMap { try JSONValue(parsing: $0.json)["type"]?.stringValue }
    }

    /// The attempt log of a notification's first delivery.
    func attemptLog(_ id: NotificationID) async throws -> [JSONValue] {
        let delivery = try await store.deliveries(of: id, after: nil, limit: 1).first
        let text = "[" + String(decoding: delivery?.attemptLog ?? [], as: UTF8.self) + "]"
        return try JSONValue(parsing: Array(text.utf8)).arrayValue ?? []
    }
}
