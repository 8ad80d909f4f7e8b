internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import ChaparDelivery
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// An endpoint that accepts notifications, in steps between its two waits: for the body, and for the commit.
///
/// No step itself waits, so that both a task (``accept(_:_:)``) and a connection's event loop (``FastIntake``) can run
/// the steps.
package protocol AcceptingAPI: Sendable {
    /// The form in which a body is read.
    associatedtype Draft: Sendable

    var state: GatewayState { get }
    var metrics: GatewayMetrics { get }
    var admission: Admission { get }

    /// Reads a body.
    func read(_ body: [UInt8], _ scope: RequestScope) throws(Problem) -> Draft

    /// Returns the number of a draft's JSON values that are kept as trees: those of `data` and `overrides`.
    func treeValues(_ draft: Draft) -> Int

    /// Whether the device registry must be asked before the draft can be checked: that is a wait.
    func needsRegistry(_ draft: Draft, _ scope: RequestScope) -> Bool

    /// Asks the device registry for the devices that the draft names.
    func lookUp(_ draft: inout Draft, _ scope: RequestScope) async throws(StoreError)

    /// Returns the answer to a draft that sends nothing; nil for all others.
    func preview(_ draft: Draft, _ scope: RequestScope) throws(Problem) -> EnqueueReply?

    /// Checks a draft; returns the batch for the store, and the reply to send once it is on disk.
    ///
    /// The draft may be consumed; it is not copied.
    func check(
        _ draft: inout Draft,
        _ body: [UInt8],
        _ key: IdempotencyKey?,
        _ scope: RequestScope
    ) throws(Problem) -> CheckedRequest
}

/// The progress with a body.
private struct Begun<Draft: Sendable>: Sendable {
    enum State: Sendable {
        /// Everything is checked.
        case checked(CheckedRequest)
        /// The device registry must be asked first.
        case waits(Draft)
    }

    var state: State
    /// The memory that is reserved for its trees, in bytes.
    var reserved: Int
}

/// Notifications that can be accepted, and the reply to send once they are on disk.
package struct CheckedRequest: Sendable {
    /// The notifications for the store.
    package var batch: EnqueueBatch
    package var reply: PendingReply
    /// The memory that is reserved for its trees, in bytes.
    ///
    /// The code that takes the batch releases it.
    package var reserved = 0
}

/// The reply to send once the store has accepted.
package struct PendingReply: Sendable {
    package var body: [UInt8]
    /// The id that the answer's `Location` names; nil when there are several.
    package var id: NotificationID?
    /// The route of each notification, for metrics.
    var labels: [AcceptanceLabels]
    /// The notifications, when their trace is sampled.
    var traced: TracedAcceptance?

    /// Creates the reply; `id` is nil unless it is about one notification.
    package init(body: [UInt8], id: NotificationID? = nil, labels: [AcceptanceLabels]) {
        self.body = body
        self.id = id
        self.labels = labels
    }
}

/// The reply to notifications that are on disk, stored by this request or by an earlier one.
package struct EnqueueReply: Sendable {
    package var body: [UInt8]
    /// The id that `Location` names.
    package var id: String?
    /// Whether the body is the answer to an earlier request with the same idempotency key.
    package var isReplay = false
    /// Whether nothing was sent: the answer to a dry run.
    package var isPreview = false

    var response: Response {
        var headers = HTTPFields()
        headers[.contentType] = "application/json"
        if let id { headers[.location] = "/v1/notifications/" + id }
        if isReplay { headers[.idempotencyReplayed] = "true" }
        return Response(status: isPreview ? .ok : .accepted, headers: headers, body: ResponseBody(bytes: body))
    }
}

extension AcceptingAPI {
    /// No draft is a dry run.
    package func preview(_ draft: Draft, _ scope: RequestScope) throws(Problem) -> EnqueueReply? { nil }

    /// Checks the head before the body is read, and returns the request's idempotency key.
    ///
    /// The fields are passed separately, since a lookup in `HTTPFields` costs as much as checking a small body.
    package func admit(_ scope: RequestScope, contentType: String?, keys: [String]) throws(Problem) -> IdempotencyKey? {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters([])
        try RequestBodyReader.requireJSON(type: contentType)
        return try IdempotencyKey(keys)
    }

    /// Builds the reply from the store's result.
    package func conclude(
        _ reply: PendingReply,
        _ result: Result<EnqueueResult, StoreError>,
        _ caller: Caller
    ) throws(Problem) -> EnqueueReply {
        switch result {
        case .success(.accepted):
            caller.use?.accepted.wrappingAdd(reply.labels.count, ordering: .relaxed)
            metrics.accepted(reply.labels)
            reply.traced?.record(state)
            return EnqueueReply(body: reply.body, id: reply.id?.description)
        case .success(.replayed(let answer)):
            let id = reply.id == nil ? nil : (try? JSONValue(parsing: answer))?["id"]?.stringValue
            return EnqueueReply(body: answer, id: id, isReplay: true)
        case .success(.keyReused): throw .keyReused
        case .success(.keyInUse), .success(.outdated): throw .keyInUse
        case .failure(let error): throw Problem(error)
        }
    }

    /// Checks a body at once; nil when the device registry must be asked first.
    package func checkAtOnce(_ body: [UInt8], _ key: IdempotencyKey?, _ scope: RequestScope) throws(Problem)
        -> CheckedRequest?
    {
        let begun = try begin(body, key, scope)
        guard case .checked(var checked) = begun.state else {
            admission.release(bytes: begun.reserved, payer: scope.payer)
            return nil
        }
        checked.reserved = begun.reserved
        return checked
    }

    /// Reads a body, and checks it unless the device registry must be asked first.
    ///
    /// The parsed values of a body with many small values take far more memory than its text. Memory for the text is
    /// reserved already; the difference is reserved here.
    private func begin(_ body: [UInt8], _ key: IdempotencyKey?, _ scope: RequestScope) throws(Problem) -> Begun<Draft> {
        var draft = try read(body, scope)
        let values = treeValues(draft)
        guard values <= Admission.maximumTreeValues else { throw .tooManyValues(values) }
        let reserved = max(0, values * Admission.bytesOfTreeValue - body.count)
        try admission.reserve(bytes: reserved, payer: scope.payer, largest: scope.snapshot.server.maximumBodyBytes)
        if needsRegistry(draft, scope) { return Begun(state: .waits(draft), reserved: reserved) }
        do throws(Problem) {
            return Begun(state: .checked(try check(&draft, body, key, scope)), reserved: reserved)
        } catch {
            admission.release(bytes: reserved, payer: scope.payer)
            throw error
        }
    }

    /// Answers a request, in a task that waits for its body and for the store.
    package func accept(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        let key = try admit(
            scope,
            contentType: scope.fields[.contentType],
            keys: scope.fields[values: .idempotencyKey]
        )
        let reader = RequestBodyReader(admission: admission, scope)
        var traced = scope
        traced.trace = TraceContext(scope.fields)
        return try await reader.withBody(of: request) { [traced] (body) throws(Problem) in
            try await enqueue(body, key, traced).response
        }
    }

    /// Accepts a body, and waits until it is on disk.
    func enqueue(_ body: [UInt8], _ key: IdempotencyKey?, _ scope: RequestScope) async throws(Problem)
        -> EnqueueReply
    {
        let begun = try await longWork(bytes: body.count) { () throws(Problem) in try begin(body, key, scope) }
        defer { admission.release(bytes: begun.reserved, payer: scope.payer) }
        let checked: CheckedRequest
        switch begun.state {
        case .checked(let done): checked = done
        case .waits(var draft):
            do throws(StoreError) {
                try await lookUp(&draft, scope)
            } catch {
                throw Problem(error)
            }
            if let reply = try preview(draft, scope) { return reply }
            checked = try await longWork(bytes: body.count) { [draft] () throws(Problem) in
                var draft = draft
                return try check(&draft, body, key, scope)
            }
        }
        let result: Result<EnqueueResult, StoreError>
        do throws(StoreError) {
            result = .success(try await state.store.enqueue(checked.batch))
        } catch {
            result = .failure(error)
        }
        // The fan-out looks by itself soon; this saves the wait.
        if case .new(let campaign)? = checked.batch.campaign, case .success(.accepted) = result {
            state.campaigns.note(campaign)
        }
        return try conclude(checked.reply, result, scope.caller)
    }
}
