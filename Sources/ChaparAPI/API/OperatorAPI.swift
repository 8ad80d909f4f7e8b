internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The endpoints for operators and their monitoring: health, readiness, metrics, backends, the API's description, the
/// dashboard.
///
/// They read the state of the gateway and the depths of the store, and change nothing.
package struct OperatorAPI: Sendable {
    let state: GatewayState
    let workers: any WorkerObserver
    let metrics: GatewayMetrics
    let admission: Admission
    let build: BuildInfo

    /// Creates the endpoints; `admission` has the load that the metrics show.
    package init(
        state: GatewayState,
        workers: any WorkerObserver,
        metrics: GatewayMetrics,
        admission: Admission,
        build: BuildInfo
    ) {
        self.state = state
        self.workers = workers
        self.metrics = metrics
        self.admission = admission
        self.build = build
    }

    /// Answers that the process runs, without any other check.
    ///
    /// Only callers with a key see the build, which would help an attacker who looks for known vulnerabilities. A
    /// request with a wrong or expired key is answered like one without a key, since a service manager whose probe is
    /// refused would stop the gateway.
    package func health(_ scope: RequestScope) -> Response {
        Response.json { writer in
            writer.field("status", "ok")
            guard scope.caller !== Caller.stranger else { return }
            writer.field("version", build.version)
            writer.field("commit", build.commit)
            writer.field("swift", build.swift)
            writer.name("libraries")
            writer.beginObject()
            for (name, version) in build.libraries.sorted(by: { $0.key < $1.key }) {
                writer.name(name)
                writer.string(version)
            }
            writer.endObject()
        }
    }

    /// Answers whether new work is accepted.
    ///
    /// A failing platform does not change the answer, since the queue keeps its messages. The gateway is not ready when
    /// its queue is full, or when it has no backends. The route needs no key, so the answer has no details: the metrics
    /// and the answers to notifications show the store's failures.
    package func readiness() async -> Response {
        let health = await state.store.health()
        let status =
            if state.isDraining {
                "draining"
            } else if health.isQueueFull {
                "queue_full"
            } else if !health.acceptsWork {
                "store_refuses_work"
            } else if state.snapshot.backends.isEmpty {
                "no_backends"
            } else {
                "ready"
            }
        return Response.json(status == "ready" ? .ok : .serviceUnavailable) { writer in
            writer.field("status", status)
            writer.name("store")
            writer.beginObject()
            writer.field("accepts_work", health.acceptsWork)
            writer.endObject()
        }
    }

    /// Answers with every metric, for Prometheus.
    ///
    /// While the store fails, the metrics of the queues are missing, and a metric says that the store fails. A caller
    /// whose key names an app or backends gets the numbers of these, and of the gateway as a whole.
    package func scrape(_ scope: RequestScope) async -> Response {
        Response(
            status: .ok,
            headers: [.contentType: PrometheusText.contentType, .cacheControl: "no-store"],
            body: ResponseBody(bytes: await metrics(for: scope))
        )
    }

    /// Returns the text of ``scrape(_:)``.
    func metrics(for scope: RequestScope) async -> [UInt8] {
        let snapshot = scope.snapshot
        var depths: [String: QueueDepth]?
        do throws(Problem) {
            depths = try await self.depths()
        } catch {
            depths = nil
        }
        var text = PrometheusText(isShown: scope.caller.maySee(labels:))
        metrics.registry.write(to: &text)
        ScrapedMetrics(
            now: state.clock.reading,
            startedAt: state.startedAt,
            backends: state.snapshot.backends,
            workers: workers.workers,
            depths: depths,
            keys: await keys(),
            operations: try? await state.devices.outboxDepths(),
            unplanned: try? await state.devices.unplannedCount(ofDevice: nil),
            ledger: metrics.ledger,
            store: await state.store.health(),
            load: admission.load,
            certificateNotAfter: snapshot.certificateNotAfter,
            limits: APILimit.allCases.map { ($0.rawValue, snapshot.value(of: $0)) },
            webhooks: (try? await WebhookLevel.all(state.store)) ?? []
        ).write(to: &text)
        return text.bytes
    }

    /// Answers with the backends.
    package func backends(_ scope: RequestScope) async throws(Problem) -> Response {
        let answer = BackendsAnswer(
            state,
            workers,
            depths: try await depths(),
            operations: try await outboxDepths(),
            expiries: scope.snapshot.credentialExpiries(for: scope.caller),
            nodes: try await nodes(),
            for: scope.caller
        )
        return Response.json(capacity: 2048) { answer.write(to: &$0, workersAs: [.current, .former]) }
    }

    private func outboxDepths() async throws(Problem) -> [String: OutboxDepth] {
        do throws(StoreError) {
            return try await state.devices.outboxDepths()
        } catch {
            throw Problem(error)
        }
    }

    private func nodes() async throws(Problem) -> [StoreNode]? {
        do throws(StoreError) {
            return try await state.storeNodes()
        } catch {
            throw Problem(error)
        }
    }

    /// Returns the oldest due time of each API key, those of the configuration and those that have left something.
    private func keys() async -> [String: Date?] {
        guard let found = try? await state.store.depthsBySender() else { return [:] }
        var keys: [String: Date?] = found.compactMapValues(\.oldestDue).mapValues { $0 }
        for key in state.snapshot.configuration.apiKeys where keys[key.name] == nil { keys[key.name] = .some(nil) }
        return keys
    }

    private func depths() async throws(Problem) -> [String: QueueDepth] {
        do throws(StoreError) {
            return try await state.store.depths()
        } catch {
            throw Problem(error)
        }
    }
}
