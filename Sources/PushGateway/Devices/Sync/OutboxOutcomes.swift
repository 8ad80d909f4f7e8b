internal import Foundation
internal import PushCore
internal import PushQueue
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

    /// The reasons of the entries that still wait.
    let troubles = OutboxTroubles()
    private let contents = Mutex(Contents())
    /// The other gateways that share the store; nil when none can.
    private let nodes: (any NodeExchange)?

    /// Makes one that hears what other gateways have done.
    init(_ nodes: (any NodeExchange)? = nil) {
        self.nodes = nodes
        nodes?.hear { [weak self] note in
            if let (id, outcome) = OperationOutcome.read(note) { _ = self?.take(id, outcome) }
        }
    }

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

    /// An operation is over: tells the callers that wait for it.
    ///
    /// Where none waits here, one of another gateway may: of the operations that a caller can wait for, while it still
    /// can, all gateways are told.
    func report(_ operation: OutboxEntry, _ outcome: OperationOutcome, at now: Date) {
        troubles.ends(operation.id)
        guard !take(operation.id, outcome), let nodes else { return }
        switch operation.kind {
        case .register, .remove: break
        case .subscription, .tags, .event:
            guard now.timeIntervalSince(operation.at) <= Double(SyncEndpoint.longestWait) else { break }
            nodes.tell(outcome.note(of: operation.id))
        }
    }

    /// Whether somebody waited for an operation.
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

    /// What the other gateways are told.
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

    /// Reads such a note; nil when it is another one.
    fileprivate static func read(_ note: NodeNote) -> (UUID, OperationOutcome)? {
        guard note.topic == topic, let value = try? JSONValue(parsing: note.body),
            let id = value["id"]?.stringValue.flatMap(UUID.init(uuidString:))
        else { return nil }
        if let detail = value["done"]?.objectValue { return (id, .done(detail)) }
        guard let code = value["code"]?.stringValue, let message = value["message"]?.stringValue else { return nil }
        return (id, .failed(PushError(PushError.Code(rawValue: code), message, reason: value["reason"]?.stringValue)))
    }
}
