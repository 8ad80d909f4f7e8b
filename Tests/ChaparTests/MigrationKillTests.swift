import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("An upgrade that is killed", .timeLimit(.minutes(5)), .about("apns"))
struct MigrationKillTests {
    /// Multiplies the waiting deliveries of the file of 0.1, so that the step takes long enough to be killed within.
    private static let multiply = """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
        INSERT INTO deliveries (id, state, flow, due, expires, step, attempts, replay, mark, changed, recipient, count,
        accepted, plan, caller, content)
        SELECT d.id + n.i * 8192, 0, flow, due, expires, 0, 0, 0, 0, changed, recipient || n.i, 1, accepted, plan, caller, content
        FROM n, (SELECT * FROM deliveries WHERE id = 192605207673176064) d;
        """

    @Test("by SIGKILL at any moment leaves a file that the same program finishes, with every delivery")
    func killed() async throws {
        try await SandboxRig.run { rig in
            let fixture = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../Fixtures/store-0.1.sql").standardizedFileURL.path
            @Sendable func sqlite(_ sql: String) async throws -> String {
                try await Script.run("sqlite3 chapar.db <<'SQL'\n\(sql)\nSQL\n", in: rig.folder, path: "/usr/bin:/bin")
            }
            _ = try await sqlite(".read \(fixture)\n\(Self.multiply)")
            let questions = """
                SELECT count(*), sum(id % 1000003), sum(due % 1000003), sum(state), count(DISTINCT recipient) FROM deliveries;
                PRAGMA integrity_check;
                """
            let before = try await sqlite(questions)
            let count = "SELECT count(*) FROM grdb_migrations WHERE identifier = '14 records'"
            var unfinished = 0
            for delay in [10, 30, 60, 100, 150, 220, 300, 400, 550, 750] {
                let child = try Child(["migrate", "--config", rig.config])
                try await Task.sleep(for: .milliseconds(delay))  // The moment of the kill is what varies.
                child.kill()
                _ = try? await child.end()
                if try await sqlite(count).hasPrefix("0") {
                    unfinished += 1
                    #expect(try await sqlite(questions) == before, "killed after \(delay) ms")
                }
            }
            #expect(unfinished > 2, "the kills came too late")
            #expect(try await Program.run(["migrate", "--config", rig.config]).status == 0)
            #expect(try await sqlite(count).hasPrefix("1"))
            // The opening gives the two staged deliveries rows.
            let rows = try await sqlite("SELECT count(*) FROM deliveries; PRAGMA integrity_check;")
            let wanted = (Int(before.prefix { $0 != "|" }) ?? 0) + 2
            #expect(rows.split(separator: "\n") == ["\(wanted)", "ok"])
        }
    }
}
