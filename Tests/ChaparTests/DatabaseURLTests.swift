#if Postgres
    import ChaparCore
    import Testing

    @Suite("A database's URL that is not to be used", .timeLimit(.minutes(2)))
    struct DatabaseURLTests {
        private static func write(_ url: String, to folder: TestFolder) throws -> String {
            try folder.write(
                "server: { port: 0 }\nauth: { keyless: true }\nstore:\n  kind: postgres\n  url: \"\(url)\"\nbackends: {}\n",
                to: "chapar.yaml"
            )
        }

        @Test(
            "check and serve name it with its place",
            arguments: [
                ("jdbc:postgresql://db/chapar", "must begin with postgres://"), ("./chapar.db", "must begin with"),
                ("host=db port=5432", "must begin with"), ("postgres://chapar@db:99999/chapar", "names a port"),
                ("postgres://chapar@db", "names no database"),
                ("postgres://chapar@db/chapar?schema=public", "the schema is store.schema"),
                ("postgres://chapar@db/chapar?foo=1", "?foo= is not known here"),
                ("postgres://chapar@db/chapar?sslmode=on", "?sslmode= is none of disable"),
            ]
        )
        func named(url: String, words: String) async throws {
            let folder = try TestFolder()
            defer { folder.remove() }
            let file = try Self.write(url, to: folder)
            let check = try await Program.run(["check", "--json", "--config", file])
            #expect(check.status == 3, "\(check)")
            let issue = try JSONValue(parsing: Array(check.output.utf8))["issues"]?.arrayValue?.first
            #expect(issue?["path"] == "store.url" && issue?["line"] == 5, "\(check)")
            #expect(issue?["problem"]?.stringValue?.contains(words) == true, "\(check)")
            let serve = try await Program.run(["serve", "--config", file])
            #expect(serve.status == 3 && serve.errors.contains(words), "\(serve)")
        }

        @Test(
            "A password that is not encoded is not repeated, by no command",
            arguments: ["p@s3cret", "p/s3cret", "1/s3cret", "p@s3cret/s3cret", "p@\u{301}s3cret", "s3cret/x?s3cret=1"]
        )
        func password(text: String) async throws {
            let folder = try TestFolder()
            defer { folder.remove() }
            let file = try Self.write("postgres://chapar:\(text)@127.0.0.1:1/chapar", to: folder)
            for (command, status) in [("check", 3), ("serve", 3), ("doctor", 1)] as [(String, Int32)] {
                let result = try await Program.run([command, "--config", file])
                let said = result.output + result.errors
                #expect(result.status == status, "\(command): \(said)")
                #expect(!said.contains("s3cret"), "\(command): \(said)")
                #expect(said.contains("%40 %2F %3A, or use store.password"), "\(command): \(said)")
            }
        }

        @Test("A good one is good, its password encoded")
        func good() async throws {
            let folder = try TestFolder()
            defer { folder.remove() }
            let file = try Self.write("postgres://chapar:p%40%2F%3A@127.0.0.1:1/chapar?sslmode=disable", to: folder)
            let check = try await Program.run(["check", "--config", file])
            #expect(check.status == 0, "\(check)")
        }
    }
#endif
