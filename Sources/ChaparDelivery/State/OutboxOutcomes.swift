package import Foundation
package import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// The outcome of an operation, for a caller that waited for it.
package enum OperationOutcome: Sendable {
    /// The platform accepted it, and answered this.
    case done(JSONObject)
    /// It has ended, and the platform did not accept it.
    case failed(PushError)
}

/// The callers that wait for the outcomes of their outbox entries.
///
/// A caller registers its entries before they are stored, so that no outcome can be missed.
package final class OutboxOutcomes: Sendable {
    /// The longest wait for an outcome, in seconds.
    package static let longestWait = 30

    private struct Wait {
        var missing: Set<UUID>
        var found: [UUID: OperationOutcome] = [:]
        let over: AsyncSignal
    }

    private struct Contents {
        var waits: [UInt64: Wait] = [:]
        var last: UInt64 = 0
    }

    /// The registration of a caller that waits.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
        fileprivate let over: AsyncSignal
    }

    /// The reasons of the entries that still wait.
    package let troubles = OutboxTroubles()
    private let contents = Mutex(Contents())
    /// The other gateways that share the store; nil when none can.
    private let nodes: (any NodeExchange)?

    /// Makes one that also receives the outcomes of other gateways.
    init(_ nodes: (any NodeExchange)? = nil) {
        self.nodes = nodes
        nodes?.hear { [weak self] note in
            if let (id, outcome) = OperationOutcome.read(note) { _ = self?.take(id, outcome) }
        }
    }

    /// Registers a caller for these operations; ``wait(_:for:_:)`` or ``leave(_:)`` ends it.
    package func listen(for ids: [UUID]) -> Ticket {
        let over = AsyncSignal()
        return contents.withLock { contents in
            contents.last += 1
            contents.waits[contents.last] = Wait(missing: Set(ids), over: over)
            return Ticket(number: contents.last, over: over)
        }
    }

    /// Returns the known outcomes once all operations have ended or the time is over.
    package func wait(_ ticket: Ticket, for span: Duration, _ time: any TimeSource) async -> [UUID: OperationOutcome] {
        await ticket.over.wait(after: .start, atMost: span, time)
        return leave(ticket)
    }

    /// Ends a registration; returns the outcomes so far.
    @discardableResult
    package func leave(_ ticket: Ticket) -> [UUID: OperationOutcome] {
        contents.withLock { $0.waits.removeValue(forKey: ticket.number)?.found ?? [:] }
    }

    /// Reports the outcome of an operation to the callers that wait for it.
    ///
    /// If none waits here, a caller of another gateway may. So the outcome is sent to all gateways for as long as a
    /// caller can wait for it.
    func report(_ operation: OutboxEntry, _ outcome: OperationOutcome, at now: Date) {
        troubles.ends(operation.id)
        guard !take(operation.id, outcome), let nodes else { return }
        switch operation.kind {
        case .register, .remove: break
        case .subscription, .tags, .event:
            guard now.timeIntervalSince(operation.at) <= Double(Self.longestWait) else { break }
            nodes.tell(outcome.note(of: operation.id))
        }
    }

    /// Passes an outcome to its waiting callers; returns whether there were any.
    private func take(_ id: UUID, _ outcome: OperationOutcome) -> Bool {
        let (over, isWanted) = contents.withLock { contents -> ([AsyncSignal], Bool) in
            var over: [AsyncSignal] = []
            var isWanted = false
            for (number, wait) in contents.waits where wait.missing.contains(id) {
                isWanted = true
                contents.waits[number]?.missing.remove(id)
                contents.waits[number]?.found[id] = outcome
                if contents.waits[number]?.missing.isEmpty ?? false { over.append(wait.over) }
            }
            return (over, isWanted)
        }
        for signal in over { signal.signal() }
        return isWanted
    }
}

extension OperationOutcome {
    private static let topic = "operation"

    /// Returns the note for the other gateways.
    fileprivate func note(of id: UUID) -> NodeNote {
        var object = JSONObject()
        object["id"] = .string(id.uuidString)
        switch self {
        case .done(let detail): object["done"] = .object(detail)
        case .failed(let error):
            object["code"] = .string(error.code.rawValue)
            object["message"] = .string(error.message)
            object["reason"] = error.reason.map { .string($0) }
        }
        return NodeNote(topic: Self.topic, body: JSONValue.object(object).bytes)
    }

    /// Reads such a note; nil for any other note.
    fileprivate static func read(_ note: NodeNote) -> (UUID, OperationOutcome)? {
        guard note.topic == topic, let value = try? JSONValue(parsing: note.body),
            let id = value["id"]?.stringValue.flatMap(UUID.init(uuidString:))
        else { return nil }
        if let detail = value["done"]?.objectValue { return (id, .done(detail)) }
        guard let code = value["code"]?.stringValue, let message = value["message"]?.stringValue else { return nil }
        return (id, .failed(PushError(PushError.Code(rawValue: code), message, reason: value["reason"]?.stringValue)))
    }
}
