internal import Foundation
internal import PushCore
internal import Synchronization

/// What became of an operation, for a caller that waited for it.
enum OperationOutcome: Sendable {
    /// The platform took it, and said this.
    case done(JSONObject)
    /// It is over, and the platform did not take it.
    case failed(PushError)
}

/// Wakes callers that wait for the outcomes of their outbox entries.
///
/// A caller registers its entries before they are stored, so that no outcome can be too early.
final class OutboxOutcomes: Sendable {
    private struct Wait {
        var missing: Set<UUID>
        var found: [UUID: OperationOutcome] = [:]
        let over: AsyncSignal
    }

    private struct Contents {
        var waits: [UInt64: Wait] = [:]
        var last: UInt64 = 0
    }

    /// A caller that waits.
    struct Ticket: Sendable {
        fileprivate let number: UInt64
        fileprivate let over: AsyncSignal
    }

    private let contents = Mutex(Contents())

    /// Begins to listen for these operations; ``wait(_:for:_:)`` or ``leave(_:)`` ends it.
    func listen(for ids: [UUID]) -> Ticket {
        let over = AsyncSignal()
        return contents.withLock { contents in
            contents.last += 1
            contents.waits[contents.last] = Wait(missing: Set(ids), over: over)
            return Ticket(number: contents.last, over: over)
        }
    }

    /// What is known once all are over or the time is.
    func wait(_ ticket: Ticket, for span: Duration, _ time: any TimeSource) async -> [UUID: OperationOutcome] {
        await ticket.over.wait(after: .start, atMost: span, time)
        return leave(ticket)
    }

    /// Ends the listening.
    @discardableResult
    func leave(_ ticket: Ticket) -> [UUID: OperationOutcome] {
        contents.withLock { $0.waits.removeValue(forKey: ticket.number)?.found ?? [:] }
    }

    /// An operation is over.
    func report(_ id: UUID, _ outcome: OperationOutcome) {
        let over = contents.withLock { contents -> [AsyncSignal] in
            var over: [AsyncSignal] = []
            for (number, wait) in contents.waits where wait.missing.contains(id) {
                contents.waits[number]?.missing.remove(id)
                contents.waits[number]?.found[id] = outcome
                if contents.waits[number]?.missing.isEmpty ?? false { over.append(wait.over) }
            }
            return over
        }
        for signal in over { signal.signal() }
    }
}
