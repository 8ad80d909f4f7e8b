import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue

extension DeliveryHead {
    /// Returns the same head with the plan at an index of the record's plans.
    func with(plan: Int) -> DeliveryHead {
        DeliveryHead(id: id, record: record, notification: notification, plan: plan, expiresAt: expiresAt)
    }
}

/// The order in which deliveries of a flow are claimed: by due time, then by number.
struct DueKey: Comparable {
    var due: Int64
    var id: Int64

    static let lowest = DueKey(due: .min, id: .min)

    static func < (left: DueKey, right: DueKey) -> Bool {
        left.due != right.due ? left.due < right.due : left.id < right.id
    }
}

/// A recipient with a caller's collapse ID at one backend: at most one of its deliveries is claimed at a time.
struct CollapseKey: Hashable {
    var backend: String
    var caller: String
    var hash: Int64
}

/// A delivery that is in memory: in a flow's window, held back, or claimed.
///
/// It represents a row or a staged delivery, and is replaced, not changed, when the delivery waits again. Owners get
/// ``delivery``. Used by the writer's thread only.
final class Entry {
    let id: Int64
    let head: DeliveryHead
    let recipient: Recipient
    let flow: Flow
    let due: Int64
    let step: Int
    let attempts: Int
    let attemptLog: [UInt8]
    let collapse: Int64?
    let collapseKey: CollapseKey?
    /// The bytes of its content in memory; 0 where another delivery of the notification counts them.
    let contentBytes: Int
    /// Whether an attempt may have been delivered.
    var isReplay: Bool
    /// Whether its last owner died without recording a result.
    var isRecovered: Bool
    /// The claim it is under; nil while it waits.
    var lease: Lease?
    /// Its place on disk while it has no row of its own.
    var stagedRow: StagedRow?
    /// Makes the event of its end, when it was cancelled while it was claimed.
    var cancellation: (@Sendable (ClaimedDelivery, DeliveryState) -> [UInt8])?
    /// Whether it was cancelled while an owner had it whose process then died.
    let isCancelled: Bool

    init(
        id: Int64,
        head: DeliveryHead,
        recipient: Recipient,
        flow: Flow,
        due: Int64,
        step: Int = 0,
        attempts: Int = 0,
        attemptLog: [UInt8] = [],
        collapse: Int64? = nil,
        isReplay: Bool = false,
        isRecovered: Bool = false,
        isCancelled: Bool = false,
        contentBytes: Int = 0
    ) {
        self.id = id
        self.head = head
        self.recipient = recipient
        self.flow = flow
        self.due = due
        self.step = step
        self.attempts = attempts
        self.attemptLog = attemptLog
        self.collapse = collapse
        collapseKey = collapse.map { CollapseKey(backend: flow.queue.name, caller: flow.caller, hash: $0) }
        self.contentBytes = contentBytes
        self.isCancelled = isCancelled
        self.isReplay = isReplay
        self.isRecovered = isRecovered
    }

    /// Returns the delivery as it waits again, with what has changed: unclaimed, and with a row.
    ///
    /// The addition to its log counts as an attempt unless `isCounted` is false.
    func waiting(
        in flow: Flow? = nil,
        due: Int64? = nil,
        step: Int? = nil,
        after attempt: [UInt8]? = nil,
        isCounted: Bool = true,
        isReplay: Bool,
        isRecovered: Bool = false,
        isCancelled: Bool = false
    ) -> Entry {
        var attemptLog = attemptLog
        if let attempt {
            if !attemptLog.isEmpty { attemptLog.append(UInt8(ascii: ",")) }
            attemptLog.append(contentsOf: attempt)
        }
        return Entry(
            id: id,
            head: head,
            recipient: recipient,
            flow: flow ?? self.flow,
            due: due ?? self.due,
            step: step ?? self.step,
            attempts: attempts + (attempt == nil || !isCounted ? 0 : 1),
            attemptLog: attemptLog,
            collapse: collapse,
            isReplay: isReplay,
            isRecovered: isRecovered,
            isCancelled: isCancelled,
            contentBytes: contentBytes
        )
    }

    /// Takes the staged row, moved and not copied: this happens to every delivery.
    func takeStagedRow() -> StagedRow? {
        var taken: StagedRow?
        swap(&taken, &stagedRow)
        return taken
    }

    /// About how many bytes of memory it takes.
    var bytes: Int { 512 + contentBytes + attemptLog.count }

    var key: DueKey { DueKey(due: due, id: id) }

    /// Whether an attempt may have been delivered, also one whose owner died.
    var mayHaveBeenSent: Bool { isReplay || isRecovered }

    /// The state in which it ends when it is withdrawn while it waits.
    var withdrawnState: DeliveryState {
        RecordRules.withdrawn(RecordRules.withdrawnState(mayHaveBeenSent: mayHaveBeenSent), attemptLog)
    }

    /// Returns its facts for the rules, without a newer delivery that replaces it.
    func facts(_ standing: RecordFacts.Standing) -> RecordFacts {
        RecordFacts(
            standing,
            mayHaveBeenSent: mayHaveBeenSent,
            isCancelled: cancellation != nil || isCancelled,
            steps: head.plan.backends.count
        )
    }

    /// The delivery as its owner gets it.
    var delivery: ClaimedDelivery {
        ClaimedDelivery(
            id: id,
            head: head,
            recipient: recipient,
            caller: flow.caller,
            step: step,
            attempts: attempts,
            attemptLog: attemptLog,
            isReplay: mayHaveBeenSent,
            isRecovered: isRecovered,
            lease: lease?.number ?? 0,
            isCancelled: isCancelled
        )
    }
}

/// A claim on the deliveries that one call got.
///
/// It holds until the result of each is recorded, and no longer than the process lives. A result under a lease that is
/// not in force changes nothing.
final class Lease {
    /// Its number, larger than that of every lease before it, also before a restart.
    let number: Int64
    /// Whether a row on disk lists its deliveries.
    var isListed = false
    /// The number of its deliveries that are still claimed.
    var remaining = 0

    init(number: Int64) { self.number = number }
}
