internal import Foundation
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// The rows of new notifications, column by column, as one statement takes them.
struct EnqueueRows: Sendable {
    /// Deliveries that a waiting call, or ``PrefetchedClaims`` for calls to come, gets as soon as they are committed.
    struct Assignment: Sendable {
        let backend: String
        /// The call; nil for prefetched claims.
        let ticket: ClaimTicket?
        let limit: Int
        let normalLimit: Int
        var claims: [Claim] = []
        var normal = 0

        init(_ ticket: ClaimTicket) {
            (backend, self.ticket) = (ticket.backend, ticket)
            (limit, normalLimit) = (ticket.limit, ticket.normal)
        }

        init(prefetchFor backend: String, room: Int) {
            (self.backend, ticket, limit, normalLimit) = (backend, nil, room, room)
        }

        func hasRoom(isUrgent: Bool) -> Bool { claims.count < limit && (isUrgent || normal < normalLimit) }
    }

    private var ids: [Int64?] = []
    private var counts: [Int64?] = []
    private var callers: [String?] = []
    private var scheduled: [Int64?] = []
    private var expires: [Int64?] = []
    private var collapseIDs: [String?] = []
    private var records: [[UInt8]?] = []

    private var deliveries: [Int64?] = []
    private var notifications: [Int64?] = []
    private var flows: [Int64?] = []
    private var dues: [Int64?] = []
    private var ends: [Int64?] = []
    private var owners: [Int64?] = []
    private var leases: [Int64?] = []
    private var collapses: [Int64?] = []
    private var planPlaces: [Int64?] = []
    private var recipients: [String?] = []

    private var searchHashes: [Int64?] = []
    private var searchDeliveries: [Int64?] = []

    private(set) var events: [[UInt8]?] = []
    private(set) var assignments: [Assignment] = []
    /// The backends where something waits now, with the earliest due time.
    private(set) var stirred: [String: Int64] = [:]
    private(set) var heads: [(Int64, NotificationHead)] = []
    var count: Int { deliveries.count }
    var isEmpty: Bool { ids.isEmpty && events.isEmpty }

    private let core: StoreCore
    private let now: Int64
    private let node: (number: Int64, slot: Int64)
    /// The number of the lease under which deliveries are claimed at once; nil when none may be.
    private let lease: Int64?
    /// The index of the assignment that each backend's deliveries go to.
    private var filling: [String: Int] = [:]

    init(_ core: StoreCore, lease: Int64?) {
        self.core = core
        self.lease = lease
        now = core.now
        node = core.place
    }

    /// Adds a notification; `held` says for each recipient whether it must wait for another delivery with its collapse
    /// key.
    mutating func add(_ new: NewNotification, held: [Bool] = []) throws(PostgresError) {
        guard !new.recipients.isEmpty else {
            throw .declined(.failed("the notification \(new.id) has no recipient"))
        }
        guard new.recipients.count <= NodeNumbers.largest else {
            throw .declined(.failed("the notification \(new.id) has more than \(NodeNumbers.largest) deliveries"))
        }
        guard !new.record.plans.isEmpty else {
            throw .declined(.failed("the notification \(new.id) has no plan"))
        }
        // The number is from before this node was declared dead: its slot may be another node's by now.
        guard NodeNumbers.isNumber(new.id, of: node.slot) else {
            throw .declined(
                .full(
                    reason: "the other gateways took this one for dead while this was on its way",
                    retryAfter: .seconds(1)
                )
            )
        }
        let scheduledAt = new.dueAt?.millisecondsSince1970
        let expiresAt = new.expiresAt.millisecondsSince1970
        let due = max(scheduledAt ?? new.record.acceptedAt.millisecondsSince1970, 0)
        let head = NotificationHead(new)
        let flowOf = try head.heads.map { (head) throws(PostgresError) in try flow(head.plan, new) }
        ids.append(new.id.rawValue)
        counts.append(Int64(new.recipients.count))
        callers.append(new.caller)
        scheduled.append(scheduledAt)
        expires.append(expiresAt)
        collapseIDs.append(new.collapseID)
        records.append(new.record.encoded)
        heads.append((new.id.rawValue, head))
        let isUrgent = new.isUrgent
        for (index, recipient) in new.recipients.enumerated() {
            let plan = new.planIndex(ofRecipient: index)
            let (flow, backend) = flowOf[plan]
            let id = new.id.delivery(at: index)
            let form = recipient.storedForm
            deliveries.append(id)
            notifications.append(new.id.rawValue)
            flows.append(flow)
            dues.append(due)
            ends.append(expiresAt)
            planPlaces.append(Int64(plan))
            recipients.append(form)
            collapses.append(new.collapseID.map { CollapseHash.of(Array(form.utf8), $0) })
            if new.collapseID == nil, due <= now, let place = assignment(backend, isUrgent), let lease {
                assignments[place].claims.append(
                    Claim(
                        delivery: ClaimedDelivery(
                            id: id,
                            head: head.heads[plan],
                            recipient: recipient,
                            caller: new.caller,
                            lease: lease
                        ),
                        flow: flow,
                        due: due,
                        isUrgent: isUrgent,
                        collapse: nil
                    )
                )
                if !isUrgent { assignments[place].normal += 1 }
                owners.append(node.number)
                leases.append(lease)
            } else {
                owners.append(index < held.count && held[index] ? 0 : nil)
                leases.append(0)
                stirred[backend] = min(stirred[backend] ?? .max, due)
            }
        }
        if !new.event.isEmpty { events.append(new.event) }
        guard new.hasSearchKeys else { return }
        new.forEachSearchKey { key, delivery in
            searchHashes.append(key.hash)
            searchDeliveries.append(delivery)
        }
    }

    mutating func add(event: [UInt8]) { events.append(event) }

    private func flow(_ plan: DeliveryPlan, _ new: NewNotification) throws(PostgresError) -> (Int64, String) {
        guard let backend = plan.backends.first else {
            throw .declined(.failed("the notification \(new.id) has no backend"))
        }
        let flow = Flow(backend: backend, isUrgent: new.isUrgent, caller: new.caller)
        guard let number = core.flows.number(of: flow) else { throw .declined(.failed("\(flow) has no number")) }
        return (number, core.flows.target(of: backend))
    }

    /// Returns the index of the assignment for the next delivery of a backend: of a parked call, else of
    /// ``PrefetchedClaims`` while there is room.
    private mutating func assignment(_ backend: String, _ isUrgent: Bool) -> Int? {
        guard lease != nil else { return nil }
        if let place = filling[backend] {
            if assignments[place].hasRoom(isUrgent: isUrgent) { return place }
            if assignments[place].ticket == nil { return nil }
        }
        let next =
            core.claimWaiters.takeParked(backend, isUrgent: isUrgent).map { Assignment($0) }
            ?? Assignment(prefetchFor: backend, room: core.claimWaiters.room(backend))
        assignments.append(next)
        filling[backend] = assignments.count - 1
        return next.hasRoom(isUrgent: isUrgent) ? assignments.count - 1 : nil
    }

    /// The error of a node that has lost its place: nothing was stored, and nothing can be until it has a new one.
    static let lostPlace = PostgresError.declined(
        .full(
            reason: "the other gateways took this one for dead, and it has not begun anew yet",
            retryAfter: .seconds(1)
        )
    )

    /// The statement that writes all rows, or none when this node has lost its place.
    ///
    /// A node loses its place when it stood still for longer than its lease: another may give out the same numbers by
    /// now.
    private static let insertion = insertion(keys: "")

    /// The same with the keys by which a search finds the deliveries.
    private static let insertionWithKeys = insertion(
        keys: """
            , keyed AS (
                INSERT INTO chapar.search_keys (hash, delivery) SELECT * FROM unnest($22::bigint[], $23::bigint[])
                WHERE EXISTS (SELECT FROM place)
            )
            """
    )

    private static func insertion(keys: String) -> String {
        """
        WITH place AS MATERIALIZED (
            SELECT FROM chapar.nodes WHERE number = $20 AND slot = $21
        ), notified AS (
            INSERT INTO chapar.notifications
                (id, count, caller, scheduled, expires, collapse_id, record)
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[],
                $7::bytea[])
            WHERE EXISTS (SELECT FROM place)
        ), told AS (
            INSERT INTO chapar.events (at, count, texts)
            SELECT $18, cardinality($19::bytea[]), $19 WHERE cardinality($19::bytea[]) > 0 AND EXISTS (SELECT FROM place)
        )\(keys)
        INSERT INTO chapar.waiting
            (id, notification, flow, due, expires, owner, lease, collapse, plan, recipient)
        SELECT * FROM unnest($8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
            $14::bigint[], $15::bigint[], $16::bigint[], $17::text[])
        WHERE EXISTS (SELECT FROM place)
        """
    }

    /// The statement for these rows.
    private var statement: String { searchHashes.isEmpty ? Self.insertion : Self.insertionWithKeys }

    /// The parameters of ``insertion``.
    private var parameters: [PostgresValue] {
        [
            .integers(ids), .integers(counts), .texts(callers), .integers(scheduled), .integers(expires),
            .texts(collapseIDs), .byteArrays(records), .integers(deliveries), .integers(notifications),
            .integers(flows), .integers(dues), .integers(ends), .integers(owners), .integers(leases),
            .integers(collapses), .integers(planPlaces), .texts(recipients), .integer(now), .byteArrays(events),
            .integer(node.number), .integer(node.slot),
        ] + (searchHashes.isEmpty ? [] : [.integers(searchHashes), .integers(searchDeliveries)])
    }

    /// Writes all rows in a transaction of their own.
    func insert(on connection: PostgresConnection) async throws(PostgresError) {
        guard !isEmpty else { return }
        let changed = try await connection.single(statement, parameters) { (rows) throws(PostgresError) in
            rows.changed
        }
        if changed < count { throw Self.lostPlace }
    }

    /// Writes all rows as a part of a transaction.
    func insert(_ db: isolated PostgresConnection) throws(PostgresError) {
        guard !isEmpty else { return }
        if try db.run(statement, parameters).changed < count { throw Self.lostPlace }
    }
}
