import Foundation
import ChaparCore
import ChaparQueue

/// New deliveries of one commit that are on disk together, in one row of the table `arrivals`, until each has a row of
/// its own or is in the ``Archive``.
///
/// Most deliveries are claimed from memory and answered right after they came. They go into the archive then, so that
/// no row is ever written for them. A delivery with more than one attempt gets its row before anything else is done
/// with it, so that all other parts of the store use rows only. Deliveries that are still staged when the process dies
/// get rows when the store opens. Used by the writer's thread only.
final class StagedRows {
    /// The most commits whose deliveries have no rows yet; beyond it the oldest get theirs.
    static let most = 64
    /// The greatest age, in milliseconds, of a delivery without a row when expired ones are searched for: the search
    /// reads rows only.
    static let oldest: Int64 = 5_000

    /// The number of its row.
    let number: Int64
    /// When it was written, in milliseconds since 1970.
    let at: Int64
    /// Its deliveries; nil for those that have a row or are in the archive.
    @exclusivity(unchecked) private(set) var entries: [Entry?] = []
    /// The number of deliveries that are still staged.
    @exclusivity(unchecked) private(set) var open = 0
    /// The earliest expiry of its deliveries.
    @exclusivity(unchecked) private(set) var earliestExpiry = Int64.max
    /// Whether the entries came in the order of their numbers, as they nearly always do.
    @exclusivity(unchecked) private var isSorted = true
    /// The numbers of all deliveries that were added, also of those that have left.
    @exclusivity(unchecked) private var numbers: [Int64] = []

    init(number: Int64, at: Int64) {
        self.number = number
        self.at = at
    }

    /// Adds a delivery that has no row.
    func add(_ entry: Entry, _ row: StagedRow.Row) {
        entry.stagedRow = StagedRow(staged: self, index: entries.count, row: row)
        if let last = numbers.last, entry.id < last { isSorted = false }
        numbers.append(entry.id)
        entries.append(entry)
        open += 1
        earliestExpiry = min(earliestExpiry, row.expires)
    }

    /// Returns the delivery with a number; nil when it has left or never was here.
    func entry(_ number: Int64) -> Entry? {
        guard open > 0 else { return nil }
        guard isSorted else { return numbers.firstIndex(of: number).flatMap { entries[$0] } }
        var (low, high) = (0, numbers.count)
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low < numbers.count && numbers[low] == number ? entries[low] : nil
    }

    /// Records that a delivery has a row now, or is in the archive.
    func leave(_ index: Int) {
        entries[index] = nil
        open -= 1
    }

    /// Undoes ``leave(_:)``.
    func restore(_ entry: Entry, _ stagedRow: StagedRow) {
        entry.stagedRow = stagedRow
        entries[stagedRow.index] = entry
        open += 1
    }

    /// Releases its deliveries: they refer to it, and it to them.
    func forget() {
        for entry in entries { entry?.stagedRow = nil }
        entries = []
        numbers = []
    }
}

/// The place of a delivery without a row, and the columns that its row needs besides its ``Entry``.
struct StagedRow {
    /// The columns that no ``Entry`` has.
    struct Row {
        var expires: Int64
        var scheduled: Int64?
    }

    let staged: StagedRows
    let index: Int
    let row: Row
}

extension Entry {
    /// The notification of a delivery without a row, as the store has it; nil with a row.
    var notification: StoredNotification? {
        stagedRow.map { stagedRow in
            StoredNotification(
                id: head.id,
                record: head.record,
                caller: flow.caller,
                dueAt: stagedRow.row.scheduled.map { Date(millisecondsSince1970: $0) },
                expiresAt: Date(millisecondsSince1970: stagedRow.row.expires),
                counts: [state: 1]
            )
        }
    }

    /// The delivery as the store has it while it has no row.
    var stored: StoredDelivery {
        StoredDelivery(
            id: id,
            recipient: recipient,
            state: state,
            backend: flow.queue.name,
            dueAt: Date(millisecondsSince1970: due),
            expiresAt: head.expiresAt,
            attemptLog: []
        )
    }

    private var state: DeliveryState { lease == nil ? .queued : .sending }
}

/// The form of the deliveries in a row of the table `arrivals`.
///
/// Each has its numbers in eight bytes, the lowest byte first, then its texts, each with its length before it in the
/// same form.
enum StagedRowPacking {
    /// A delivery as it is read back.
    struct Delivery: Equatable {
        var id: Int64
        var flow: Int64
        var due: Int64
        var expires: Int64
        var scheduled: Int64?
        var recipient: [UInt8]
        var caller: [UInt8]
        /// The notification's ``NotificationRecord``, encoded.
        var record: [UInt8]
    }

    /// The value for no time.
    private static let none = Int64.min

    static func append(
        _ key: DueKey,
        flow: Int64,
        _ row: StagedRow.Row,
        recipient: [UInt8],
        caller: String,
        record: [UInt8],
        to bytes: inout [UInt8]
    ) {
        let numbers: [5 of Int64] = [key.id, flow, key.due, row.expires, row.scheduled ?? none]
        bytes.pack(numbers)
        append(recipient, to: &bytes)
        bytes.pack(Int64(caller.utf8.count))
        bytes.append(contentsOf: caller.utf8)
        append(record, to: &bytes)
    }

    private static func append(_ text: [UInt8], to bytes: inout [UInt8]) {
        bytes.pack(Int64(text.count))
        bytes.append(contentsOf: text)
    }

    /// The error for a row that cannot be read.
    static let damage = StoreError.damaged("arrivals.packed holds bytes that are no deliveries")

    /// Returns the deliveries of a row; nil when it is damaged.
    static func unpack(_ bytes: [UInt8]) -> [Delivery]? {
        var deliveries: [Delivery] = []
        var input = bytes[...]
        while !input.isEmpty {
            guard let id = input.unpackNumber(), let flow = input.unpackNumber(), let due = input.unpackNumber(),
                let expires = input.unpackNumber(), let scheduled = input.unpackNumber(),
                let recipient = text(&input), let caller = text(&input), let record = text(&input),
                StoredRange.ids.contains(id), StoredRange.moments.contains(due),
                StoredRange.moments.contains(expires), NotificationRecord(encoded: record) != nil,
                scheduled == none || StoredRange.moments.contains(scheduled)
            else { return nil }
            deliveries.append(
                Delivery(
                    id: id,
                    flow: flow,
                    due: due,
                    expires: expires,
                    scheduled: scheduled == none ? nil : scheduled,
                    recipient: recipient,
                    caller: caller,
                    record: record
                )
            )
        }
        return deliveries
    }

    private static func text(_ input: inout ArraySlice<UInt8>) -> [UInt8]? {
        input.unpackNumber().flatMap { input.unpackText($0) }
    }
}
