import ArgumentParser
import Foundation
import ChaparCore
import ChaparDelivery
import Testing

@testable import ChaparCommands

/// The life of an API key at the command line and at a running gateway.
@Suite("An API key of a running gateway", .about("apns"), .timeLimit(.minutes(2)))
struct KeysTests {
    /// The status of a request with a key.
    private func status(_ gateway: ServedGateway, _ key: String?) async throws -> Int {
        let client = try gateway.client(key: key.map { Secret($0) })
        let status = try await client.get("/v1/backends").status
        await client.close()
        return status
    }

    /// Makes the gateway read its configuration again.
    private func reload(_ gateway: ServedGateway, times: Int) async throws {
        gateway.child.send(SIGHUP)
        try await Program.wait("reload") { () -> Bool? in
            gateway.child.errors.components(separatedBy: "configuration reloaded").count > times ? true : nil
        }
    }

    @Test("may be made with every scope that a configuration knows")
    func scopes() {
        let known = GatewayConfiguration.APIKey.Scope.allCases
        #expect(KeysCommand.Scope.allCases.map(\.rawValue) == known.map(\.rawValue))
    }

    @Test("is rotated without a gap: the old value opens until it is retired")
    func rotation() async throws {
        try await SandboxRig.run { rig in
            let made = try await Program.run(["keys", "create", "--name", "shop", "--scope", "read", "--json"])
            let json = try JSONValue(parsing: Array(made.output.utf8))
            let old = try #require(json["key"]?.stringValue)
            let before =
                "# Kept as it is.\nauth:\n  api_keys:\n    \(try #require(json["line"]?.stringValue))  # shop's\n"
            try rig.append(before)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            #expect(try await status(gateway, old) == 200)

            let rotated = try await Program.run(["keys", "rotate", "shop", "--config", rig.config, "--json", "--write"])
            #expect(rotated.status == 0, "\(rotated.errors)")
            let new = try #require(try JSONValue(parsing: Array(rotated.output.utf8))["key"]?.stringValue)
            #expect(try await status(gateway, old) == 200)
            try await reload(gateway, times: 1)
            #expect(try await status(gateway, old) == 200)
            #expect(try await status(gateway, new) == 200)

            let retired = try await Program.run(["keys", "retire", "shop", "--config", rig.config, "--write"])
            #expect(retired.status == 0, "\(retired.errors)")
            try await reload(gateway, times: 2)
            #expect(try await status(gateway, old) == 401)
            #expect(try await status(gateway, new) == 200)
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            #expect(text.contains("# Kept as it is.") && text.contains("scopes: [read] }  # shop's"))
            #expect(try await Program.run(["keys", "retire", "shop", "--config", rig.config, "--write"]).status == 1)
            #expect(try await Program.run(["keys", "rotate", "shpo", "--config", rig.config]).status == 1)
        }
    }

    @Test("is not rotated where its hash takes no second one, and the file stays as it is")
    func blockList() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let hash = "sha256:" + String(repeating: "a", count: 64)
        let text = """
            auth:
              api_keys:
                - name: shop
                  scopes: [read]
                  hash:
                    - \(hash)
            backends: {}

            """
        let file = try folder.write(text, to: "chapar.yaml")
        let rotated = try await Program.run(["keys", "rotate", "shop", "--config", file, "--write"])
        #expect(rotated.status == 2 && rotated.errors.contains("as a list in one line"), "\(rotated)")
        #expect(!rotated.output.contains("chp_"))
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    /// A configuration with the key "shop" and this hash, as it is written there.
    private static func text(_ hash: String) -> String {
        "auth:\n  api_keys:\n    - { name: shop, scopes: [read], hash: \(hash) }\nbackends: {}\n"
    }

    private static let hash = "sha256:" + String(repeating: "a", count: 64)

    @Test("is rotated and retired in the quotation marks that stand there", arguments: ["'", "\"", ""])
    func quotes(mark: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(Self.text(mark + Self.hash + mark), to: "chapar.yaml")
        let rotated = try await Program.run(["keys", "rotate", "shop", "--config", file, "--json", "--write"])
        #expect(rotated.status == 0, "\(rotated)")
        let new = try #require(try JSONValue(parsing: Array(rotated.output.utf8))["hash"]?.stringValue)
        let kept = mark.isEmpty ? "\"" : mark
        let both = "[\(kept)\(new)\(kept), \(kept)\(Self.hash)\(kept)]"
        #expect(try String(contentsOfFile: file, encoding: .utf8) == Self.text(both))
        let retired = try await Program.run(["keys", "retire", "shop", "--config", file, "--write"])
        #expect(retired.status == 0, "\(retired)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == Self.text(kept + new + kept))
    }

    /// A key that stands in the files below, as YAML and as JSON.
    private static let old = "{ name: old, hash: \"sha256:\(String(repeating: "b", count: 64))\", scopes: [admin] }"
    private static let oldJSON =
        #"{"name":"old","hash":"sha256:\#(String(repeating: "b", count: 64))","scopes":["admin"]}"#

    /// Files in the forms that keys stand in.
    private static let forms = [
        "backends: {}\n", "# a comment\nauth:\n  # of ours\n  api_keys:\n    - \(old)\nbackends: {}\n",
        "auth:\n  api_keys:\n  - \(old)\n\n# below\nbackends: {}\n",
        "auth:\r\n  api_keys:\r\n    - \(old)\r\nbackends: {}\r\n",
        "auth: { api_keys: [ \(old) ] }\nbackends: {}\n", "auth:\n  api_keys: []\nbackends: {}\n",
        "auth:\n  # none yet\nbackends: {}\n", "{\"auth\":{\"api_keys\":[\(oldJSON)]},\"backends\":{}}\n",
    ]

    @Test("is added by create --write in every usual form of the file, and nothing else changes", arguments: forms)
    func added(form: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(form, to: "chapar.yaml")
        let words = ["keys", "create", "--name", "shop", "--scope", "read", "--config", file]
        let shown = try await Program.run(words)
        #expect(shown.status == 0 && shown.output.contains("No file was changed"), "\(shown)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == form)
        let made = try await Program.run(words + ["--write"])
        #expect(made.status == 0 && made.output.contains("has the line now"), "\(made)")
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(text.contains("shop") && !text.contains("chp_"), "\(text)")
        let listed = try await Program.run(["keys", "list", "--config", file])
        #expect(listed.output.contains("shop") && listed.output.contains("old") == form.contains("old"), "\(listed)")
        for line in form.split(whereSeparator: \.isNewline) where line.hasPrefix("#") {
            #expect(text.contains(line), "a comment is gone: \(text)")
        }
        let again = try await Program.run(words + ["--write"])
        #expect(again.status == 2 && again.errors.contains("keys rotate"), "\(again)")
    }

    @Test(
        "is removed by revoke --write with all of its lines, and the others stay",
        arguments: [
            "    - { name: shop, hash: \"\(hash)\", scopes: [read] }\n",
            "    - name: shop\n      scopes:\n        - read\n      hash: \"\(hash)\"\n",
            "    - hash: \"\(hash)\"\n      # of the shop\n      scopes: [read]\n\n      name: shop\n",
        ]
    )
    func removed(entry: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let head = "auth:\n  api_keys:\n    - \(Self.old)\n"
        for (before, after) in [("", "    # the next\n"), ("    # kept\n", "")] {
            let rest = "\(after)backends: {}\n"
            let file = try folder.write(head + before + entry + rest, to: "chapar.yaml")
            let named = try await Program.run(["keys", "revoke", "shop", "--config", file])
            #expect(named.status == 0 && named.output.contains("No file was changed"), "\(named)")
            let revoked = try await Program.run(["keys", "revoke", "shop", "--config", file, "--write"])
            #expect(revoked.status == 0 && revoked.output.contains("Removed the entry"), "\(revoked)")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == head + before + rest)
            let last = try await Program.run(["keys", "revoke", "old", "--config", file, "--write"])
            #expect(last.status == 2 && last.errors.contains("is the only key"), "\(last)")
        }
    }

    @Test("is not removed from a list in one line, nor rotated with --no-write; the file stays as it is")
    func kept() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let text =
            "auth: { api_keys: [ \(Self.old), { name: shop, hash: \"\(Self.hash)\", scopes: [read] } ] }\nbackends: {}\n"
        let file = try folder.write(text, to: "chapar.yaml")
        let revoked = try await Program.run(["keys", "revoke", "shop", "--config", file, "--write"])
        #expect(revoked.status == 2 && revoked.errors.contains("was left as it is"), "\(revoked)")
        let rotated = try await Program.run(["keys", "rotate", "shop", "--config", file, "--no-write"])
        #expect(rotated.status == 0 && rotated.output.contains("No file was changed"), "\(rotated)")
        #expect(rotated.output.contains(Self.hash), "both values are shown: \(rotated)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    @Test(
        "is changed in the file only when that is asked for: every command says that no file was changed, and how",
        arguments: [
            ["create", "--name", "new"], ["rotate", "shop"], ["retire", "turning"], ["revoke", "shop"],
        ]
    )
    func unasked(arguments: [String]) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let other = "sha256:" + String(repeating: "c", count: 64)
        let third = "sha256:" + String(repeating: "d", count: 64)
        let text = """
            auth:
              api_keys:
                - { name: shop, scopes: [read], hash: "\(Self.hash)" }
                - { name: turning, scopes: [read], hash: ["\(other)", "\(third)"] }
            backends: {}

            """
        let file = try folder.write(text, to: "chapar.yaml")
        let result = try await Program.run(["keys"] + arguments + ["--config", file])
        #expect(result.status == 0 && result.output.contains("No file was changed"), "\(result)")
        #expect(result.output.contains("--write"), "\(result)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    /// A byte order mark, as some editors write it.
    private static let byteOrderMark = "\u{FEFF}"

    @Test("is rotated and retired in a file with a byte order mark, which stays")
    func markedFile() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(Self.byteOrderMark + Self.text(Self.hash), to: "chapar.yaml")
        func hasText(_ hash: String) throws -> Bool {
            try Data(contentsOf: URL(filePath: file)) == Data((Self.byteOrderMark + Self.text(hash)).utf8)
        }
        let rotated = try await Program.run(["keys", "rotate", "shop", "--config", file, "--json", "--write"])
        #expect(rotated.status == 0, "\(rotated)")
        let new = try #require(try JSONValue(parsing: Array(rotated.output.utf8))["hash"]?.stringValue)
        #expect(try hasText("[\"\(new)\", \"\(Self.hash)\"]"))
        let retired = try await Program.run(["keys", "retire", "shop", "--config", file, "--write"])
        #expect(retired.status == 0, "\(retired)")
        #expect(try hasText("\"\(new)\""))
    }

    @Test("is made in a file with a byte order mark, which stays")
    func firstInMarkedFile() throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let text = Self.byteOrderMark + "backends: {}\n"
        let file = try folder.write(text, to: "chapar.yaml")
        try FirstKey.make(in: ConfigOption(path: file))
        let bytes = try Data(contentsOf: URL(filePath: file))
        let written = String(decoding: bytes, as: UTF8.self)
        #expect(bytes.starts(with: Data((text + "auth:\n  api_keys:\n").utf8)), "\(written)")
    }

    @Test("is not rotated where its hash stands twice, which is told")
    func twice() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let text = "# \(Self.hash) is shop's.\n" + Self.text(Self.hash)
        let file = try folder.write(text, to: "chapar.yaml")
        let rotated = try await Program.run(["keys", "rotate", "shop", "--config", file, "--write"])
        #expect(rotated.status == 2 && rotated.errors.contains("stands 2 times in \(file)"), "\(rotated)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    @Test("is not left in a file of its own when the configuration cannot be replaced")
    func keyOfNothing() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(Self.text(Self.hash), to: "chapar.yaml")
        let key = folder.url.appending(path: "key").path
        // Stands where the new configuration would be made, so that it cannot be, for root neither.
        _ = try folder.write("", to: "chapar.yaml.new-\(getpid())")
        let rotate = try await KeysCommand.Rotate.asyncParse(["shop", "--config", file, "--write", "--key-file", key])
        await #expect(throws: CommandFailure.self) { try await rotate.run() }
        #expect(!FileManager.default.fileExists(atPath: key))
        #expect(try String(contentsOfFile: file, encoding: .utf8) == Self.text(Self.hash))
    }

    @Test("is not written where no file can be made, and the folder is named")
    func closedFolder() throws {
        // A file of the kernel's in a folder in which no user can make a file, root included.
        let file = try ConfigurationFile("/proc/sys/kernel/ostype")
        let failure = #expect(throws: CommandFailure.self) { try file.write() }
        #expect(failure?.status == .usage)
        let said = failure?.description ?? ""
        #expect(said.contains("The folder /proc/sys/kernel must be writable"), "\(said)")
    }

    @Test(
        "is not made where there is a section auth, however it is written",
        arguments: ["auth : { keyless: true }", "'auth': { keyless: true }", "\"auth\": { keyless: true }"]
    )
    func sections(auth: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let text = "\(auth)\nbackends: {}\n"
        let file = try folder.write(text, to: "chapar.yaml")
        let result = try await Program.run(["serve", "--make-key", "--config", file])
        #expect(result.status == 2 && result.errors.contains("has a section auth already"), "\(result)")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    @Test(
        "is not made in a file that takes no section at its end, which stays as it is",
        arguments: ["  server: { port: 0 }\n  backends: {}\n", "# Ours.\n{ server: { port: 0 }, backends: {} }\n"]
    )
    func indented(text: String) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let file = try folder.write(text, to: "chapar.yaml")
        #expect(try await Program.run(["check", "--config", file]).status == 0)
        let result = try await Program.run(["serve", "--make-key", "--config", file])
        #expect(result.status == 2 && result.errors.contains("auth: { api_keys: [ { name: admin"), "\(result)")
        #expect(!result.output.contains("chp_"))
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
    }

    @Test("that cannot be written leaves no file")
    func fullDisk() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let path = folder.url.appending(path: "key").path
        // No file may grow, so a write fails as on a full disk; the pipe takes what is said.
        let script =
            "(trap '' XFSZ; ulimit -f 0; \"$0\" keys create --name shop --key-file \"$1\" 2>&1; echo \"ended with $?\") | cat"
        let shell = try Child(["-c", script, Program.url.path, path], executable: URL(filePath: "/bin/sh"))
        defer { shell.kill() }
        let result = try await shell.end()
        #expect(result.output.contains("cannot write \(path)"), "\(result)")
        #expect(result.output.contains("ended with 1"), "\(result)")
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test("is made at the first start, shown once, and then needed")
    func first() async throws {
        try await SandboxRig.run { rig in
            try rig.removeAuth()
            let child = try Child(["serve", "--config", rig.config, "--make-key"])
            defer { child.kill() }
            let mark = "shown this once: "
            let key = try await Program.wait("key") { () -> String? in
                guard let place = child.output.range(of: mark) else { return nil }
                let line = child.output[place.upperBound...]
                return line.contains("\n") ? String(line.prefix { !$0.isNewline }) : nil
            }
            let port = try await Program.wait("listening") { () -> Int? in
                child.errors.range(of: " port=").flatMap { Int(child.errors[$0.upperBound...].prefix { $0.isNumber }) }
            }
            let gateway = ServedGateway(child: child, port: port)
            #expect(try await status(gateway, nil) == 401)
            #expect(try await status(gateway, key) == 200)
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            #expect(text.contains("name: admin, hash: \"sha256:") && !text.contains(key))
            #expect(!child.errors.contains(key))
        }
    }

    @Test(
        "is what a gateway behind a proxy needs: a real one passes requests on and they are refused",
        .enabled(if: nginx != nil)
    )
    func proxy() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let socket = rig.folder.appending(path: "nginx.sock").path
            // As it comes: nothing is said of forwarding fields or of the protocol's version.
            let configuration = """
                daemon off; master_process off; pid \(rig.folder.path)/nginx.pid; error_log stderr;
                events {}
                http {
                    access_log off; client_body_temp_path \(rig.folder.path)/body; proxy_temp_path \(rig.folder.path)/proxy;
                    fastcgi_temp_path \(rig.folder.path)/f; uwsgi_temp_path \(rig.folder.path)/u; scgi_temp_path \(rig.folder.path)/s;
                    server { listen unix:\(socket); location / { proxy_pass \(gateway.url); } }
                }
                """
            let file = rig.folder.appending(path: "nginx.conf")
            try configuration.write(to: file, atomically: true, encoding: .utf8)
            let proxy = try Child(
                ["-c", file.path, "-p", rig.folder.path],
                executable: URL(fileURLWithPath: try #require(Self.nginx))
            )
            defer { proxy.kill() }
            try await Program.wait("nginx") { FileManager.default.fileExists(atPath: socket) ? true : nil }
            let curl = try Child(
                ["-s", "--max-time", "20", "--unix-socket", socket, "http://public.example/v1/backends"],
                executable: URL(fileURLWithPath: "/usr/bin/curl")
            )
            let answer = try await curl.end().output
            #expect(answer.contains("keys_needed"), "\(answer)")
            #expect(try await status(gateway, nil) == 200)
        }
    }

    private static let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
}
