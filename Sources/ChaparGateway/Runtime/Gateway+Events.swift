internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
public import ChaparQueue

extension Gateway {
    /// Returns the events above a number, oldest first, as `GET /v1/events` sends them.
    ///
    /// Nothing is read before the sequence is iterated; each iteration reads the store as fast as the reader asks for
    /// events, and leaving the loop ends it. Keep the number of the last event that you have handled, and give that
    /// number the next time: no event is lost or repeated in between, also across restarts. The sequence ends, without
    /// an error, when the gateway shuts down or the task is cancelled.
    ///
    /// - Parameter number: The number of the last known event; 0 begins with the oldest event that is kept. With nil
    ///   the sequence begins with the first event after the iteration began.
    /// - Returns: The events. ``GatewayEvent/gap`` comes first when some events above the number are no longer kept
    ///   (`store.retention`).
    public func events(
        after number: Int64? = nil
    ) -> some AsyncSequence<GatewayEvent, GatewayProblem> & Sendable {
        PagedSequence(from: EventFeed?.none) { [responder, state] (feed) throws(GatewayProblem) in
            do throws(Problem) {
                var current: EventFeed
                if let feed {
                    current = feed
                } else {
                    let position = try await responder.own.events.position(after: number.map { max(0, $0) })
                    current = EventFeed(state, after: position, isResumed: number != nil)
                }
                defer { feed = current }
                guard !current.isOver else { return nil }
                do throws(StoreError) {
                    return try await current.next(for: .everybody, wait: Self.eventWait).map { GatewayEvent($0) }
                } catch {
                    throw Problem(error)
                }
            } catch {
                throw GatewayProblem(error)
            }
        }
    }

    /// The longest wait for an event before the shutdown is looked for.
    private static let eventWait = Duration.seconds(5)
}

/// An event of a gateway: a notification, a delivery, a device, an operation or a backend has changed.
public struct GatewayEvent: Sendable, Hashable {
    /// The type of the event that says that events were removed before they were read.
    public static let gap = "gateway.gap"

    /// The number, which only grows: ``Gateway/events(after:)`` continues after it.
    public let number: Int64
    /// The type, such as `delivery.accepted_by_platform`; docs/APIReference.md lists them.
    public let type: String
    /// The whole event, as the API sends it; null when it is no JSON.
    public let content: JSONValue

    init(_ item: EventFeed.Item) {
        number = item.position
        type = item.type
        content = (try? JSONValue(parsing: item.json)) ?? .null
    }

    /// The notification that it is about.
    public var notification: NotificationID? { content["notification"]?.stringValue.flatMap { NotificationID($0) } }

    /// The recipient of the delivery that it is about; a device or a user without the name of its app.
    public var recipient: Recipient? {
        guard let recipient = content["recipient"]?.stringValue.flatMap({ Recipient(storedForm: $0) }) else {
            return nil
        }
        switch recipient {
        case .device(let key): return AppName(ofDevice: key).named(recipient)
        default: return recipient
        }
    }

    /// The new state of the delivery that it is about.
    public var state: DeliveryState? { content["state"]?.stringValue.flatMap { DeliveryState(rawValue: $0) } }

    /// The backend that it is about, or that has the delivery.
    public var backend: String? { content["backend"]?.stringValue }

    /// The reason, in the platform's own word or the gateway's.
    public var reason: String? { content["reason"]?.stringValue ?? content["attempt"]?["reason"]?.stringValue }
}
