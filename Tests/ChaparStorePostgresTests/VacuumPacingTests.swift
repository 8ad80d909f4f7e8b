import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// A vacuum that can remove nothing must not be repeated each minute, and one that can must not be put off.
@Suite("PostgreSQL vacuums of the queue's table", .timeLimit(.minutes(2)))
struct VacuumPacingTests {
    private typealias Reading = VacuumPacing.Reading
    private static let usual = VacuumPacing.usual
    private static let many = VacuumPacing.many

    @Test(
        "The threshold is raised by what a vacuum left, and put back",
        arguments: [
            // A vacuum that removes what is dead, with what died since.
            (Reading(dead: 0, threshold: usual, isAfterVacuum: true), usual),
            (Reading(dead: many - 1, threshold: usual, isAfterVacuum: true), usual),
            // One that left rows.
            (Reading(dead: many, threshold: usual, isAfterVacuum: true), many + many / 4),
            (Reading(dead: 8 * many, threshold: 6 * many, isAfterVacuum: true), 10 * many),
            // Between two.
            (Reading(dead: 9 * many, threshold: 10 * many, isAfterVacuum: false), 10 * many),
            (Reading(dead: 900_000, threshold: usual, isAfterVacuum: false), usual),
            // One that removed them, seen at once and later.
            (Reading(dead: 70_000, threshold: 10 * many, isAfterVacuum: true), usual),
            (Reading(dead: 900_000, threshold: 10 * many, isAfterVacuum: false), usual),
            // None for long: the snapshot may be gone.
            (Reading(dead: 9 * many, threshold: 10 * many, isAfterVacuum: false, isOverdue: true), usual),
        ]
    )
    func wanted(_ reading: VacuumPacing.Reading, _ wanted: Int64) { #expect(reading.wanted == wanted) }

    @Test("A small difference is left alone, the usual threshold is put back in any case")
    func isWrong() {
        #expect(!Reading(dead: 8_200_000, threshold: 10_000_000, isAfterVacuum: true).isWrong)
        #expect(Reading(dead: 9_000_000, threshold: 10_000_000, isAfterVacuum: true).isWrong)
        #expect(Reading(dead: 0, threshold: Self.usual + 1, isAfterVacuum: false).isWrong)
        #expect(!Reading(dead: 0, threshold: Self.usual, isAfterVacuum: false).isWrong)
    }

    @Test("While a snapshot is held, a vacuum raises the table's threshold; the one after its end puts it back")
    func server() async throws {
        // The test vacuums by itself.
        let server = TestServer(["autovacuum=off"])
        let options = try await server.options()
        try await Nodes.use(1, time: ManualTime(), options: options) { nodes in
            let connection = nodes[0].core.reader
            func reading() async throws -> VacuumPacing.Reading {
                try await connection.session { (db) throws(PostgresError) in try VacuumPacing.read(.seconds(60), db) }
            }
            func vacuum() async throws {
                try await connection.session { (db) throws(PostgresError) in try db.perform("VACUUM chapar.waiting") }
                try await VacuumPacing.adjust(span: .seconds(60), on: connection)
            }
            #expect(
                try await reading() == Reading(dead: 0, threshold: Self.usual, isAfterVacuum: false, isOverdue: true)
            )

            let holder = PostgresConnection(options, name: "holder")
            try await holder.session { (db) throws(PostgresError) in
                try db.perform("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
            }
            try await connection.session { (db) throws(PostgresError) in
                let rows = """
                    INSERT INTO chapar.waiting (id, notification, flow, due, expires, owner, lease, plan, recipient)
                    SELECT n, n, 1, 1, 1, 0, 1, 0, 'u' FROM generate_series(1, \(Self.many)) AS n
                    """
                try db.perform("\(rows); DELETE FROM chapar.waiting", within: .seconds(60))
            }
            try await vacuum()
            let raised = try await reading()
            #expect(raised.isAfterVacuum && raised.dead >= Self.many)
            #expect(raised.threshold == raised.dead + raised.dead / 4)
            let inserted = try await connection.session { (db) throws(PostgresError) in
                try db.run(
                    """
                    SELECT option_value::bigint FROM pg_class, pg_options_to_table(reloptions)
                    WHERE oid = 'chapar.waiting'::regclass AND option_name = 'autovacuum_vacuum_insert_threshold'
                    """
                ).integer(0, 0)
            }
            #expect(inserted == raised.threshold, "rows that are added begin a vacuum as well")

            await holder.close()
            // The server may take a moment to end the session.
            try await eventually("the threshold is the usual one again", every: .milliseconds(50)) {
                if try await reading().threshold == Self.usual { return true }
                try await vacuum()
                return false
            }
        }
        try await server.end()
    }
}
