public import Hummingbird
internal import HTTPTypes
internal import Logging
internal import PushCore
internal import Synchronization

/// Nothing: requests are handled without Hummingbird's own context, which the hot path would pay for.
public struct GatewayRequestContext: InitializableFromSource {
    init() {}

    /// Makes it.
    public init(source: ApplicationRequestContextSource) {}
}

/// Answers every request of the API: finds the endpoint, checks who asks, bounds what is in progress, counts.
public final class GatewayResponder: HTTPResponder {
    /// What Hummingbird gives along with a request.
    public typealias Context = GatewayRequestContext

    private let state: GatewayState
    private let metrics: GatewayMetrics
    private let logger: Logger
    private let knownKinds: [String]
    private let admission = Admission()
    private let notifications: NotificationsAPI
    private let batches: BatchAPI
    private let stories: StoryAPI
    private let devices: DevicesAPI
    private let deviceBatches: DeviceBatchAPI
    private let events: EventsAPI
    private let operations: OperationsAPI
    private let receipts: ReceiptsAPI
    private let invalidations: InvalidationsAPI
    private let documents: StaticDocuments
    private let derived: Mutex<APISnapshot>

    init(
        state: GatewayState,
        lanes: any LaneObserver,
        metrics: GatewayMetrics,
        knownKinds: [String],
        build: BuildInfo,
        logger: Logger
    ) {
        self.state = state
        self.metrics = metrics
        self.logger = logger
        self.knownKinds = knownKinds
        notifications = NotificationsAPI(state: state, metrics: metrics, admission: admission)
        batches = BatchAPI(state: state, metrics: metrics, admission: admission)
        stories = StoryAPI(state: state)
        devices = DevicesAPI(state: state, admission: admission)
        deviceBatches = DeviceBatchAPI(state: state, admission: admission)
        events = EventsAPI(state: state, lanes: lanes, metrics: metrics, admission: admission, build: build)
        operations = OperationsAPI(
            state: state,
            lanes: lanes,
            metrics: metrics,
            admission: admission,
            build: build
        )
        receipts = ReceiptsAPI(state: state, lanes: lanes, admission: admission, logger: logger)
        invalidations = InvalidationsAPI(state: state, lanes: lanes, admission: admission)
        documents = StaticDocuments(build: build)
        derived = Mutex(APISnapshot(state.snapshot, knownKinds: knownKinds))
    }

    /// Answers a request; never throws.
    public func respond(to request: Request, context: GatewayRequestContext) async throws -> Response {
        let start = ContinuousClock.now
        let target = request.head.path ?? "/"
        let path = target.prefix { $0 != "?" }
        let query = target.dropFirst(path.count + 1)
        let endpoint = Endpoint(path)
        var response: Response
        do throws(Problem) {
            response = try await answer(request, endpoint, path, query)
        } catch {
            response = refuse(error, path)
        }
        if request.method == .head { response = response.createHeadResponse() }
        metrics.request(
            route: endpoint?.pattern ?? "other",
            method: Self.word(for: request.method),
            status: response.status.code,
            duration: start.duration(to: .now)
        )
        return response
    }

    private func answer(
        _ request: Request,
        _ endpoint: Endpoint?,
        _ path: Substring,
        _ query: Substring
    ) async throws(Problem) -> Response {
        let snapshot = snapshot()
        let method = request.method
        // A path that does not exist asks for a key like one that does: strangers learn nothing.
        let access = endpoint?.access(method) ?? .anyKey
        if access != .open, snapshot.keyring.isEmpty { try snapshot.origins.admit(request.head) }
        let caller = try snapshot.keyring.admit(request.headers[.authorization], access)
        guard let endpoint else { throw .notFound("There is nothing here. /openapi.json lists what there is.") }
        guard endpoint.methods.contains(method) else {
            throw .methodNotAllowed(endpoint.methods.map(\.rawValue).joined(separator: ", "))
        }
        switch endpoint {
        case .health: return operations.health()
        case .readiness: return await operations.readiness()
        default: break
        }
        try admission.enter(limit: snapshot.server.maximumRequests)
        defer { admission.leave() }
        let scope = RequestScope(
            snapshot: snapshot,
            caller: caller,
            path: path,
            query: query,
            fields: request.headers
        )
        switch endpoint {
        case .notifications: return try await notifications.accept(request, scope)
        case .batch: return try await batches.accept(request, scope, Self.requestID())
        case .notification(let id):
            if method == .delete { return try await stories.cancel(id, scope) }
            return try await stories.show(id, scope)
        case .deliveries(let id): return try await stories.deliveries(id, scope)
        case .devices: return try await devices.list(scope)
        case .deviceBatch: return try await deviceBatches.put(request, scope, Self.requestID())
        case .device(let id): return try await devices.answer(request, method, id, scope)
        case .events: return try await events.open(scope)
        case .backends: return try await operations.backends()
        case .receipts(let name): return try await receipts.take(request, name, scope)
        case .invalidations: return try await invalidations.show(scope)
        case .backendInvalidations(let name): return try await invalidations.settle(request, name, scope)
        case .metrics: return await operations.scrape()
        case .openAPI: return documents.describe()
        case .dashboard: return documents.page()
        case .health: return operations.health()
        case .readiness: return await operations.readiness()
        }
    }

    /// What is derived from the configuration in force, made anew after a reload.
    private func snapshot() -> APISnapshot {
        let current = state.snapshot
        return derived.withLock { derived in
            if derived.gateway !== current { derived = APISnapshot(current, knownKinds: knownKinds) }
            return derived
        }
    }

    private func refuse(_ problem: Problem, _ path: Substring) -> Response {
        let id = Self.requestID()
        if let cause = problem.cause {
            logger.error("request failed", metadata: ["request_id": "\(id)", "error": "\(cause)"])
        }
        return problem.response(instance: String(path.prefix(256)), requestID: id)
    }

    private static func requestID() -> String { NotificationID(rawValue: .random(in: 0 ... .max)).description }

    /// A method as a label: callers may invent methods, metrics may not.
    private static func word(for method: HTTPRequest.Method) -> String {
        switch method {
        case .get, .head, .post, .put, .patch, .delete, .options: method.rawValue
        default: "other"
        }
    }
}
