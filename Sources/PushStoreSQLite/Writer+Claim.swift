import Foundation
import PushCore

/// Giving deliveries to those who ask, and taking back what they hold for too long.
extension Writer {
    /// So many deliveries are read from disk at most for the calls that wait, whatever they ask for.
    private static let largestHandOut = 10_000

    /// Reads on from disk when a lane that is asked for work runs low in memory.
    func loadWindow(of lane: Lane) {
        let asked = min(lane.tickets.reduce(0) { $0 + max(0, $1.limit) }, Self.largestHandOut)
        let wanted = max(core.options.pageSize, asked)
        guard let frontier = lane.frontier, frontier.due <= now, lane.windowCount < wanted else { return }
        let pageSize = max(core.options.pageSize, wanted - lane.windowCount)
        do throws(StoreError) {
            let page = sql.page
            page.bind(1, lane.number)
            page.bind(2, frontier.due)
            page.bind(3, frontier.id)
            var numbers: [Int64] = []
            var next: DueKey?
            while try page.next() {
                let key = DueKey(due: page.integer(0), id: page.integer(1))
                if numbers.count == pageSize || key.due > now {
                    next = key
                    page.reset()
                    break
                }
                if book.claims[key.id] == nil { numbers.append(key.id) }
            }
            var reader = RowReader(sql, book)
            for number in numbers {
                guard let entry = try reader.entry(number), !book.isHeld(number, entry.collapseKey) else { continue }
                lane.load(entry, now: now)
            }
            lane.advanceFrontier(to: next)
        } catch {
            core.status.note(error, now: now)
            for ticket in lane.tickets { ticket.answer(.failure(error)) }
            lane.tickets.removeAll()
        }
    }

    /// Gives what is in memory and due to those who wait for it.
    func handOut() {
        for lane in book.lanes where !lane.tickets.isEmpty {
            while let assignment = assignment(for: lane), let entry = lane.takeNext(now: now) {
                if give(entry, to: assignment, waited: true) { list(entry, assignment.lease) }
            }
        }
    }

    /// The call that the next delivery of a lane goes to; nil when nobody waits.
    func assignment(for lane: Lane) -> Journal.Assignment? {
        if let filling = journal.filling[lane.number], !filling.isFull { return filling }
        while !lane.tickets.isEmpty {
            let ticket = lane.tickets.removeFirst()
            if ticket.isCancelled || ticket.limit <= 0 {
                ticket.answer(.success([]))
                continue
            }
            let assignment = Journal.Assignment(
                ticket,
                book.makeLease(until: now + ticket.lease.boundedMilliseconds)
            )
            journal.assignments.append(assignment)
            journal.filling[lane.number] = assignment
            return assignment
        }
        return nil
    }

    /// Claims a delivery; false when it was held back.
    func give(_ entry: Entry, to assignment: Journal.Assignment, waited: Bool) -> Bool {
        guard book.claim(entry, under: assignment.lease) else { return false }
        assignment.entries.append(entry)
        journal.given.append((entry, waited))
        return true
    }

    /// Notes that a claim has to be on disk before it is given out: after a crash it must be known.
    func list(_ entry: Entry, _ lease: Lease) {
        if journal.listings.last?.lease !== lease { journal.listings.append((lease, [])) }
        journal.listings[journal.listings.count - 1].deliveries.append(entry.id)
    }

    /// Writes which deliveries were given out, and forgets the lists of those that are all back.
    func writeLeases() throws(StoreError) {
        for (lease, deliveries) in journal.listings {
            try begin()
            lease.isListed = true
            sql.insertLease.bind(1, lease.number)
            sql.insertLease.bind(2, blob: LeaseList.pack(deliveries))
            try sql.insertLease.run()
        }
        for (number, count) in journal.settled {
            guard let lease = book.leases[number], lease.isListed, lease.remaining == count else { continue }
            try begin()
            sql.deleteLease.bind(1, number)
            try sql.deleteLease.run()
        }
    }

    /// Makes deliveries claimable again whose owners kept them too long.
    func lapseLeases() throws(StoreError) {
        guard book.nextLapse <= now else { return }
        for lease in book.leases.values where lease.deadline <= now {
            for entry in lease.entries where entry.lease === lease && book.claims[entry.id] === entry {
                try begin()
                try writeOut(entry)
                sql.abandon.bind(1, entry.id)
                try sql.abandon.run()
                settle(entry)
                let again = Entry(
                    id: entry.id,
                    head: entry.head,
                    recipient: entry.recipient,
                    lane: entry.lane,
                    due: entry.due,
                    step: entry.step,
                    attempts: entry.attempts,
                    story: entry.story,
                    collapse: entry.collapse,
                    isReplay: true,
                    isRecovered: true
                )
                journal.effects.append(.returned(entry, as: again))
            }
        }
        journal.answers.append { [book] in book.updateNextLapse() }
    }

    /// Takes a delivery from its owner, as part of this transaction.
    func settle(_ entry: Entry) {
        _ = book.take(entry.id)
        journal.taken.append(entry)
        if let lease = entry.lease { journal.settled[lease.number, default: 0] += 1 }
    }

    /// Answers the calls whose patience has ended.
    func sendAwayImpatient() {
        for lane in book.lanes where !lane.tickets.isEmpty {
            lane.tickets.removeAll { ticket in
                guard ticket.isCancelled || ticket.until <= now else { return false }
                ticket.answer(.success([]))
                return true
            }
        }
    }

    /// Sets the alarm for the next moment that something is to be done.
    ///
    /// True when that moment is now.
    func setAlarm() -> Bool {
        var next = book.nextLapse
        for lane in book.lanes {
            for ticket in lane.tickets { next = min(next, ticket.until) }
            if !lane.tickets.isEmpty, let key = lane.next { next = min(next, key.due) }
        }
        if let patience = core.feed.expire(now: core.time.now.millisecondsSince1970) { next = min(next, patience) }
        if let look = core.bell.expire(now: core.time.now.millisecondsSince1970) { next = min(next, look) }
        if next <= now { return true }
        if next < .max { core.alarm.set(next) }
        return false
    }
}

/// The form in which a lease's deliveries are listed on disk: eight bytes for each number.
enum LeaseList {
    static func pack(_ deliveries: [Int64]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(deliveries.count * 8)
        for number in deliveries {
            withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }

    static func unpack(_ bytes: [UInt8]) -> [Int64] {
        stride(from: 0, to: bytes.count - 7, by: 8).map { start in
            (0..<8).reduce(Int64(0)) { $0 | Int64(bytes[start + $1]) << Int64(8 * $1) }
        }
    }
}
