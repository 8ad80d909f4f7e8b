#if Postgres
    import ChaparCore
    import Testing

    @testable import ChaparCommands
    @testable import ChaparStorePostgres

    @Suite("Findings of chapar doctor about a database")
    struct DatabaseFindingsTests {
        private static let sound = PostgresLook(
            version: "15.3",
            isSupported: true,
            missingSteps: 0,
            isNewer: false,
            mayChange: true,
            nodes: ["one", "two"],
            oldestSnapshot: nil
        )

        private func findings(_ change: (inout PostgresLook) -> Void = { _ in }) -> [Diagnosis] {
            var look = Self.sound
            change(&look)
            return HostChecks.findings(look, "db1", "shop")
        }

        @Test("A sound one is named with the gateways that use it")
        func sound() {
            let found = findings()
            #expect(found.map(\.verdict) == [.ok])
            #expect(found[0].finding.contains("used by one, two"))
        }

        @Test("A snapshot that is held for more than five minutes is a warning that names the session")
        func snapshot() {
            let short = findings { $0.oldestSnapshot = .init(holder: "session 42 (psql)", age: .seconds(300)) }
            #expect(short.map(\.verdict) == [.ok])
            let long = findings { $0.oldestSnapshot = .init(holder: "session 42 (psql)", age: .seconds(301)) }
            #expect(long.map(\.verdict) == [.ok, .warning])
            #expect(long[1].finding.contains("session 42 (psql) has held a snapshot for 301 s"))
            #expect(long[1].fix?.contains("End that session") == true)
        }

        @Test("A harmful setting is a warning, or a failure where something is refused because of it")
        func weaknesses() {
            let found = findings {
                $0.weaknesses = [
                    .init(finding: "synchronous_commit is off", fix: "Set it."),
                    .init(finding: "the encoding is LATIN1", fix: "Make another.", isFailure: true),
                ]
            }
            #expect(found.map(\.verdict) == [.ok, .warning, .failure])
            #expect(found[1].finding == "db1: synchronous_commit is off" && found[2].fix == "Make another.")
        }

        @Test("A server that is too old, a schema from the future and missing rights are failures with a fix")
        func failures() {
            for (found, words) in [
                (findings { $0.isSupported = false }, "Upgrade the server to 15"),
                (findings { $0.isNewer = true }, "Start that version or a newer one"),
                (
                    findings {
                        $0.missingSteps = 2
                        $0.mayChange = false
                    }, "CREATE SCHEMA shop AUTHORIZATION"
                ),
            ] {
                #expect(found.map(\.verdict) == [.failure])
                #expect(found[0].fix?.contains(words) == true)
            }
        }
    }
#endif
