internal import Foundation
package import ChaparDelivery
package import ChaparCore
internal import ChaparQueue
internal import ServiceLifecycle

/// The events of the store above a number, as a caller may see them, a batch at a time.
///
/// The streams of `GET /v1/events` and the sequences of the program itself read through it. A batch is read when the
/// reader has taken all events of the batch before, so that a slow reader slows only itself; nothing runs between two
/// calls.
package struct EventFeed: Sendable {
    /// An event, or the news that events were removed before they were read.
    package struct Item: Sendable {
        /// The number after which a reader continues that has read this.
        package let position: Int64
        /// The type, which is the first member of the event.
        package let type: String
        /// The event as the caller may see it.
        package let json: [UInt8]
        /// Whether the event itself has the number, so that the client of a stream is told it.
        let isNumbered: Bool
    }

    /// The most events that are read at a time.
    private static let batch = 256

    private let state: GatewayState
    private let filter: EventFilter
    /// The number of the last event that was read, whether the caller may see it or not.
    private(set) var position: Int64
    /// Whether the reader gets a notice when events between ``position`` and the next event were removed.
    ///
    /// A new reader gets no notice before its first event; a reader that resumes does.
    private var tellsGaps: Bool

    /// Makes a feed of the events with numbers above `position`; a reader that resumes gets a notice of events that
    /// were removed meanwhile.
    package init(_ state: GatewayState, after position: Int64, isResumed: Bool) {
        self.init(state, .all, after: position, isResumed: isResumed)
    }

    /// Makes those that pass a filter.
    init(_ state: GatewayState, _ filter: EventFilter, after position: Int64, isResumed: Bool) {
        self.state = state
        self.filter = filter
        self.position = position
        tellsGaps = isResumed
    }

    /// Whether nothing more is read: the gateway or the reading task ends.
    package var isOver: Bool { state.isDraining || Task.isCancelled || Task.isShuttingDownGracefully }

    /// Returns the next events; waits for one up to `wait`, or until ``isOver``.
    package mutating func next(for caller: Caller, wait: Duration) async throws(StoreError) -> [Item] {
        let view = EventView(caller)
        var items: [Item] = []
        for event in try await read(wait) {
            if tellsGaps, event.number > position.adding(clamping: 1) {
                items.append(Self.gap(from: position, to: event.number))
            }
            tellsGaps = true  // A slow reader may be overtaken by the purge later as well.
            position = event.number
            let type = EventJSON.type(of: event.json)
            guard filter.matches(type), let shown = view.shown(event, type: type) else { continue }
            items.append(Item(position: event.number, type: type, json: shown, isNumbered: true))
        }
        return items
    }

    private func read(_ wait: Duration) async throws(StoreError) -> [StoredEvent] {
        let (store, position) = (state.store, position)
        do {
            return try await cancelWhenGracefulShutdown {
                try await store.events(after: position, limit: Self.batch, wait: wait)
            }
        } catch StoreError.closed {
            state.beginDraining()
            return []
        } catch let error as StoreError {
            throw error
        } catch {
            return []  // A cancellation: ``isOver`` says so to the reader.
        }
    }

    private static func gap(from position: Int64, to next: Int64) -> Item {
        var writer = JSONWriter(capacity: 96)
        writer.beginObject()
        writer.field("type", "gateway.gap")
        writer.field("after", position)
        writer.field("next", next)
        writer.endObject()
        return Item(
            position: next.subtracting(clamping: 1),
            type: "gateway.gap",
            json: writer.bytes,
            isNumbered: false
        )
    }
}
