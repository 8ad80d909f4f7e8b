internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import Logging
package import ChaparDelivery
package import ChaparCore
internal import ChaparComposition
internal import ChaparQueue
internal import Synchronization

/// `POST /v1/backends/{name}/receipts` and `POST /v1/backends/{name}/webhook/{secret}`: a platform's reports about
/// messages that it had accepted.
///
/// The second path is for platforms that take only an address. There is no API key: the platform's signature is the
/// credential, checked by the backend's ``ReceiptReader``. A caller without this signature learns nothing, uses nothing
/// of the rate limit of genuine callbacks, and causes little work: if the head shows that the callback is forged, the
/// body is not read; the failures of a peer are limited; bodies are bounded. A callback is stored before it is
/// answered, and a repeated callback changes nothing.
package final class ReceiptsAPI: Sendable {
    /// The largest callback, in bytes; Huawei's hold up to 100 statuses, of which each takes some 400.
    static let maximumBody = 256 << 10
    /// The most genuine callbacks a second, for each gateway.
    static let perSecond = 500.0
    /// The age, in seconds, below which a receipt may have arrived before the commit of its acceptance.
    static let fresh: TimeInterval = 30
    /// The time that a receipt waits for that commit.
    static let earlyReceiptDelay = Duration.milliseconds(500)

    let state: GatewayState
    let workers: any WorkerObserver
    let admission: Admission
    let peers: Peers
    let logger: Logger
    private let bucket: Mutex<TokenBucket>
    /// The addresses from which the secret of a backend's callback was used successfully lately.
    private let knownPeers = Mutex<[String: RecentPeers]>([:])
    /// The log limits by backend and kind of mistake.
    private let samplers = Mutex<[String: LogSampler]>([:])

    package init(state: GatewayState, workers: any WorkerObserver, admission: Admission, peers: Peers, logger: Logger) {
        self.state = state
        self.workers = workers
        self.admission = admission
        self.peers = peers
        self.logger = logger
        bucket = Mutex(TokenBucket(Pacing(perSecond: Self.perSecond, burst: .seconds(2)), at: state.time.steady))
    }

    /// Answers a callback; `secret` is the end of its path, if that is the credential.
    package func receive(
        _ request: Request,
        _ name: Substring,
        secret: Secret? = nil,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let now = state.time.now
        let backends = scope.gateway.backends
        guard let backend = backends.first(where: { $0.name == name })?.backend, let reader = backend.receipts else {
            throw secret == nil ? .expectsNoReceipts : .secretGuessed
        }
        // As with keys: an address with too many wrong attempts may only use a secret that it used successfully lately.
        let limited = peers.isOverLimit(scope.peer, at: state.time.steady)
        guard secret == nil || !limited || knownPeers(of: name).contains(scope.peer, at: state.time.steady) else {
            throw .secretGuessed
        }
        let head = ReceiptCallback(headers: Self.headers(request), body: [], receivedAt: now, pathSecret: secret)
        let isAuthentic = try believe(head, name) { () throws(ReceiptRefusal) in
            try reader.isAuthentic(head: head)
        }
        if isAuthentic {
            if secret != nil { knownPeers(of: name).note(scope.peer, at: state.time.steady) }
            try pace()
        } else if limited {
            throw secret == nil ? .notBelieved : .secretGuessed  // Its body is not read either.
        }
        let bodies = RequestBodyReader(admission: admission, scope, limit: Self.maximumBody)
        return try await bodies.withBody(of: request) { (body) throws(Problem) in
            var callback = head
            callback.body = body
            let receipts = try believe(head, name) { () throws(ReceiptRefusal) in
                try reader.receipts(in: callback)
            }
            if !isAuthentic { try pace() }
            try await record(receipts, backend, String(name), at: now)
            if secret != nil { return Response(status: .noContent, headers: [.cacheControl: "no-store"]) }
            return Response(
                status: .ok,
                headers: [.contentType: "application/json", .cacheControl: "no-store"],
                body: ResponseBody(bytes: reader.acknowledgement)
            )
        }
    }

    private func knownPeers(of name: Substring) -> RecentPeers {
        knownPeers.withLock { known in
            if let own = known[String(name)] { return own }
            let own = RecentPeers()
            known[String(name)] = own
            return own
        }
    }

    private func pace() throws(Problem) {
        guard bucket.withLock({ $0.reserve(1, at: state.time.steady).granted }) == 1 else { throw .tooBusy }
    }

    /// Asks a reader about a callback; refusals are logged at intervals.
    ///
    /// The responder counts the refusals of each peer.
    private func believe<Answer>(
        _ callback: ReceiptCallback,
        _ name: Substring,
        _ ask: () throws(ReceiptRefusal) -> Answer
    ) throws(Problem) -> Answer {
        do throws(ReceiptRefusal) {
            return try ask()
        } catch {
            let now = state.time.steady
            switch error {
            case .notAuthentic(let why):
                logRefusal("not_authentic", name, why, at: now)
                // A caller that guesses secrets must not learn which addresses exist.
                throw callback.pathSecret == nil ? .notBelieved : .secretGuessed
            case .malformed(let why):
                logRefusal("malformed", name, why, at: now)
                throw .malformedReceipt(why)
            }
        }
    }

    private func logRefusal(_ code: String, _ name: Substring, _ why: String, at now: Date) {
        let count = samplers.withLock { $0["\(name) \(code)", default: LogSampler()].count(at: now) }
        guard let count else { return }
        logger.warning(
            "a receipt was refused",
            metadata: ["backend": "\(name)", "code": "\(code)", "reason": "\(why)", "count": .stringConvertible(count)]
        )
    }

    private func record(
        _ receipts: [DeliveryReceipt],
        _ backend: any PushBackend,
        _ name: String,
        at now: Date
    ) async throws(Problem) {
        var results = try await store(receipts, name, at: now)
        // The platform may report before the commit that says it accepted the message.
        let early = receipts.indices.filter {
            results[$0] == .early
                || results[$0] == .unknown && abs(now.timeIntervalSince(receipts[$0].at)) < Self.fresh
        }
        if !early.isEmpty, (try? await state.time.sleep(for: Self.earlyReceiptDelay)) != nil {
            let second = try await store(early.map { receipts[$0] }, name, at: now)
            for (position, index) in early.enumerated() { results[index] = second[position] }
        }
        await invalidate(receipts, results, backend, name, at: now)
        let strangers = results.count { $0 == .unknown }
        if strangers > 0 {
            logger.debug(
                "receipts of unknown messages",
                metadata: ["backend": "\(name)", "count": .stringConvertible(strangers)]
            )
        }
        // The platform sends the whole callback again; what is stored of it is repeated then.
        if results.contains(.early) { throw .reportedEarly }
    }

    private func store(
        _ receipts: [DeliveryReceipt],
        _ name: String,
        at now: Date
    ) async throws(Problem) -> [ReceiptResult] {
        let entries = receipts.map { receipt in
            let logEntry = EventJSON.receipt(receipt, backend: name)
            let state = receipt.deliveryState
            return ReceiptEntry(
                ReceiptAddress(backend: name, platformID: receipt.platformID ?? "", token: receipt.token),
                state: state,
                logEntry: logEntry
            ) { delivery in
                EventJSON.received(delivery, changesState: state != nil, backend: name, logEntry: logEntry, at: now)
            }
        }
        do throws(StoreError) {
            var results = try await self.state.record(entries)
            let others = entries.indices.filter { results[$0] == .unknown && entries[$0].regardlessOfUser != nil }
            guard !others.isEmpty else { return results }
            let second = try await self.state.record(others.compactMap { entries[$0].regardlessOfUser })
            for (position, index) in others.enumerated() { results[index] = second[position] }
            return results
        } catch {
            throw Problem(error)
        }
    }

    /// Passes dead tokens in receipts to the guard, like those in answers to messages.
    private func invalidate(
        _ receipts: [DeliveryReceipt],
        _ results: [ReceiptResult],
        _ backend: any PushBackend,
        _ name: String,
        at now: Date
    ) async {
        guard let tokenInvalidation = workers.invalidations else { return }
        let app = state.snapshot.app(ofBackend: name) ?? .default
        var refusals: [TokenRefusal] = []
        var answers = 0
        for (receipt, result) in zip(receipts, results) {
            var caller = ""
            switch result {
            case .repeated, .early: continue
            case .recorded(let delivery): caller = delivery.caller
            case .unknown: break
            }
            answers += 1
            guard let invalidation = receipt.invalidation, let token = await token(of: receipt, result, backend, app)
            else {
                continue
            }
            refusals.append(
                TokenRefusal(
                    token,
                    of: app,
                    asOf: invalidation.asOf,
                    at: now,
                    backend: name,
                    reason: receipt.reason,
                    isCertain: invalidation.isCertain,
                    caller: caller
                )
            )
        }
        guard !refusals.isEmpty else { return }
        let watch = await tokenInvalidation.watch(name, state.snapshot.configuration.invalidationGuard)
        let doubt = tokenInvalidation.receive(
            refusals,
            answers: answers,
            watch,
            at: state.clock.reading
        )
        let believed = refusals.filter { !doubt.covers($0.caller) }
        guard !believed.isEmpty else { return }
        let events = believed.map { EventJSON.tokenInvalidated($0, device: nil, at: now) }
        do throws(StoreError) {
            try await state.store.publish(events)
        } catch {
            logger.error("an event was not written", metadata: ["backend": "\(name)", "error": "\(error)"])
        }
    }

    /// Returns the token with its service: that of the delivery, or else the one under which it is registered.
    private func token(
        of receipt: DeliveryReceipt,
        _ result: ReceiptResult,
        _ backend: any PushBackend,
        _ app: AppName
    ) async -> DeviceToken? {
        guard let value = receipt.token else { return nil }
        if case .recorded(let delivery) = result, case .token(let token) = delivery.recipient { return token }
        for service in backend.audience.services.sorted(by: { $0.rawValue < $1.rawValue }) {
            let token = DeviceToken(value, service: service)
            // A failed registry counts as one that does not know the token.
            if (try? await state.devices.device(having: token, in: app)) ?? nil != nil { return token }
        }
        return nil
    }

    private static func headers(_ request: Request) -> [HTTPHeader] {
        request.headers.map { HTTPHeader($0.name.canonicalName, $0.value) }
    }
}

extension DeliveryReceipt {
    /// The state of the delivery after it; nil when it decides nothing.
    var deliveryState: DeliveryState? {
        switch event {
        case .delivered: .delivered
        case .opened: .opened
        case .failed: .failed
        case .note: nil
        }
    }
}
