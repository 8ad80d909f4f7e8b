internal import Foundation
internal import HTTPTypes
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The fast path of requests that accept notifications: checked on the connection's event loop, without a task.
///
/// It handles only requests of the usual form, and of these only acceptable ones. Everything else (other endpoints,
/// large bodies, any mistake) goes through ``GatewayResponder``, which then sees the whole request: so the fast path
/// never explains a mistake, and both answer alike. It calls the same steps of ``AcceptingAPI`` as the general path.
struct FastIntake: Sendable {
    /// The largest body that is checked here, in bytes: about a millisecond of the loop's time.
    static let largestBody = Admission.smallBody

    let state: GatewayState
    let api: APIState
    let snapshots: APISnapshots
    let metrics: GatewayMetrics
    let limits: RequestLimits
    let notifications: NotificationsAPI
    let batches: BatchAPI
    let logger: Logger
    private let byLoop = RequestsByLoop()

    init(
        state: GatewayState,
        api: APIState,
        snapshots: APISnapshots,
        metrics: GatewayMetrics,
        limits: RequestLimits,
        notifications: NotificationsAPI,
        batches: BatchAPI,
        logger: Logger
    ) {
        self.state = state
        self.api = api
        self.snapshots = snapshots
        self.metrics = metrics
        self.limits = limits
        self.notifications = notifications
        self.batches = batches
        self.logger = logger
    }

    /// Returns the requests of a loop; call it on the loop.
    func requests(of loop: any EventLoop) -> FastRequests { byLoop.requests(of: loop, state.store) }

    /// Takes a request whose head is valid and whose body is still to come; nil sends it to the general path.
    ///
    /// The result must be passed to ``answer(_:_:date:closes:)`` or ``abandon(_:)``.
    func begin(_ head: HTTPRequestHead, from connected: PeerAddress) -> LoopRequest? {
        guard head.method == .POST, let endpoint = SendingEndpoint(rawValue: head.uri), head.version == .http1_1,
            let usual = UsualHead(head), usual.length <= Self.largestBody
        else { return nil }
        let snapshot = snapshots.current
        guard usual.length <= snapshot.server.maximumBodyBytes else { return nil }
        do throws(Problem) {
            let now = state.time.reading
            let peer = snapshot.peer(connected, forwardedFor: usual.caller.forwardedFor)
            guard !limits.peers.isOverLimit(peer, at: now.steady) else { return nil }
            let caller = try snapshot.admit(usual.caller, .scope(.send), at: now)
            caller.use?.peers.note(peer, at: now.steady)
            var scope = RequestScope(
                snapshot: snapshot,
                caller: caller,
                path: head.uri[...],
                query: "",
                fields: HTTPFields(),
                peer: peer
            )
            if let parent = usual.traceparent {
                scope.trace = TraceContext(traceparent: parent, tracestate: usual.tracestate)
            }
            let key = try notifications.admit(scope, contentType: usual.contentType, keys: usual.keys)
            let taken = try limits.admit(
                caller,
                peer,
                snapshot,
                isForwarded: peer != connected,
                bodyBytes: usual.length
            )
            return LoopRequest(endpoint: endpoint, head: head, scope: scope, key: key, taken: taken)
        } catch {
            return nil
        }
    }

    /// Returns the answer to an unsafe request head, before other code compares it, after which the connection ends;
    /// nil for a safe head.
    ///
    /// All handlers compare the target and the fields with constants before the caller is known, and each comparison of
    /// text with many combining marks takes seconds.
    func refuseHead(
        _ head: HTTPRequestHead,
        from peer: PeerAddress,
        isLocal: Bool,
        date: String
    ) -> ByteBuffer? {
        problem(of: head, isLocal: isLocal).map { refusal($0, from: peer, date: date) }
    }

    /// Returns the answer to bytes that are no HTTP/1.1 request, after which the connection ends.
    func refuseBytes(_ error: HTTPParserError, from peer: PeerAddress, date: String) -> ByteBuffer {
        refusal(.malformed(error), from: peer, date: date)
    }

    /// Returns the answer to a request without a known endpoint, and records it like any other.
    private func refusal(_ problem: Problem, from peer: PeerAddress, date: String) -> ByteBuffer {
        let id = Problem.newRequestID()
        let (fields, body) = problem.answer(path: "/", requestID: id, logger)
        let entry = AuditLog.Entry(
            requestID: id,
            key: "",
            peer: peer.description,
            method: "other",
            route: "other",
            status: problem.status.code,
            code: problem.code
        )
        if problem.status == .forbidden { api.audit?.record(entry, isRefusal: true) }
        api.access?.record(entry, AccessLog.Cost(duration: .zero, answerBytes: body.count))
        metrics.request(route: "other", method: "other", status: problem.status.code, duration: .zero)
        return AnswerText.write(problem.status, fields, body, date: date, closes: true)
    }

    private func problem(of head: HTTPRequestHead, isLocal: Bool) -> Problem? {
        let uri = head.uri
        if Self.hasPercentCode(uri), uri.contains("%00") { return .nulInTarget }
        if Self.isUnsafe(uri) { return .unsafeHead }
        for (name, value) in head.headers {
            if Self.isUnsafe(value) { return .unsafeHead }
            // The parser has decoded the chunks; data in another coding would be taken for the body.
            if name.isField("transfer-encoding"), !value.isField("chunked") { return .unknownTransferCoding }
        }
        guard !isLocal || head.version != .http1_1 else { return nil }
        // The rest depends on whether keys are needed now, not when the connection was opened.
        guard snapshots.current.keyring.isKeyless else { return nil }
        return isLocal ? .throughProxy : .keysNeeded
    }

    /// Whether a target may have a percent code.
    private static func hasPercentCode(_ uri: String) -> Bool {
        uri.utf8.withContiguousStorageIfAvailable { $0.contains(UInt8(ascii: "%")) } ?? true
    }

    /// Whether text of a head, encoded or decoded, is unsafe to compare; short text is safe.
    private static func isUnsafe(_ text: String) -> Bool {
        guard text.utf8.count > 128 else { return false }
        return !text.isStreamSafe || text.utf8.contains(UInt8(ascii: "%")) && !decoded(text).isStreamSafe
    }

    /// Returns the text with every percent code decoded, even if other parts are not UTF-8: endpoints decode their
    /// parts separately.
    private static func decoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) {
                rest = rest.dropFirst(2)
                bytes.append(code)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Checks a request whose body has arrived: returns the batch for the store, and keeps the reply.
    ///
    /// Nil sends the request to the general path.
    func check(_ request: LoopRequest) -> EnqueueBatch? {
        let body = Array(request.body.readableBytesView)
        guard body.count == request.taken.bodyBytes else { return nil }
        do throws(Problem) {
            let checked =
                switch request.endpoint {
                case .notifications: try notifications.checkAtOnce(body, request.key, request.scope)
                case .batch: try batches.checkAtOnce(body, request.key, request.scope)
                }
            guard let checked else { return nil }
            request.taken.treeBytes = checked.reserved
            try request.scope.caller.use?.countRequest(at: state.time.steady)
            request.reply = checked.reply
            return checked.batch
        } catch {
            return nil
        }
    }

    /// Returns the answer to a checked request from the store's result, and counts the request.
    func answer(
        _ request: LoopRequest,
        _ result: Result<EnqueueResult, StoreError>,
        date: String,
        closes: Bool
    ) -> ByteBuffer {
        do throws(Problem) {
            let acceptance = try notifications.conclude(request.reply, result, request.scope.caller)
            end(request, .accepted, target: acceptance.id, bytes: acceptance.body.count)
            return AnswerText.accepted(acceptance, date: date, closes: closes)
        } catch {
            if let limit = error.limit { metrics.limitReached(limit) }
            return refuse(request, error, date: date, closes: closes)
        }
    }

    /// Returns the answer to a request that ends here with a problem, and counts the request.
    func refuse(_ request: LoopRequest, _ problem: Problem, date: String, closes: Bool) -> ByteBuffer {
        let id = Problem.newRequestID()
        let (fields, body) = problem.answer(path: request.scope.path, requestID: id, logger)
        end(request, problem.status, problem.code, requestID: id, bytes: body.count)
        return AnswerText.write(problem.status, fields, body, date: date, closes: closes)
    }

    /// Releases a request that goes to the general path, or whose client is gone.
    func abandon(_ request: LoopRequest) {
        limits.giveBack(request.taken, request.scope.caller, request.scope.peer)
    }

    private func end(
        _ request: LoopRequest,
        _ status: HTTPResponse.Status,
        _ code: String? = nil,
        requestID: String? = nil,
        target: String? = nil,
        bytes: Int
    ) {
        abandon(request)
        let duration = Duration.nanoseconds((NIODeadline.now() - request.begin).nanoseconds)
        metrics.request(
            route: request.endpoint.rawValue,
            method: "POST",
            status: status.code,
            duration: duration
        )
        guard let access = api.access else { return }
        var entry = AuditLog.Entry(
            requestID: requestID ?? Problem.newRequestID(),
            key: request.scope.caller.name,
            peer: request.scope.peer.description,
            method: "POST",
            route: request.endpoint.rawValue,
            target: target,
            status: status.code,
            code: code
        )
        entry.traceID = request.scope.trace?.traceID
        access.record(
            entry,
            AccessLog.Cost(duration: duration, requestBytes: request.taken.bodyBytes, answerBytes: bytes)
        )
    }
}

/// A request on the fast path.
///
/// Used only on the event loop of its connection.
final class LoopRequest {
    let endpoint: SendingEndpoint
    /// The head as received, for the general path.
    let head: HTTPRequestHead
    let scope: RequestScope
    let key: IdempotencyKey?
    /// The share of the limits that it has taken.
    var taken: Admitted
    let begin = NIODeadline.now()
    /// The part of its body that has arrived.
    var body = ByteBuffer()
    /// The reply to send once the store has accepted.
    var reply = PendingReply(body: [], labels: [])

    init(
        endpoint: SendingEndpoint,
        head: HTTPRequestHead,
        scope: RequestScope,
        key: IdempotencyKey?,
        taken: Admitted
    ) {
        self.endpoint = endpoint
        self.head = head
        self.scope = scope
        self.key = key
        self.taken = taken
    }
}

/// The fields that endpoints use from the head of a request of the usual form: a body of known length, a connection
/// that stays open, nothing to negotiate.
private struct UsualHead {
    var caller = CallerFields()
    var contentType: String?
    /// The values of `Idempotency-Key`.
    var keys: [String] = []
    var traceparent: String?
    var tracestate: String?
    var length = 0

    /// Returns nil for any other form, and for a repeated field that may occur only once.
    init?(_ head: HTTPRequestHead) {
        for (name, value) in head.headers {
            let isNew: Bool
            switch name.utf8.count {
            case 4 where name.isField("host"): isNew = Self.set(&caller.authority, value)
            case 6 where name.isField("origin"): isNew = Self.set(&caller.origin, value)
            case 12 where name.isField("content-type"): isNew = Self.set(&contentType, value)
            case 13 where name.isField("authorization"): isNew = Self.set(&caller.authorization, value)
            case 14 where name.isField("sec-fetch-site"): isNew = Self.set(&caller.fetchSite, value)
            case 14 where name.isField("content-length"):
                isNew = length == 0
                length = Int(value) ?? 0
            case 15 where name.isField("idempotency-key"):
                isNew = true
                keys.append(value)
            case 11 where name.isField("traceparent"): isNew = Self.set(&traceparent, value)
            case 10 where name.isField("tracestate"): isNew = Self.set(&tracestate, value)
            case 10 where name.isField("connection"): isNew = value.isField("keep-alive")
            case 6 where name.isField("expect"), 7 where name.isField("upgrade"): isNew = false
            case 17 where name.isField("transfer-encoding"): isNew = false
            default:
                isNew = true
                if CallerFields.isOfProxy(name) {
                    caller.isForwarded = true
                    if name.isField("x-forwarded-for") { caller.forwardedFor.append(value) }
                }
            }
            guard isNew else { return nil }
        }
        guard length > 0 else { return nil }
    }

    private static func set(_ field: inout String?, _ value: String) -> Bool {
        defer { field = value }
        return field == nil
    }
}

/// The ``FastRequests`` of each event loop, made when its first connection opens.
private final class RequestsByLoop: Sendable {
    private let byLoop = Mutex<[ObjectIdentifier: NIOLoopBound<FastRequests>]>([:])

    func requests(of loop: any EventLoop, _ store: any NotificationStore) -> FastRequests {
        let requests = byLoop.withLock { byLoop in
            if let requests = byLoop[ObjectIdentifier(loop)] { return requests }
            let requests = NIOLoopBound(FastRequests(loop, store), eventLoop: loop)
            byLoop[ObjectIdentifier(loop)] = requests
            return requests
        }
        return requests.value
    }
}
