import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("Findings of chapar doctor about files", .timeLimit(.minutes(2)), .about("apns"))
struct DoctorFilesTests {
    /// The verdict of each check of files.
    private static func verdicts(_ rig: SandboxRig, _ more: [String] = []) async throws -> [String: Set<String>] {
        let result = try await Program.run(["doctor", "--config", rig.config, "--json", "--timeout", "1"] + more)
        var found: [String: Set<String>] = [:]
        for line in result.lines {
            let finding = try JSONValue(parsing: Array(line.utf8))
            guard finding["subject"]?.stringValue == "files", let check = finding["check"]?.stringValue else {
                continue
            }
            found[check, default: []].insert(finding["verdict"]?.stringValue ?? "")
        }
        return found
    }

    private static func chmod(_ mode: Int, _ path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
    }

    @Test("It warns of configuration, keys, database and backups that others can read or replace, and of nothing else")
    func modes() async throws {
        try await SandboxRig.run { rig in
            let store = rig.folder.appending(path: "chapar.db").path
            let backups = rig.folder.appending(path: "backups").path
            try FileManager.default.createDirectory(atPath: backups, withIntermediateDirectories: true)
            try Data("copy".utf8).write(to: URL(filePath: backups + "/copy.db"))
            for suffix in ["", "-wal", "-shm"] { try Data().write(to: URL(filePath: store + suffix)) }
            let secret = try FileManager.default.contentsOfDirectory(atPath: rig.folder.path).filter {
                $0.hasSuffix(".p8")
            }
            try #require(!secret.isEmpty)
            let keys = secret.map { rig.folder.appending(path: $0).path }
            let files = [rig.config, store, store + "-wal", store + "-shm", backups + "/copy.db"]

            for file in files + keys { try Self.chmod(0o600, file) }
            for file in try FileManager.default.contentsOfDirectory(atPath: rig.folder.path) {
                let path = rig.folder.appending(path: file).path
                if file != "backups" { try Self.chmod(0o600, path) }
            }
            try Self.chmod(0o700, rig.folder.path)
            try Self.chmod(0o700, backups)
            let closed = try await Self.verdicts(rig, ["--backups", backups])
            for check in ["configuration", "key files", "database", "backups"] {
                #expect(closed[check] == ["ok"], "\(check)")
            }

            for (file, check) in [
                (rig.config, "configuration"), (keys[0], "key files"), (store, "database"),
                (store + "-wal", "database"),
                (store + "-shm", "database"), (backups + "/copy.db", "backups"),
            ] {
                try Self.chmod(file == rig.config ? 0o622 : 0o640, file)
                let found = try await Self.verdicts(rig, ["--backups", backups])
                #expect(found[check]?.contains("warning") == true, "\(file)")
                try Self.chmod(0o600, file)
            }
            for (folder, check) in [(rig.folder.path, "database"), (backups, "backups")] {
                try Self.chmod(0o770, folder)
                #expect(try await Self.verdicts(rig, ["--backups", backups])[check]?.contains("warning") == true)
                try Self.chmod(0o700, folder)
            }
        }
    }

    @Test(
        "Its last line calls all in order only where nothing failed and nothing is warned of",
        arguments: [
            (0, 0, "All in order."), (0, 1, "Nothing failed, 1 warning: see above."),
            (0, 2, "Nothing failed, 2 warnings: see above."), (1, 0, "1 of 9 checks failed."),
            (2, 1, "2 of 9 checks failed, 1 warning."), (3, 2, "3 of 9 checks failed, 2 warnings."),
        ] as [(Int, Int, String)]
    )
    func summary(failures: Int, warnings: Int, expected: String) {
        #expect(DoctorCommand.summary(failures, warnings: warnings, of: 9) == expected)
    }

    @Test("A gateway that cannot send anything is not in order")
    func noBackends() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let config = try folder.write("server: { port: 0 }\nauth: { keyless: true }\nbackends: {}\n", to: "chapar.yaml")
        let result = try await Program.run(["doctor", "--config", config])
        #expect(result.output.contains("nothing can be sent"), "\(result)")
        let last = try #require(result.lines.last)
        #expect(last.contains("warning") && !last.contains("All in order"), "\(result)")
    }

    @Test("A store that is a folder, or in none, is named with its field, and nothing is made beside it")
    func folderAsStore() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let place = folder.url.appending(path: "real").path
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
        let text = "server: { port: 0 }\nauth: { keyless: true }\nbackends: {}\nstore: { path: PATH }\n"
        let config = try folder.write(text.replacing("PATH", with: place), to: "chapar.yaml")
        let doctor = try await Program.run(["doctor", "--config", config])
        #expect(doctor.output.contains("store.path: \(place) is a folder"), "\(doctor)")
        let serve = try await Program.run(["serve", "--config", config])
        #expect(serve.status == 3 && serve.errors.contains("store.path: \(place) is a folder"), "\(serve)")
        #expect(!FileManager.default.fileExists(atPath: place + ".lock"))
        let nowhere = try folder.write(text.replacing("PATH", with: "\(place)/no/x.db"), to: "nowhere.yaml")
        let missing = try await Program.run(["serve", "--config", nowhere])
        #expect(missing.status != 0 && missing.errors.contains("store.path: there is no folder"), "\(missing)")
        let below = try folder.write(text.replacing("PATH", with: "\(config)/x.db"), to: "below.yaml")
        let refused = try await Program.run(["serve", "--config", below])
        #expect(refused.status == 3 && refused.errors.contains("\(config) is a file and no folder"), "\(refused)")
    }

    @Test("It says which key the store needs, and the gateway does not start with a key that is none")
    func keys() async throws {
        try await SandboxRig.run { rig in
            let without = try await Self.verdicts(rig)
            #expect(
                without["encryption"] == ["warning"],
                "a credential of the sandbox is refreshed, and there is no key"
            )
            let doctor = try await Program.run(["doctor", "--config", rig.config, "--timeout", "1"])
            #expect(doctor.output.contains("docs/Operations.md, \"Encrypted credentials\""), "\(doctor.output)")
            let good = Data(repeating: 9, count: 32).base64EncodedString()
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            func configure(_ line: String) throws {
                let changed = text.replacingOccurrences(of: "\nstore:\n", with: "\nstore:\n  encryption: \(line)\n")
                try changed.write(toFile: rig.config, atomically: true, encoding: .utf8)
            }
            try configure("{ key_command: [/bin/echo, planted-secret] }")
            let refused = try await Program.run(["serve", "--config", rig.config])
            #expect(refused.status == 3 && refused.errors.contains("store.encryption"), "\(refused.errors)")
            #expect(!refused.errors.contains("planted-secret"))
            #expect(try await Self.verdicts(rig)["encryption"] == ["failure"])
            try configure("{ key: \"${STORE_KEY}\" }")
            let shown = try await Program.run(
                ["config", "print", "--config", rig.config],
                environment: ["STORE_KEY": good]
            )
            #expect(shown.status == 0 && !shown.output.contains(good))
            #expect(shown.output.contains("store.encryption.key"))
            let gateway = try await rig.serve(environment: ["STORE_KEY": good])
            defer { gateway.child.kill() }
            #expect(!gateway.child.errors.contains(good))
        }
    }
}
