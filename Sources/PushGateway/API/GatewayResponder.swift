public import Hummingbird
internal import HTTPTypes
internal import Logging
internal import PushCore

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
    private let admission = Admission()
    private let notifications: NotificationsAPI
    private let batches: BatchAPI
    private let stories: StoryAPI
    private let devices: DevicesAPI
    private let deviceBatches: DeviceBatchAPI
    private let subscriptions: SubscriptionAPI
    private let deviceEvents: DeviceEventsAPI
    private let switches: UserSwitchAPI
    private let events: EventsAPI
    private let operations: OperationsAPI
    private let receipts: ReceiptsAPI
    private let clicks: ClicksAPI
    private let modules: ModulesAPI
    private let invalidations: InvalidationsAPI
    private let goneBackends: GoneBackendsAPI
    private let documents: StaticDocuments
    private let snapshots: APISnapshots
    /// The short way of requests that accept notifications.
    let intake: LoopIntake

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
        notifications = NotificationsAPI(state: state, metrics: metrics, admission: admission)
        batches = BatchAPI(state: state, metrics: metrics, admission: admission)
        stories = StoryAPI(state: state)
        devices = DevicesAPI(state: state, admission: admission)
        deviceBatches = DeviceBatchAPI(state: state, admission: admission)
        let door = TellingDoor(state: state, admission: admission)
        subscriptions = SubscriptionAPI(door: door)
        deviceEvents = DeviceEventsAPI(door: door)
        switches = UserSwitchAPI(door: door)
        events = EventsAPI(state: state, lanes: lanes, metrics: metrics, admission: admission, build: build)
        operations = OperationsAPI(
            state: state,
            lanes: lanes,
            metrics: metrics,
            admission: admission,
            build: build
        )
        receipts = ReceiptsAPI(state: state, lanes: lanes, admission: admission, logger: logger)
        clicks = ClicksAPI(door: door)
        modules = ModulesAPI(notifications: notifications)
        invalidations = InvalidationsAPI(state: state, lanes: lanes, admission: admission)
        goneBackends = GoneBackendsAPI(state: state, lanes: lanes, admission: admission)
        documents = StaticDocuments(build: build)
        snapshots = APISnapshots(state, knownKinds: knownKinds)
        intake = LoopIntake(
            state: state,
            snapshots: snapshots,
            metrics: metrics,
            admission: admission,
            notifications: notifications,
            batches: batches,
            logger: logger
        )
    }

    /// The memory that is set aside for the bodies of requests in progress, in bytes.
    var bodyBytes: Int { admission.reservedBytes }

    /// Requests in progress and event streams that are open.
    var load: (requests: Int, streams: Int) { admission.load }

    /// Answers a request; never throws.
    public func respond(to request: Request, context: GatewayRequestContext) async throws -> Response {
        let start = ContinuousClock.now
        let target = request.head.path ?? "/"
        let path = target.prefix { $0 != "?" }
        let query = target.dropFirst(path.count + 1)
        let snapshot = snapshots.current
        let endpoint = Endpoint(path) ?? snapshot.gateway.moduleEndpoint(path)
        var response: Response
        do throws(Problem) {
            response = try await answer(request, endpoint, path, query, snapshot)
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
        _ query: Substring,
        _ snapshot: APISnapshot
    ) async throws(Problem) -> Response {
        let method = request.method
        // A path that does not exist asks for a key like one that does: strangers learn nothing.
        let access = endpoint?.access(method) ?? .anyKey
        let caller = try snapshot.admit(CallerFields(request.head), access)
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
        case .batch: return try await batches.accept(request, scope)
        case .notification(let id):
            if method == .delete { return try await stories.cancel(id, scope) }
            return try await stories.show(id, scope)
        case .deliveries(let id): return try await stories.deliveries(id, scope)
        case .devices: return try await devices.list(scope)
        case .deviceBatch: return try await deviceBatches.put(request, scope, Problem.newRequestID())
        case .device(let id): return try await devices.answer(request, method, id, scope)
        case .subscription(let id): return try await subscriptions.answer(request, method, id, scope)
        case .deviceTags(let id): return try await subscriptions.edit(request, id, scope)
        case .deviceOperations(let id): return try await subscriptions.list(id, scope)
        case .deviceEvents(let id): return try await deviceEvents.take(request, id, scope)
        case .userSwitch(let id): return try await switches.change(request, id, scope)
        case .clear(let name): return try await switches.clear(request, name, scope)
        case .events: return try await events.open(scope)
        case .backends: return try await operations.backends()
        case .receipts(let name): return try await receipts.take(request, name, scope)
        case .webhook(let name, let secret):
            return try await receipts.take(request, name, secret: Secret(TellingDoor.decoded(secret)), scope)
        case .clicks(let name): return try await clicks.take(request, name, scope)
        case .module(let number, _): return try await modules.answer(request, number, scope)
        case .invalidations: return try await invalidations.show(scope)
        case .backendInvalidations(let name): return try await invalidations.settle(request, name, scope)
        case .backendMove(let name): return try await goneBackends.move(request, name, scope)
        case .backendDrop(let name): return try await goneBackends.drop(request, name, scope)
        case .metrics: return await operations.scrape()
        case .openAPI: return documents.describe()
        case .dashboard: return documents.page()
        case .health: return operations.health()
        case .readiness: return await operations.readiness()
        }
    }

    private func refuse(_ problem: Problem, _ path: Substring) -> Response {
        let (fields, body) = problem.answer(path: path, logger)
        return Response(status: problem.status, headers: fields, body: ResponseBody(bytes: body))
    }

    /// A method as a label: callers may invent methods, metrics may not.
    private static func word(for method: HTTPRequest.Method) -> String {
        switch method {
        case .get, .head, .post, .put, .patch, .delete, .options: method.rawValue
        default: "other"
        }
    }
}

extension Problem {
    /// The answer to a request for a path; what failed within goes to the log.
    func answer(path: Substring, _ logger: Logger) -> (fields: HTTPFields, body: [UInt8]) {
        let id = Self.newRequestID()
        if let cause {
            logger.error("request failed", metadata: ["request_id": "\(id)", "error": "\(cause)"])
        }
        return answer(instance: String(path.prefix(256)), requestID: id)
    }
}
