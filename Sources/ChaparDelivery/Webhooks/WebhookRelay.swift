package import Foundation
package import Logging
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// The sender of webhooks: a worker for each endpoint whose lease this gateway gets.
///
/// ``Gateway`` owns it and awaits ``run()``; workers are its child tasks. Without an endpoint it reads the list of
/// endpoints once, and again when a request changes it; where gateways share a store, twice a minute. The API calls it
/// for what needs the network: checks of addresses, and tests.
package final class WebhookRelay: Sendable {
    /// The topic of the note to other gateways after a change.
    private static let topic = "webhooks"
    /// The interval at which a gateway looks for endpoints that others added, or whose lease is over.
    private static let round = Duration.seconds(10)
    private static let idleRound = Duration.seconds(30)
    /// The pause, in seconds, before a worker is started again that failed or did not get the lease.
    private static let restart: TimeInterval = 5
    private static let retake: TimeInterval = 10
    /// The number of old messages that are removed at a time.
    private static let purgeBatch = 500

    /// The state, the stores and the client; nil for a store that keeps no endpoints.
    private let tools: WebhookTools?
    private let signal = AsyncSignal()
    private let stopped = Atomic(false)
    /// Whether the configuration's endpoint is to be looked at.
    private let reread = Atomic(true)
    private let controls = Mutex<[String: WebhookWorkerControl]>([:])

    /// Makes the sender of a gateway.
    ///
    /// - Parameters:
    ///   - state: The state of the gateway, with its store.
    ///   - credentials: The store of the endpoints' keys; nil keeps them in the gateway's store as they are.
    ///   - metrics: Counts attempts.
    ///   - logger: Logs failures.
    ///   - transport: Sends requests; nil uses the network.
    ///   - deadline: The time for an attempt.
    ///   - resolve: Finds the addresses of a host.
    package init(
        state: GatewayState,
        credentials: (any StateStore)? = nil,
        metrics: GatewayMetrics,
        logger: Logger,
        transport: (any WebhookTransport)? = nil,
        deadline: Duration = WebhookClient.deadline,
        resolve: @escaping WebhookClient.Resolver = WebhookClient.systemResolver
    ) {
        let abilities = state.store.abilities
        tools = abilities.webhooks.map { store in
            WebhookTools(
                state: state,
                store: store,
                credentials: credentials ?? state.store,
                metrics: metrics,
                logger: logger,
                transport: transport,
                deadline: deadline,
                resolve: resolve
            )
        }
        abilities.nodes?.hear { [signal] note in if note.topic == Self.topic { signal.signal() } }
    }

    // MARK: The run

    private enum Happening: Sendable {
        case ended(String, revision: Int64, WebhookWorker.Ending)
        case woken
    }

    /// An endpoint that this gateway may send to.
    private struct Place {
        var revision: Int64
        /// The control of the running worker; nil while none runs.
        var control: WebhookWorkerControl?
        /// The steady time before which no worker is started.
        var notBefore = Date.distantPast
    }

    /// Sends until ``stop()``; ends at once for a store without endpoints.
    package func run() async {
        guard let tools else { return }
        await withTaskGroup(of: Happening.self) { group in
            var places: [String: Place] = [:]
            var isWaiting = false
            var purgedAt = Date.distantPast
            while !isStopped {
                let mark = signal.mark
                if reread.exchange(false, ordering: .acquiringAndReleasing) { await makeFeedback(tools) }
                let now = tools.state.time.steady
                let endpoints = await endpoints(tools)
                if let endpoints { await place(endpoints, &places, &group, now, tools) }
                if !places.isEmpty, now.timeIntervalSince(purgedAt) > 60 {
                    purgedAt = now
                    await purge(now, tools)
                }
                if !isWaiting {
                    isWaiting = true
                    wait(&group, after: mark, places, hasFailed: endpoints == nil, tools)
                }
                guard let happening = await group.next() else { break }
                switch happening {
                case .woken: isWaiting = false
                case .ended(let name, let revision, let ending):
                    finish(name, revision, ending, &places, tools.state.time.steady)
                }
            }
            group.cancelAll()
            for await _ in group {}
        }
        controls.withLock { $0.removeAll() }
    }

    /// Ends ``run()``: requests in progress are cancelled, and sent again by the next start with the same ids.
    package func stop() {
        stopped.store(true, ordering: .releasing)
        signal.signal()
    }

    /// Takes a configuration into force that has just replaced another one.
    package func reload() {
        reread.store(true, ordering: .releasing)
        signal.signal()
    }

    private var isStopped: Bool { stopped.load(ordering: .acquiring) || Task.isCancelled }

    private func endpoints(_ tools: WebhookTools) async -> [StoredWebhook]? {
        do throws(StoreError) {
            return try await tools.store.webhooks()
        } catch {
            if error == .closed { stop() }
            return nil
        }
    }

    /// Starts workers of new endpoints, and retires those of changed and removed ones.
    private func place(
        _ endpoints: [StoredWebhook],
        _ places: inout [String: Place],
        _ group: inout TaskGroup<Happening>,
        _ now: Date,
        _ tools: WebhookTools
    ) async {
        let names = Set(endpoints.map(\.name))
        for (name, place) in places where !names.contains(name) {
            place.control?.retire()
            if place.control == nil { places[name] = nil }
        }
        for endpoint in endpoints {
            if let place = places[endpoint.name], let control = place.control {
                if place.revision != endpoint.revision { control.retire() }
                continue
            }
            if let place = places[endpoint.name], place.revision == endpoint.revision, place.notBefore > now {
                continue
            }
            let secrets: WebhookSecrets?
            do throws(StoreError) {
                secrets = try await tools.secrets(of: endpoint.name)
            } catch {
                tools.logger.unlessCancelled?.error(
                    "the keys of a webhook cannot be read",
                    metadata: ["webhook": "\(endpoint.name)", "error": "\(error)"]
                )
                secrets = nil
            }
            let control = WebhookWorkerControl()
            var place = Place(revision: endpoint.revision)
            if let worker = WebhookWorker(endpoint, secrets, tools, control) {
                place.control = control
                controls.withLock { $0[endpoint.name] = control }
                group.addTask {
                    var worker = worker
                    return .ended(endpoint.name, revision: endpoint.revision, await worker.run())
                }
            } else {
                place.notBefore = now.addingTimeInterval(Self.restart)
            }
            places[endpoint.name] = place
        }
    }

    private func finish(
        _ name: String,
        _ revision: Int64,
        _ ending: WebhookWorker.Ending,
        _ places: inout [String: Place],
        _ now: Date
    ) {
        _ = controls.withLock { $0.removeValue(forKey: name) }
        guard var place = places[name] else { return }
        place.control = nil
        switch ending {
        case .notHeld: place.notBefore = now.addingTimeInterval(Self.retake)
        case .failed: place.notBefore = now.addingTimeInterval(Self.restart)
        case .disabled: place.notBefore = .distantFuture  // A change has another revision.
        case .ended: place.notBefore = .distantPast
        }
        places[name] = place
        if ending == .notHeld || ending == .failed { signal.signal() }  // The wait may be longer than the pause.
    }

    private func wait(
        _ group: inout TaskGroup<Happening>,
        after mark: AsyncSignal.Mark,
        _ places: [String: Place],
        hasFailed: Bool,
        _ tools: WebhookTools
    ) {
        let isShared = tools.state.store.abilities.nodes != nil
        let isWaitingForLane = places.values.contains { $0.control == nil && $0.notBefore < .distantFuture }
        let span: Duration? =
            hasFailed || isWaitingForLane || isShared && !places.isEmpty
            ? Self.round : isShared ? Self.idleRound : places.isEmpty ? nil : .seconds(60)
        let (signal, time) = (signal, tools.state.time)
        group.addTask {
            if let span { await signal.wait(after: mark, atMost: span, time) } else { await signal.wait(after: mark) }
            return .woken
        }
    }

    /// Removes messages that were given up before the oldest kept event: nothing could send them again.
    private func purge(_ now: Date, _ tools: WebhookTools) async {
        let kept = tools.state.snapshot.configuration.store.eventRetention
        do throws(StoreError) {
            _ = try await tools.store.purgeWebhookMessages(
                before: now.addingTimeInterval(-kept.inSeconds),
                limit: Self.purgeBatch
            )
        } catch {
            tools.logger.unlessCancelled?.warning(
                "old messages of webhooks were not removed",
                metadata: ["error": "\(error)"]
            )
        }
    }

    // MARK: The endpoint of the configuration

    /// The name of the endpoint that `webhooks.feedback_url` makes.
    package static let feedback = "feedback"

    /// Adds the endpoint of the configuration, or gives it another address.
    private func makeFeedback(_ tools: WebhookTools) async {
        let section = tools.state.snapshot.configuration.webhooks
        guard let address = section.feedbackURL else { return }
        do throws(StoreError) {
            let found = try await tools.store.webhooks().first { $0.name == Self.feedback }
            guard found?.app.isEmpty ?? true else {
                tools.logger.error(
                    "webhooks.feedback_url is not used: an app has a webhook of that name. Remove that one, and reload",
                    metadata: ["webhook": .string(Self.feedback), "app": "\(found?.app ?? "")"]
                )
                return
            }
            var settings =
                found.flatMap { WebhookSettings(encoded: $0.settings) }
                ?? WebhookSettings(url: address, createdAt: tools.state.time.now)
            let known = try await tools.secrets(of: Self.feedback)
            let given = section.feedbackSecret.flatMap { WebhookSecret($0) }
            let isCurrent = found != nil && settings.url == address && known != nil
            guard !isCurrent || given.map({ $0.text != known?.all.first?.text }) ?? false else { return }
            settings.url = address
            let secrets = given.map { WebhookSecrets([$0]) } ?? known ?? WebhookSecrets([.make()])
            try await tools.credentials.saveState(WebhookSecrets.stateName(Self.feedback), secrets.encoded)
            let endpoint = StoredWebhook(name: Self.feedback, app: "", settings: settings.encoded)
            _ = try await tools.store.saveWebhook(endpoint, replacing: found?.revision)
        } catch {
            tools.logger.unlessCancelled?.error(
                "the webhook of the configuration was not added",
                metadata: ["error": "\(error)"]
            )
        }
    }

    // MARK: Calls of the API

    /// The store of endpoints; nil when the gateway's store keeps none.
    package var store: (any WebhookStore)? { tools?.store }

    /// Checks the address of an endpoint as each attempt will; nil when it may be used.
    package func mistake(in url: WebhookURL) async -> WebhookURL.Mistake? {
        guard let tools else { return nil }
        return await tools.client.check(url, tools.rule)
    }

    /// Returns the keys of an endpoint.
    package func secrets(of name: String) async throws(StoreError) -> WebhookSecrets? {
        try await tools?.secrets(of: name)
    }

    /// Stores the keys of an endpoint; nil removes them.
    package func save(_ secrets: WebhookSecrets?, of name: String) async throws(StoreError) {
        try await tools?.credentials.saveState(WebhookSecrets.stateName(name), secrets?.encoded)
    }

    /// Lets this gateway and the others use changed endpoints.
    package func changed() {
        signal.signal()
        tools?.state.store.abilities.nodes?.tell(NodeNote(topic: Self.topic, body: []))
    }

    /// Sends a test to an endpoint, signed like every message, once and at once.
    ///
    /// - Returns: The id and the answer; nil when the endpoint has no keys or no address.
    package func test(_ endpoint: StoredWebhook) async throws(StoreError) -> (id: String, answer: WebhookAnswer)? {
        guard let tools, let settings = WebhookSettings(encoded: endpoint.settings),
            let url = try? WebhookURL(settings.url), let secrets = try await tools.secrets(of: endpoint.name)
        else { return nil }
        let now = tools.state.time.now
        let id = "msg_\(settings.tag)_t\(MessageID.random())"
        var writer = JSONWriter(capacity: 160)
        writer.beginObject()
        writer.field("type", WebhookType.test)
        writer.name("timestamp")
        RFC3339.write(now, to: &writer)
        writer.name("data")
        writer.beginObject()
        writer.field("webhook", endpoint.name)
        writer.endObject()
        writer.endObject()
        return (id, await tools.post(id: id, body: writer.bytes, to: url, secrets))
    }

    /// The part of a recovery: how many messages and spans of events are sent again.
    package struct Recovery: Sendable, Hashable {
        package var messages = 0
        package var spans = 0
    }

    /// Sends again what was given up since a time, and what was not queued while the endpoint was disabled.
    package func recover(_ endpoint: StoredWebhook, since: Date) async throws(StoreError) -> Recovery {
        guard let tools else { return Recovery() }
        var recovery = Recovery()
        let now = tools.state.time.steady
        var from = tools.state.time.steady(since)
        while true {
            let failed = try await tools.store.webhookMessages(
                of: endpoint.name,
                .failed,
                at: from,
                limit: Self.purgeBatch
            )
            var kept: [WebhookMessage] = []
            for var message in failed {
                guard var record = WebhookRecord(encoded: message.record) else { continue }
                record.attempts = 0
                record.isRecovering = true
                if record.span != nil {
                    record.since = since.millisecondsSince1970
                    recovery.spans += 1
                } else {
                    recovery.messages += 1
                }
                from = max(from, message.due)
                (message.state, message.due, message.record) = (.open, now, record.encoded)
                kept.append(message)
            }
            guard !kept.isEmpty else { break }
            _ = try await tools.store.changeWebhook(WebhookChange(name: endpoint.name, holder: nil, kept: kept))
        }
        look(at: endpoint.name)
        return recovery
    }

    /// Sends a message again, with its id.
    ///
    /// - Returns: False when there is no such message: the id is not of this endpoint, or it is that of a batch or a
    ///   notification's end that the endpoint has already taken.
    package func replay(_ id: String, of endpoint: StoredWebhook) async throws(StoreError) -> Bool {
        guard let tools, let settings = WebhookSettings(encoded: endpoint.settings) else { return false }
        var message: WebhookMessage
        if let stored = try await tools.store.webhookMessage(id, of: endpoint.name) {
            message = stored
        } else {
            guard let number = WebhookEvent.number(in: id, tag: settings.tag) else { return false }
            let read = try await tools.state.store.events(
                after: number.subtracting(clamping: 1),
                limit: 1,
                wait: .zero
            )
            // An id can be guessed: the endpoint gets none but events of its own app.
            let app = endpoint.app.isEmpty ? nil : AppName(rawValue: endpoint.app)
            var source = WebhookSource(tools, .all, app: app)
            guard let event = read.first, event.number == number,
                try await source.events(of: event).contains(where: { $0.id(settings.tag) == id })
            else { return false }
            let record = WebhookRecord(items: [number])
            message = WebhookMessage(id: id, number: number, state: .open, due: .distantPast, record: record.encoded)
        }
        guard var record = WebhookRecord(encoded: message.record) else { return false }
        record.attempts = 0
        record.isRecovering = true
        (message.state, message.due, message.record) = (.open, tools.state.time.steady, record.encoded)
        _ = try await tools.store.changeWebhook(WebhookChange(name: endpoint.name, holder: nil, kept: [message]))
        look(at: endpoint.name)
        return true
    }

    /// Returns the most that the worker of an endpoint held at once, since the last call: events that are read or in
    /// requests, messages, and the bytes of both; nil while no worker runs here.
    package func takePeak(of name: String) -> (entries: Int, bytes: Int)? {
        controls.withLock { $0[name] }?.takePeak()
    }

    private func look(at name: String) {
        controls.withLock { $0[name] }?.look()
        // A worker of another gateway looks within its renewal.
    }
}
