import Foundation
import GRDB
import ChaparCore
import Testing

@testable import ChaparStoreSQLite

@Suite("The schema", .timeLimit(.minutes(1)))
struct SchemaTests {
    /// The released steps, in order.
    ///
    /// A line is never changed or removed: files in the field went through exactly these steps.
    static let released: [(step: String, tables: [String: [String]])] = [
        (
            "1 deliveries",
            [
                "deliveries": [
                    "id", "state", "lane", "due", "expires", "step", "attempts", "replay", "mark", "changed", "head",
                    "collapse", "recipient", "story", "count", "accepted", "scheduled", "plan", "caller", "collapse_id",
                    "content",
                ],
                "lanes": ["number", "name"], "leases": ["number", "deliveries"],
                "events": ["first", "count", "at", "packed"],
                "idempotency": ["caller", "key", "fingerprint", "answer", "keep"], "state": ["name", "value"],
                "marks": ["name", "value"],
            ]
        ),
        (
            "2 devices",
            [
                "devices": [
                    "number", "id", "user", "platform", "tags", "locale", "version", "zone", "created", "updated",
                    "seen",
                ],
                "device_tokens": [
                    "device", "service", "token", "hash", "registered", "as_of", "buried", "backend", "reason", "held",
                ],
                "device_tags": ["tag", "device"],
            ]
        ),
        (
            "3 deliveries in hand",
            [
                "deliveries": [
                    "id", "state", "lane", "due", "expires", "step", "attempts", "replay", "mark", "changed", "head",
                    "collapse", "recipient", "story", "count", "accepted", "scheduled", "plan", "caller", "collapse_id",
                    "content", "room",
                ]
            ]
        ),
        ("4 receipts", ["awaited": ["delivery", "message", "token"]]),
        (
            "5 operations",
            [
                "operations": [
                    "number", "id", "backend", "device", "user", "kind", "body", "at", "attempts", "due", "leased",
                ],
                "devices": [
                    "number", "id", "user", "platform", "tags", "locale", "version", "zone", "created", "updated",
                    "seen", "attributes",
                ],
            ]
        ),
        ("6 arrivals", ["arrivals": ["number", "packed"]]),
        ("7 flows", ["flows": ["number", "backend", "urgent", "caller"], "moves": ["backend", "target"]]),
        ("8 archive", ["archive": ["number", "first", "last", "at", "packed"]]),
        (
            "9 outbox",
            [
                "outbox_changes": ["number", "device", "at", "backend", "old", "new", "operation", "skipped"],
                "operation_depths": ["backend", "waiting"],
            ]
        ),
        (
            "10 refusals",
            [
                "device_tokens": [
                    "device", "service", "token", "hash", "registered", "as_of", "buried", "backend", "reason", "held",
                    "environment", "refusals",
                ]
            ]
        ),
        ("11 token kinds", [:]),
        (
            "12 column names",
            [
                "deliveries": [
                    "id", "state", "flow", "due", "expires", "step", "attempts", "replay", "mark", "changed", "head",
                    "collapse", "recipient", "attempt_log", "count", "accepted", "scheduled", "plan", "caller",
                    "collapse_id", "content", "padding",
                ],
                "device_tokens": [
                    "device", "service", "token", "hash", "registered", "as_of", "invalidated", "backend", "reason",
                    "held", "environment", "refusals",
                ],
            ]
        ),
        (
            "13 outbox entries",
            [
                "outbox_entries": [
                    "number", "id", "backend", "device", "user", "kind", "body", "at", "attempts", "due", "leased",
                ],
                "outbox_depths": ["backend", "waiting"],
                "outbox_changes": ["number", "device", "at", "backend", "old", "new", "entry", "skipped"],
            ]
        ),
        (
            "14 records",
            [
                "deliveries": [
                    "id", "state", "flow", "due", "expires", "step", "attempts", "replay", "mark", "changed", "head",
                    "collapse", "recipient", "attempt_log", "count", "plan", "scheduled", "caller", "collapse_id",
                    "record", "padding",
                ]
            ]
        ),
        (
            "15 search",
            [
                "search_keys": ["bucket", "hash", "place"], "search_ends": ["id"],
                "handled": ["id", "acknowledged", "resent"],
            ]
        ),
    ]

    @Test("Steps are only ever added")
    func steps() { #expect(Schema.migrator.migrations.prefix(Self.released.count) == Self.released.map(\.step)[...]) }

    @Test("Each released step makes the tables it made when it was released", arguments: released.indices)
    func tables(index: Int) throws {
        let queue = try DatabaseQueue()
        try Schema.migrator.migrate(queue, upTo: Self.released[index].step)
        for (table, columns) in Self.released[index].tables {
            let found = try queue.read { try $0.columns(in: table).map(\.name) }
            #expect(found == columns, "table \(table)")
        }
    }

    @Test(
        "Statements of each page or row use an index and sort nothing",
        arguments: [
            """
            SELECT due, id FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 AND flow = 1 AND (due, id) >= (2, 3) ORDER BY due, id
            """,
            """
            SELECT flow, due, id, expires FROM deliveries INDEXED BY waiting
            WHERE state = 0 AND mark <> 2 AND (flow, due, id) > (1, 2, 3) ORDER BY flow, due, id LIMIT 9
            """,
            "SELECT id FROM deliveries WHERE state = 0 AND collapse IS NOT NULL AND collapse = 5",
            "UPDATE deliveries SET state = 1 WHERE id = 5 AND state = 0",
            """
            SELECT changed, id, coalesce(head, id) FROM deliveries INDEXED BY ended
            WHERE state > 0 AND (changed, id) > (1, 2) AND changed < 3 ORDER BY changed, id LIMIT 4
            """,
            "SELECT id FROM deliveries INDEXED BY dead_ends WHERE \(Schema.isDead) AND id < 9 AND id >= 3 ORDER BY id DESC LIMIT 5",
            "SELECT number FROM devices WHERE id = 'a'",
            "SELECT number FROM devices WHERE user = 'a' AND number > 1 ORDER BY number LIMIT 5",
            """
            SELECT d.id FROM device_tags t CROSS JOIN devices d ON d.number = t.device
            WHERE t.device > 1 AND t.tag = 'a' ORDER BY t.device LIMIT 5
            """,
            "SELECT token FROM device_tokens WHERE device = 1 ORDER BY service",
            "SELECT device FROM device_tokens WHERE hash = 1 AND service = 'ios-apns' AND token = 'a'",
            """
            UPDATE device_tokens INDEXED BY tombstones_since SET held = 1
            WHERE backend = 'ios' AND held = 0 AND invalidated >= 5
            """,
            "SELECT min(backend) FROM device_tokens INDEXED BY tombstones WHERE backend > 'a'",
            """
            SELECT device, reason, invalidated FROM device_tokens INDEXED BY tombstones
            WHERE backend = 'ios' AND held = 1 AND device > 3 ORDER BY device
            """,
            """
            SELECT token FROM device_tokens INDEXED BY tombstones CROSS JOIN devices d ON d.number = device
            WHERE backend = 'ios' AND held = 1 AND device > 3 ORDER BY device
            """,
        ]
    )
    func plans(sql: String) throws {
        let queue = try DatabaseQueue()
        try Schema.migrator.migrate(queue)
        let plan = try queue.write { db in
            try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + sql).map { $0["detail"] as String }
        }
        #expect(plan.allSatisfy { $0.hasPrefix("SEARCH") }, "\(plan)")
    }

    @Test(
        "Writing a delivery makes no temporary table",
        arguments: [
            """
            INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, recipient, plan)
            VALUES (1, 0, 1, 2, 3, 0, 0, 0, 0, 2, 'device:a', 0)
            """,
            "UPDATE deliveries SET state = ?2, changed = 3 WHERE id = ?1 AND state = 0",
            "UPDATE deliveries SET flow = 2, due = 5, step = 1, mark = 7 WHERE id = 1 AND state = 0",
            "UPDATE deliveries SET state = ?3, changed = ?4 WHERE id >= ?1 AND id < ?2 AND state = 0",
            "DELETE FROM deliveries WHERE id >= 1 AND id < 5",
        ]
    )
    func programs(sql: String) throws {
        let queue = try DatabaseQueue()
        try Schema.migrator.migrate(queue)
        let steps = try queue.write { db in
            let rows = try db.statement("EXPLAIN " + sql)
            var steps: [String] = []
            while try rows.next() { steps.append(try rows.text(1)) }
            return steps
        }
        #expect(steps.contains("OpenWrite"))
        #expect(!steps.contains("OpenEphemeral"), "\(steps)")
    }
}
