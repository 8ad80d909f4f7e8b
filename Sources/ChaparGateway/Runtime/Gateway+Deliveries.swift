internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
public import ChaparQueue

extension Gateway {
    /// Returns the state of each message of a notification, in the order of its recipients, as
    /// `GET /v1/notifications/{id}/deliveries` does.
    ///
    /// Nothing is read before the sequence is iterated; then it reads a page at a time, as fast as the reader asks for
    /// more.
    ///
    /// - Parameter id: An id that ``accept(_:to:route:backend:app:idempotencyKey:)`` or the HTTP API returned.
    /// - Returns: One state for each recipient, and for each backend of a route that fans out; each device of a user
    ///   has a state of its own. The iteration throws `not_found` when there is no such notification, it is older than
    ///   `store.retention`, or it was erased with its user.
    public func deliveries(
        of id: NotificationID
    ) -> some AsyncSequence<DeliveryStatus, GatewayProblem> & Sendable {
        PagedSequence(from: DeliveryPlace()) { [responder] (place) throws(GatewayProblem) in
            guard !place.isLast else { return nil }
            do throws(Problem) {
                let scope = responder.ownScope("/v1/notifications/\(id)/deliveries")
                let page = try await responder.own.statuses.page(of: id, after: place.after, limit: 500, scope)
                place = DeliveryPlace(after: page.deliveries.last?.id, isLast: !page.hasMore)
                return page.deliveries.map { DeliveryStatus($0) }
            } catch {
                throw GatewayProblem(error)
            }
        }
    }

    /// Returns the state of each message of a notification at once; ``deliveries(of:)`` returns them one by one.
    ///
    /// - Parameter id: An id that ``accept(_:to:route:backend:app:idempotencyKey:)`` or the HTTP API returned.
    /// - Returns: The states that ``deliveries(of:)`` returns; an empty array when there is no such notification, it is
    ///   older than `store.retention`, or it was erased with its user.
    /// - Throws: The store's failure.
    public func states(of id: NotificationID) async throws(GatewayProblem) -> [DeliveryStatus] {
        var states: [DeliveryStatus] = []
        do throws(GatewayProblem) {
            for try await status in deliveries(of: id) { states.append(status) }
        } catch {
            guard error.code == "not_found" else { throw error }
        }
        return states
    }
}

/// The place in a notification's deliveries from which a reader goes on.
private struct DeliveryPlace: Sendable {
    var after: Int64?
    var isLast = false
}

/// The state of a message to one recipient.
public struct DeliveryStatus: Sendable, Hashable {
    /// The recipient.
    public let recipient: Recipient
    /// The state of the delivery.
    public let state: DeliveryState
    /// The backend that has the delivery, or had it last.
    public let backend: String
    /// The platform's id of the message, from the last attempt that has one.
    public let platformID: String?
    /// The reason of the last attempt that was not accepted, in the platform's own word or the gateway's; nil without
    /// one.
    public let reason: String?

    init(_ delivery: StoredDelivery) {
        switch delivery.recipient {
        case .device(let key): recipient = AppName(ofDevice: key).named(delivery.recipient)
        default: recipient = delivery.recipient
        }
        state = delivery.state
        backend = delivery.backend
        platformID = StatusAPI.platformID(in: delivery.attemptLog)
        reason = StatusAPI.attempts(in: delivery.attemptLog).last?["reason"]?.stringValue
    }
}
