internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import Logging
internal import ChaparDelivery
package import ChaparAPI
internal import ChaparCore
internal import ChaparQueue

/// The sender of a request: all that is used of Hummingbird's context.
package struct GatewayRequestContext: InitializableFromSource {
    /// The other end of the connection.
    let connected: PeerAddress

    init(connected: PeerAddress = .local) { self.connected = connected }

    /// Makes a context.
    package init(source: ApplicationRequestContextSource) { connected = PeerAddress(source.channel.remoteAddress) }
}

/// The endpoints whose work a program asks for that runs the gateway itself.
package struct OwnEndpoints: Sendable {
    package let statuses: StatusAPI
    package let devices: DevicesAPI
    package let events: EventsAPI
    package let retries: RetryAPI
}

/// The responder to every request of the API: it finds the route, authenticates the caller, limits the requests in
/// progress, and counts.
///
/// Made once by ``GatewayAPI``; Hummingbird calls it for each request that the fast path has not answered. The endpoint
/// of a route does the work: nothing here reads a body.
package final class GatewayResponder: HTTPResponder {
    /// The context that Hummingbird passes with a request.
    package typealias Context = GatewayRequestContext

    private let state: GatewayState
    private let api: APIState
    private let metrics: GatewayMetrics
    private let logger: Logger
    private let limits: RequestLimits
    /// All routes of the API, except those of modules.
    package let table: RouteTable
    package let modules: ModulesAPI
    /// The endpoints whose work the program itself asks for without a request.
    package let own: OwnEndpoints
    package let snapshots: APISnapshots
    /// The fast path of requests that accept notifications.
    let intake: FastIntake

    init(
        state: GatewayState,
        api: APIState,
        workers: any WorkerObserver,
        outbox: OutboxRelay?,
        webhooks: WebhookRelay?,
        metrics: GatewayMetrics,
        knownKinds: [String],
        build: BuildInfo,
        logger: Logger
    ) {
        self.state = state
        self.api = api
        self.metrics = metrics
        self.logger = logger
        snapshots = APISnapshots(state, api, knownKinds: knownKinds)
        let admission = Admission()
        let peers = Peers(connections: state.snapshot.configuration.server.maximumConnections)
        limits = RequestLimits(admission: admission, peers: peers)
        let notifications = NotificationsAPI(state: state, metrics: metrics, admission: admission)
        let batches = BatchAPI(state: state, metrics: metrics, admission: admission)
        let handlers = Handlers(
            notifications: notifications,
            batches: batches,
            state: state,
            api: api,
            snapshots: snapshots,
            workers: workers,
            outbox: outbox,
            webhooks: webhooks,
            metrics: metrics,
            admission: admission,
            peers: peers,
            build: build,
            logger: logger
        )
        table = RouteTable(handlers, build: build)
        modules = ModulesAPI(notifications: notifications, batches: batches, operators: handlers.operators)
        own = OwnEndpoints(
            statuses: handlers.statuses,
            devices: handlers.devices,
            events: handlers.events,
            retries: handlers.retries
        )
        intake = FastIntake(
            state: state,
            api: api,
            snapshots: snapshots,
            metrics: metrics,
            limits: limits,
            notifications: notifications,
            batches: batches,
            logger: logger
        )
    }

    /// The memory that is reserved for the bodies of requests in progress, in bytes.
    var bodyBytes: Int { limits.admission.reservedBytes }

    /// The number of requests in progress and of open event streams.
    var load: (requests: Int, streams: Int) { limits.admission.load }

    /// The number of peers with connections, the most connections of one peer, and all connections.
    var peerLoad: (peers: Int, most: Int, total: Int) { limits.peers.load }

    /// Answers a request; never throws.
    package func respond(to request: Request, context: GatewayRequestContext) async throws -> Response {
        let start = ContinuousClock.now
        let target = request.head.path ?? "/"
        let path = target.prefix { $0 != "?" }
        let snapshot = snapshots.current
        let match = table.find(path) ?? modules.find(path, snapshot)
        var response: Response
        var trace = Trace()
        do throws(Problem) {
            let query = target.dropFirst(path.count + 1)
            response = try await answer(request, match, path, query, snapshot, from: context.connected, &trace)
        } catch {
            if let limit = error.limit { metrics.limitReached(limit) }
            trace.code = error.code
            trace.isGuess = error.isGuess
            trace.key = error.keyName ?? trace.key
            response = refuse(error, path, trace.requestID)
            if let own = match?.answer(to: error) { response = own }
        }
        let duration = start.duration(to: .now)
        record(request, match, trace, response, duration)
        if request.method == .head { response = response.createHeadResponse() }
        metrics.request(
            route: match?.path ?? "other",
            method: Self.name(for: request.method),
            status: response.status.code,
            duration: duration
        )
        return response
    }

    private func answer(
        _ request: Request,
        _ match: RouteTable.Match?,
        _ path: Substring,
        _ query: Substring,
        _ snapshot: APISnapshot,
        from connected: PeerAddress,
        _ trace: inout Trace
    ) async throws(Problem) -> Response {
        let route = match?.route(request.method)
        var fields = CallerFields(request.head)
        if match?.takesBasicCredentials ?? false { try fields.takeBasicCredentials() }
        let peer = snapshot.peer(connected, forwardedFor: fields.forwardedFor)
        trace.peer = peer
        let caller = try caller(of: fields, route, snapshot, &trace)
        if caller !== Caller.stranger { trace.key = caller.name }
        let isProbe = route?.isProbe ?? false
        if !isProbe { try caller.use?.countRequest(at: state.time.steady) }
        if let audit = api.audit, route?.isOnRecord ?? false, !audit.isWritable() { throw .noRecord }
        guard let match else { throw .notFound("There is nothing here. /openapi.json lists what there is.") }
        guard let route else { throw .methodNotAllowed(match.allowed) }
        let taken = try limits.admit(caller, peer, snapshot, isCounted: !isProbe, isForwarded: peer != connected)
        defer { limits.giveBack(taken, caller, peer) }
        let scope = RequestScope(
            snapshot: snapshot,
            caller: caller,
            path: path,
            query: query,
            fields: request.headers,
            peer: peer
        )
        do throws(Problem) {
            return try await route.handler(request, match.values, scope)
        } catch {
            // The handler of a platform's callback checks the secret itself.
            throw refused(error, peer, at: state.time.steady)
        }
    }

    /// Authenticates the caller of a request.
    ///
    /// No other code compares keys, except the fast path, which handles no request of an address over its limit. For an
    /// address with too many wrong attempts, only keys that were used successfully from there lately are compared: a
    /// guesser gets the same answer to every guess, and other callers at the address continue.
    private func caller(
        of fields: CallerFields,
        _ route: Route?,
        _ snapshot: APISnapshot,
        _ trace: inout Trace
    ) throws(Problem) -> Caller {
        let now = state.time.reading
        let peer = trace.peer
        let guesser = limits.peers.isOverLimit(peer, at: now.steady) ? peer : nil
        let tellsMore = route?.tellsKeysMore ?? false
        // An unknown path asks for a key like a known one: without a key nothing can be learned.
        let access = tellsMore ? .anyKey : route?.access ?? .anyKey
        do throws(Problem) {
            let caller = try snapshot.admit(fields, access, onlyKnownFrom: guesser, at: now)
            caller.use?.peers.note(peer, at: now.steady)
            return caller
        } catch {
            guard tellsMore else { throw refused(error, peer, at: now.steady) }
            guard error.status == .unauthorized, fields.authorization != nil else { return .stranger }
            let noted = refused(error, peer, at: now.steady)
            if let limit = noted.limit { metrics.limitReached(limit) }
            (trace.code, trace.key) = (noted.code, error.keyName ?? "")
            return .stranger
        }
    }

    /// Returns the answer to a request without a valid key: 401, and 429 after too many of them.
    private func refused(_ problem: Problem, _ peer: PeerAddress, at now: Date) -> Problem {
        guard problem.status == .unauthorized || problem.isGuess,
            let wait = limits.peers.refuse(peer, at: now), !problem.isGuess
        else { return problem }
        return .rateLimited(.refusedAttempts, perSecond: Int(clamping: Peers.refusals.perSecond), wait: wait)
    }

    /// The properties of a request for the audit and access logs.
    private struct Trace {
        let requestID = Problem.newRequestID()
        var key = ""
        var peer = PeerAddress.local
        var code: String?
        /// Whether the request guessed a secret; the answer does not show it.
        var isGuess = false
    }

    /// Writes administration, erasures and refused attempts to the audit log, and any request to the access log.
    private func record(
        _ request: Request,
        _ match: RouteTable.Match?,
        _ trace: Trace,
        _ response: Response,
        _ duration: Duration
    ) {
        let status = response.status
        let isRefusal =
            status == .unauthorized || status == .forbidden || trace.isGuess
            || ["unauthorized", "rate_limited"].contains(trace.code)
        let route = match?.route(request.method)
        let audit = isRefusal || route?.isOnRecord ?? false ? api.audit : nil
        let access = api.access
        guard audit != nil || access != nil else { return }
        let target = route.flatMap { $0.namesTarget ? match?.values.first : nil }.map(SyncEndpoint.decoded)
        var entry = AuditLog.Entry(
            requestID: trace.requestID,
            key: trace.key,
            peer: trace.peer.description,
            method: Self.name(for: request.method),
            route: match?.path ?? "other",
            target: response.headers[.auditSubject] ?? (route?.isOnRecord ?? false ? target : nil),
            status: status.code,
            code: trace.code
        )
        audit?.record(entry, isRefusal: isRefusal)
        guard let access else { return }
        // A request that accepted a notification is about that notification.
        let made = status == .accepted ? response.headers[.location]?.split(separator: "/").last.map(String.init) : nil
        entry.target = entry.target ?? made ?? target
        entry.traceID = TraceContext(request.headers)?.traceID
        access.record(
            entry,
            AccessLog.Cost(
                duration: duration,
                requestBytes: request.headers[.contentLength].flatMap { Int($0) },
                answerBytes: response.body.contentLength
            )
        )
    }

    private func refuse(_ problem: Problem, _ path: Substring, _ requestID: String) -> Response {
        let (fields, body) = problem.answer(path: path, requestID: requestID, logger)
        return Response(status: problem.status, headers: fields, body: ResponseBody(bytes: body))
    }

    /// Returns a method as a label: callers may invent methods, metrics may not.
    private static func name(for method: HTTPRequest.Method) -> String {
        switch method {
        case .get, .head, .post, .put, .patch, .delete, .options: method.rawValue
        default: "other"
        }
    }
}

extension Problem {
    /// Answers a request for a path; internal causes go to the log.
    func answer(
        path: Substring,
        requestID id: String = newRequestID(),
        _ logger: Logger
    ) -> (fields: HTTPFields, body: [UInt8]) {
        if let cause {
            logger.error("request failed", metadata: ["request_id": "\(id)", "error": "\(cause)"])
        }
        return answer(instance: String(path.prefix(256)), requestID: id)
    }
}
