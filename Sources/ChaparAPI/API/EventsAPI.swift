internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The endpoint that opens event streams.
///
/// The route `/v1/events` calls it. It checks the parameters, takes one of the key's places and finds where the stream
/// begins; ``EventStream`` writes the events, as long as the client reads and its key is valid.
package struct EventsAPI: Sendable {
    let state: GatewayState
    let snapshots: APISnapshots
    let workers: any WorkerObserver
    let metrics: GatewayMetrics
    let admission: Admission
    let build: BuildInfo

    /// Creates the endpoint; `admission` limits the streams that are open.
    package init(
        state: GatewayState,
        snapshots: APISnapshots,
        workers: any WorkerObserver,
        metrics: GatewayMetrics,
        admission: Admission,
        build: BuildInfo
    ) {
        self.state = state
        self.snapshots = snapshots
        self.workers = workers
        self.metrics = metrics
        self.admission = admission
        self.build = build
    }

    /// The most past events that the parameter `last` can ask for.
    private static let furthestLast = 10_000

    /// Answers a request; without a number the stream begins with events from now on.
    package func open(_ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["after", "last", "types", "workers"], renamed: [.workers])
        guard !state.isDraining else { throw .draining }
        let filter = try EventFilter(scope.parameter("types"))
        let resumed = try Self.position(scope)
        let last = Int64(try scope.number("last", in: 0...Self.furthestLast, default: 0))
        let slot = try StreamSlot(admission, scope.caller, limit: scope.snapshot.limits.streamsPerKey)
        let after = try await position(after: resumed, last: last)
        let parameter = try scope.nameInUse(.workers)
        let includesWorkers = try scope.number(parameter, in: 0...1, default: 0) == 1
        let workers: (@Sendable (Caller) async -> [UInt8])? =
            includesWorkers ? { @Sendable in await workersEvent($0) } : nil
        let stream = EventStream(
            state: state,
            filter: filter,
            caller: scope.caller,
            authorize: { [snapshots, time = state.time] in
                let key = scope.fields[.authorization]
                return try? snapshots.current.keyring.admit(key, .scope(.read), at: time.reading)
            },
            after: after,
            isResumed: resumed != nil,
            workers: workers,
            slot: slot
        )
        return Response(
            status: .ok,
            headers: [
                .contentType: "text/event-stream", .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
            ],
            body: ResponseBody { writer in try await stream.run(&writer) }
        )
    }

    /// Returns the number above which a stream sends events: the last number that the client has, or the number of the
    /// newest event less `last`.
    package func position(after number: Int64?, last: Int64 = 0) async throws(Problem) -> Int64 {
        guard !state.isDraining else { throw .draining }
        if let number { return number }
        do throws(StoreError) {
            return max(0, try await state.store.lastEvent().subtracting(clamping: last))
        } catch {
            throw Problem(error)
        }
    }

    /// Returns the number after which the client continues: from the field that browsers send, or else from the
    /// parameter.
    ///
    /// The numbers of events go up to the number of the highest id.
    private static func position(_ scope: RequestScope) throws(Problem) -> Int64? {
        if let field = scope.fields[.lastEventID], !field.isEmpty {
            guard let number = Int64(field), (0...NotificationID.highest).contains(number) else {
                throw .badParameter("Last-Event-ID", "must be the id of an event of this stream.")
            }
            return number
        }
        guard scope.parameter("after") != nil else { return nil }
        return Int64(try scope.number("after", in: 0...Int(NotificationID.highest), default: 0))
    }

    private func workersEvent(_ caller: Caller) async -> [UInt8] {
        var depths: [String: QueueDepth] = [:]
        do throws(StoreError) {
            depths = try await state.store.depths()
        } catch {
            // The event has what is known; `/readyz` shows that the store fails.
        }
        var writer = JSONWriter(capacity: 1024)
        writer.beginObject()
        writer.field("type", "gateway.lanes")
        writer.name("at")
        RFC3339.write(state.time.now, to: &writer)
        writer.field("version", build.version)
        writer.name("started_at")
        RFC3339.write(state.startedAt, to: &writer)
        let operations = (try? await state.devices.outboxDepths()) ?? [:]
        let expiries = snapshots.current.credentialExpiries(for: caller)
        BackendsAnswer(
            state,
            workers,
            depths: depths,
            operations: operations,
            expiries: expiries,
            nodes: (try? await state.storeNodes()) ?? nil,
            for: caller
        ).write(to: &writer, workersAs: [.former])
        let totals = metrics.ledger.totals
        writer.name("totals")
        writer.beginObject()
        writer.field("accepted", totals.accepted)
        for state in DeliveryState.allCases where state.isFinal {
            writer.name(state.rawValue)
            writer.integer(totals.ended[state] ?? 0)
        }
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }
}
