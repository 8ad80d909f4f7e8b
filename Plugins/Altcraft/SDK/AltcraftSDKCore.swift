internal import Foundation
import Logging
internal import ChaparComposition
import ChaparCore
import ChaparAltcraft
import Synchronization

/// The SDK's state: configuration, backend, providers, waiting requests.
///
/// One actor behind all functions of ``AltcraftSDK``. It owns the chain of token providers, the queue of requests that
/// failed, and the loop that repeats them. The requests themselves are made by ``AltcraftBackend``, which the gateway
/// uses too.
actor AltcraftSDKCore {
    private var http: any HTTPTransport
    private var state: any StateStore
    private var device: DeviceRecord
    private var common: CommonBackendOptions
    private var logger: Logger
    let time: any TimeSource
    let events: EventSDKFunctions
    /// The source of JWTs; it is not isolated to the actor, since it may be set at any time.
    let jwt = Mutex<(any JWTInterface)?>(nil)
    let chain: TokenProviderChain

    private var group = "default"
    private var backend: AltcraftBackend?
    private var queue: AltcraftQueue?
    private var providers: Set<TokenService> = []
    private var isSweeping = false
    private var needsSweep = false
    /// The number of repeats since the last success.
    private var repeats = 0
    private var needsRepeat = false
    /// Whether the next pass repeats a move that Altcraft refused.
    private var repeatsRefused = false
    /// The loop of ``AltcraftBackgroundTasks/registerBackgroundTask()``.
    private var background: Task<Void, Never>?
    /// Signalled when a call left a request to be repeated.
    private let failures = AsyncSignal()

    init(
        http: any HTTPTransport,
        state: any StateStore,
        device: DeviceRecord,
        common: CommonBackendOptions,
        time: any TimeSource,
        logger: Logger,
        events: EventSDKFunctions
    ) {
        self.http = http
        self.state = state
        self.device = device
        self.common = common
        self.time = time
        self.logger = logger
        self.events = events
        chain = TokenProviderChain([], order: AltcraftProviders.defaultOrder)
    }

    // MARK: Setting up

    /// Sets the transport, the store, the device, the options and the log from the next initialization on.
    func connect(
        _ http: any HTTPTransport,
        _ state: any StateStore,
        _ device: DeviceRecord,
        _ common: CommonBackendOptions,
        _ logger: Logger
    ) {
        self.http = http
        self.state = state
        self.device = device
        self.common = common
        self.logger = logger
    }

    func initialize(_ configuration: AltcraftConfiguration?) async -> Bool {
        guard let configuration else {
            events.emit(.error, "initialization()", "the configuration is not given", 401)
            return false
        }
        guard var options = configuration.options(common) else {
            let value: JSONObject = ["url": .string(String(configuration.getApiUrl().prefix(200)))]
            events.emit(.error, "initialization()", "the address is none", 571, value)
            return false
        }
        let queue = queueOfGroup
        do {
            try await recordRole(configuration.getRToken(), queue)
            options.providerPriority = try await order(of: configuration)
            let order = options.providerPriority
            let events = events
            let made = try AltcraftBackend(
                options: options,
                auth: AltcraftAuth(rToken: configuration.getRToken(), source: jwtSource, time: time),
                context: context
            ) { events.deliver($0) }
            await backend?.shutdown(grace: .zero)
            backend = made
            self.queue = queue
            try await setOrder(order)
        } catch {
            events.emit(.error, "initialization()", "the configuration cannot be kept or used: \(error)", 403)
            return false
        }
        events.emit(.info, "initialization()", "the configuration is installed", 200)
        repeats = 0
        if await hasTokenSource() {
            repeatsRefused = true
            await sweep()
            if needsRepeat { failures.signal() }
        }
        return true
    }

    private var queueOfGroup: AltcraftQueue { AltcraftQueue(state, name: "altcraft-sdk/\(group)/queue") }

    private var context: BackendContext {
        BackendContext(name: "sdk-\(group)", http: http, time: time, state: state, logger: logger)
    }

    /// Returns the order of services: the configuration's, else the order that was set last.
    private func order(of configuration: AltcraftConfiguration) async throws -> [TokenService] {
        if let own = configuration.priority {
            try await state.saveState(priorityName, nil)
            return own
        }
        let kept = try await state.loadState(priorityName).map { String(decoding: $0, as: UTF8.self) } ?? ""
        return (try? AltcraftProviders.order(kept.split(separator: ",").map(String.init)))
            ?? AltcraftProviders.defaultOrder
    }

    private var priorityName: String { "altcraft-sdk/\(group)/priority" }

    /// Stores an order until a configuration names another.
    func keepOrder(_ order: [TokenService]) async throws(StoreError) {
        try await state.saveState(priorityName, Array(order.map(\.rawValue).joined(separator: ",").utf8))
    }

    /// Removes the waiting changes when the role token differs from the last one, since they belong to another role.
    private func recordRole(_ token: Secret?, _ queue: AltcraftQueue) async throws {
        guard let role = token.map({ AltcraftMatching.hash($0.reveal()) }) else { return }
        let name = "altcraft-sdk/\(group)/role"
        if let old = try await state.loadState(name), old != Array(role.utf8) {
            try await queue.clear(onlyChanges: true)
        }
        try await state.saveState(name, Array(role.utf8))
    }

    private nonisolated var jwtSource: AltcraftClosureTokens {
        AltcraftClosureTokens { [weak self] _ in self?.jwt.withLock { $0 }?.getToken() }
    }

    func setGroup(_ name: String?) {
        guard let name, !name.allSatisfy(\.isWhitespace) else {
            return events.emit(.error, "setAppGroup()", "the app group is not set", 405)
        }
        group = name
    }

    func setDevice(_ device: DeviceRecord) { self.device = device }

    func setProvider(_ provider: any TokenProvider) async {
        providers.insert(provider.service)
        await chain.setProvider(provider)
    }

    func removeProvider(of service: TokenService) async {
        providers.remove(service)
        await chain.removeProvider(of: service)
    }

    /// Sets the order in which providers are asked.
    ///
    /// For services without a provider here the backend applies the order.
    func setOrder(_ order: [TokenService]) async throws(PushError) {
        let known = order.filter { TokenService.known.contains($0) }
        if !known.isEmpty { try await chain.setOrder(known) }
    }

    /// Forgets all state of the group, also that of earlier processes, and also before the initialization.
    func clear() async {
        do {
            try await (queue ?? queueOfGroup).clear()
            try await state.saveState("altcraft-sdk/\(group)/role", nil)
            try await state.saveState(priorityName, nil)
            if let backend {
                try await backend.forget(device: device.id)
            } else {
                try await AltcraftStore(context).forget(device.id)
                events.emit(.info, "clear()", "the data is cleared", 205)
            }
        } catch {
            events.emit(.error, "clear()", "the store failed", 403)
        }
        await backend?.shutdown(grace: .zero)
        (backend, queue, repeats, needsRepeat) = (nil, nil, 0, false)
    }

    /// Runs a loop until ``shutdown(_:)``; does nothing if one runs already.
    func runInBackground(_ body: @escaping @Sendable () async -> Void) {
        // Unstructured, since the SDK's call returns at once; the end is awaited in `shutdown`.
        if background == nil { background = Task { await body() } }
    }

    func shutdown(_ grace: Duration) async {
        background?.cancel()
        await background?.value
        background = nil
        await chain.shutdown(grace: grace)
        await backend?.shutdown(grace: grace)
    }

    // MARK: Backend and device

    /// Returns the backend; nil after event 501.
    func ready(_ function: String) -> AltcraftBackend? {
        if backend == nil { events.emit(.error, function, "there is no configuration", 501) }
        return backend
    }

    /// Returns the device with the token that its providers give now.
    func record() async -> DeviceRecord {
        var record = device
        record.token = await chain.token()
        return record
    }

    private func hasTokenSource() async -> Bool {
        if !providers.isEmpty { return true }
        return await pushToken() != nil
    }

    // MARK: Tokens

    /// Returns the current token, also before the initialization.
    func pushToken() async -> TokenData? {
        let record = await record()
        if let backend { return try? await backend.mobile.pushToken(of: record) }  // A store that fails has no token.
        let store = AltcraftStore(context)
        let events = events
        guard let kept = try? await store.load(device.id) else { return nil }
        let token = try? await store.token(of: record, kept, order: chain.order) { token in
            let shown = Fingerprint.of(token.value)
            let sentence = "push provider set: \(token.service). token: \(shown)"
            let value: JSONObject = ["provider": .string(token.service.rawValue), "token": .string(shown)]
            events.emit(.info, "pushProviderSet()", sentence, 201, value)
        }
        return token.flatMap { $0 }.map { TokenData(provider: $0.service.rawValue, token: $0.value) }
    }

    /// Sets a token by hand, also before the initialization; a mistake emits an event.
    func setPushToken(_ token: String, provider: String) async {
        guard !token.isEmpty else { return }
        do throws(AltcraftFault) {
            let service = try AltcraftProviders.service(provider)
            do throws(PushError) {
                if let backend {
                    try await backend.mobile.setPushToken(token, provider: provider, of: device.id)
                } else {
                    try await AltcraftStore(context).edit(device.id) {
                        $0.manual = DeviceToken(token, service: service)
                    }
                }
            } catch {
                events.emit(.error, "setPushToken()", error.message, 403)
            }
        } catch {
            events.emit(.error, "setPushToken()", error.message, error.code, error.value)
        }
    }

    /// Makes a pass that also repeats a move that Altcraft refused before.
    func sweepAnew() async {
        repeatsRefused = true
        await sweep()
    }

    // MARK: The queue

    /// Returns the number of waiting requests, of all profiles.
    func waiting() async throws(StoreError) -> Int { try await queue?.count() ?? 0 }

    /// Stores a row, sends waiting rows, and returns the answer to this one; nil when there was none.
    func submit(_ kind: String, _ body: JSONObject, _ function: String) async -> ResponseWithHttp? {
        guard let backend = ready(function), let queue else { return nil }
        do throws(PushError) {
            let tag = try await backend.mobile.userTag(of: device)
            let row = AltcraftQueue.Row(id: UUID(), at: time.now, tag: tag, kind: kind, body: body)
            do throws(StoreError) {
                try await queue.add(row)
            } catch {
                events.emit(.error, function, "the request cannot be kept: \(error)", 403)
                return nil
            }
            repeats = 0
            let answer = await sweep()[row.id]
            if needsRepeat { failures.signal() }
            return answer
        } catch {
            return nil  // The event has been emitted; nothing is kept.
        }
    }

    /// Sends waiting requests in the order token, changes, events; one pass at a time.
    ///
    /// - Returns: The answers by row; empty for a call during another pass, which then runs once more.
    @discardableResult
    func sweep() async -> [UUID: ResponseWithHttp] {
        guard !isSweeping else {
            needsSweep = true
            return [:]
        }
        isSweeping = true
        defer { isSweeping = false }
        var answers: [UUID: ResponseWithHttp] = [:]
        repeat {
            needsSweep = false
            needsRepeat = false
            await pass(&answers)
        } while needsSweep
        return answers
    }

    private func pass(_ answers: inout [UUID: ResponseWithHttp]) async {
        guard let backend, let queue else { return }
        let record = await record()
        let tag: String
        let rows: [AltcraftQueue.Row]
        do {
            guard try await queue.count() > 0 || record.token != nil else { return }
            tag = try await backend.mobile.userTag(of: record, isQueue: true)
            rows = try await queue.rows(of: tag)
        } catch {
            return  // Rows stay; the event has been emitted.
        }
        if record.token != nil {
            let isAnew = repeatsRefused
            repeatsRefused = false
            do throws(PushError) {
                let attempt = OutboxAttempt(at: time.now)
                _ = try await backend.mobile.updateToken(of: record, as: attempt, repeatsRefused: isAnew)
            } catch {
                if error.code != .invalidRequest { needsRepeat = true }
            }
        }
        var isHeld = false
        for row in rows where row.status != nil && !isHeld {
            isHeld = !(await send(row, backend, queue, record, &answers))
        }
        for row in rows where row.event != nil { _ = await send(row, backend, queue, record, &answers) }
    }

    /// Sends a row; returns false when it has to wait.
    private func send(
        _ row: AltcraftQueue.Row,
        _ backend: AltcraftBackend,
        _ queue: AltcraftQueue,
        _ record: DeviceRecord,
        _ answers: inout [UUID: ResponseWithHttp]
    ) async -> Bool {
        let attempt = OutboxAttempt(id: row.id, at: row.at, number: row.attempts + 1)
        var isOver = true
        do throws(PushError) {
            if let status = row.status {
                let change = SubscriptionChange(status, options: row.body)
                answers[row.id] = try await backend.mobile.subscription(change, of: record, as: attempt)
            } else if let event = row.event, let uid = row.body["uid"]?.stringValue {
                answers[row.id] = try await backend.mobile.report(event, uid: uid, of: record, as: attempt)
            }
        } catch {
            let isPassing = error.code == .unavailable || error.code == .badAnswer
            isOver = !isPassing || attempt.number >= backend.operationPolicy.maximumAttempts
        }
        do throws(StoreError) {
            if isOver { try await queue.remove(row.id) } else { try await queue.countTry(row.id) }
        } catch {
            events.emit(.error, "queue()", "the store failed: \(error)", 403)
        }
        if !isOver { needsRepeat = true }
        return isOver
    }

    // MARK: In the background

    /// Waits for the next pass: the pause after a failure, or the periodic one; returns false when cancelled.
    func waitForWork() async -> Bool {
        while !Task.isCancelled {
            let mark = failures.mark  // Earlier signals are in `needsRepeat` already.
            await failures.wait(after: mark, atMost: nextPause(), time)
            let isDue = failures.mark == mark && !Task.isCancelled
            if isDue {
                repeats = needsRepeat ? repeats + 1 : 0
                return true
            }
        }
        return false
    }

    private func nextPause() -> Duration {
        guard needsRepeat, repeats < AltcraftOptions.sdkDelays.count else {
            repeats = 0
            needsRepeat = false
            return .seconds(10_800)
        }
        return AltcraftOptions.sdkDelays[repeats]
    }
}
