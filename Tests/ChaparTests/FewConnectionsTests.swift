#if Postgres
    import Foundation
    import ChaparSandbox
    import Testing

    /// A real server that takes 20 connections, and gateways that need twelve each.
    @Suite("A database without room for a gateway's connections", .timeLimit(.minutes(2)), .about("apns"))
    struct FewConnectionsTests {
        /// Starts a private server in a folder that is not there yet; it ends with the handle.
        private static func start(_ folder: String, _ rig: SandboxRig) async throws -> FileHandle {
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../Examples/Cluster/postgres-server").standardizedFileURL.path
            let said = rig.folder.appending(path: "postgres.out")
            try Data().write(to: said)
            let (server, input) = (Process(), Pipe())
            server.executableURL = URL(filePath: "/bin/bash")
            server.arguments = [script, folder, "max_connections=20", "fsync=off"]
            server.standardInput = input
            server.standardOutput = try FileHandle(forWritingTo: said)
            try server.run()
            try await Program.wait("a line of PostgreSQL's") {
                try String(contentsOf: said, encoding: .utf8).contains("\n") ? true : nil
            }
            #expect(try String(contentsOf: said, encoding: .utf8) == "ready\n")
            return input.fileHandleForWriting
        }

        @Test("A gateway that finds no room ends with 75 and the sum, and the one that runs goes on")
        func second() async throws {
            try await SandboxRig.run { rig in
                let folder = FileManager.default.temporaryDirectory
                    .appending(path: "chapar-few-\(ProcessInfo.processInfo.processIdentifier)").path
                let server = try await Self.start(folder, rig)
                defer { try? server.close() }
                let text = try String(contentsOfFile: rig.config, encoding: .utf8)
                let store = "store: { kind: postgres, url: \"postgres://chapar@/postgres?host=\(folder)\" }\n"
                try text.replacing(/(?m)^store:\n(?:  .*\n)+/, with: store)
                    .write(toFile: rig.config, atomically: true, encoding: .utf8)
                let first = try await rig.serve()
                defer { first.child.kill() }
                for _ in 0..<2 {
                    let refused = try await Program.run(["serve", "--config", rig.config])
                    #expect(refused.status == 75, "\(refused.errors)")
                    for words in ["has room for ", " of the 12 connections of this gateway: raise max_connections to"] {
                        #expect(refused.errors.contains(words), "\(refused.errors)")
                    }
                    #expect(!refused.errors.contains("listening"), "it must never be ready")
                    let load = Load()
                    try await load.run(through: first, until: .milliseconds(100)) {
                        _ = try await Program.wait("some load") { () -> Bool? in load.accepted.isEmpty ? nil : true }
                    }
                    #expect(load.failures == 0)
                }
            }
        }
    }
#endif
