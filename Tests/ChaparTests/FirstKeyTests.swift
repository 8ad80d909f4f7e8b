import Foundation
import Logging
import ChaparCore
import ChaparGateway
import Testing

@testable import ChaparCommands

/// The key of a gateway whose configuration says nothing of keys.
@Suite("The first API key", .about("apns"), .timeLimit(.minutes(2)))
struct FirstKeyTests {
    private static let key = "chp_" + String(repeating: "A", count: 43)
    /// As on a machine: tests may run in a container.
    private static let machine = ["CHAPAR_CONTAINER": "0"]
    /// A folder of the kernel's in which no user can make a file, root included.
    private static let closed = "/proc/sys"

    // MARK: - Its file

    @Test("is read from a plain file of its owner only; everything else is named, with what to do")
    func file() throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let path = folder.url.appending(path: "chapar.db.first-key").path
        #expect(try FirstKey.read(path) == nil)
        try SecretFile.write(Self.key + "\n", to: path)
        #expect(try FirstKey.read(path)?.reveal() == Self.key)
        let faults: [(String, () -> Void)] = [
            ("other users", { chmod(path, 0o640) }), ("other users", { chmod(path, 0o604) }),
            ("is empty", { FileManager.default.createFile(atPath: path, contents: Data()) }),
            (
                "holds no key",
                { FileManager.default.createFile(atPath: path, contents: Data(Self.key.dropLast().utf8)) }
            ),
            ("holds no key", { FileManager.default.createFile(atPath: path, contents: Data((Self.key + "A").utf8)) }),
            ("symbolic link", { symlink("/etc/hostname", path) }), ("is no file", { mkfifo(path, 0o600) }),
        ]
        for (words, plant) in faults {
            unlink(path)
            if words == "other users" { try SecretFile.write(Self.key, to: path) }
            plant()
            if words.hasPrefix("is empty") || words.hasPrefix("holds") { chmod(path, 0o600) }
            let failure = #expect(throws: CommandFailure.self) { try FirstKey.read(path) }
            #expect(failure?.description.contains(words) ?? false, "\(words): \(failure?.description ?? "")")
            #expect(failure?.description.contains(path) ?? false)
            #expect(failure?.status == .configuration)
        }
    }

    @Test("that cannot be read is named with what the command at hand can do about it")
    func unreadable() throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        // With the end of the key's file the name is longer than a name may be.
        var configuration = GatewayConfiguration()
        configuration.store.path = folder.url.appending(path: String(repeating: "x", count: 250)).path
        let path = FirstKey.path(of: configuration.store)
        let command = #expect(throws: CommandFailure.self) { try FirstKey.read(path) }
        #expect(command?.description.contains("--key-file or $CHAPAR_KEY") == true)
        let store = configuration.store
        let serve = #expect(throws: CommandFailure.self) {
            try FirstKey.put(into: &configuration, store: store, logger: Logger(label: "test"))
        }
        #expect(serve?.description.contains("cannot be read") == true, "\(String(describing: serve))")
        #expect(serve?.description.contains("--key-file") == false && serve?.status == .configuration)
    }

    @Test("of another user is refused, for root as well", .enabled(if: geteuid() == 0))
    func owner() throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let path = folder.url.appending(path: "chapar.db.first-key").path
        try SecretFile.write(Self.key, to: path)
        #expect(chown(path, 4242, 4242) == 0)
        let failure = #expect(throws: CommandFailure.self) { try FirstKey.read(path) }
        #expect(failure?.description.contains("belongs to another user") ?? false)
        // The folder's owner can replace what is in it anyway: with the package that is the service's user.
        #expect(chown(folder.url.path, 4242, 4242) == 0)
        #expect(try FirstKey.read(path)?.reveal() == Self.key)
    }

    // MARK: - Where there is none

    @Test("is not made for PostgreSQL, in a container and in a folder that cannot be written: serve names the command")
    func refusals() throws {
        let nowhere = Container(environment: [:]) { _ in false }
        var configuration = GatewayConfiguration()
        configuration.store.path = FileManager.default.temporaryDirectory.appending(path: "chapar.db").path
        #expect(FirstKey.refusal(configuration, "c.yaml", container: nowhere) == nil)
        let container = Container(environment: [:]) { $0 == "/.dockerenv" }
        var (shared, closed) = (configuration, configuration)
        shared.store.kind = .postgres
        closed.store.path = Self.closed + "/chapar.db"
        for (failure, why) in [
            (FirstKey.refusal(configuration, "c.yaml", container: container), "in a container (/.dockerenv)"),
            (FirstKey.refusal(shared, "c.yaml", container: nowhere), "PostgreSQL"),
            (
                FirstKey.refusal(closed, "c.yaml", container: nowhere),
                "the store's folder \(Self.closed) cannot be written"
            ),
        ] {
            #expect(failure?.description.contains(why) ?? false, "\(why): \(failure?.description ?? "")")
            #expect(failure?.status == .configuration)
            #expect(failure?.description.contains("serve --make-key --config c.yaml") ?? false)
            #expect(failure?.description.contains("keys create") ?? false)
        }
        var (keyless, keyed) = (shared, shared)
        keyless.isKeyless = true
        keyed.apiKeys = [.init(name: "shop", hashes: [], scopes: [.send])]
        #expect(FirstKey.refusal(keyless, "c.yaml", container: container) == nil)
        #expect(FirstKey.refusal(keyed, "c.yaml", container: container) == nil)
    }

    @Test(
        "takes it for a container what the engines' signs say, and CHAPAR_CONTAINER before them",
        arguments: [
            ([:], [], false), ([:], ["/.dockerenv"], true), ([:], ["/run/.containerenv"], true),
            (["KUBERNETES_SERVICE_HOST": "10.0.0.1"], [], true), (["container": "podman"], [], true),
            (["container": ""], [], false), (["CHAPAR_CONTAINER": "1"], [], true),
            (["CHAPAR_CONTAINER": "0", "container": "lxc"], ["/.dockerenv"], false),
        ] as [([String: String], [String], Bool)]
    )
    func container(environment: [String: String], files: [String], isOne: Bool) {
        #expect((Container(environment: environment) { files.contains($0) }.sign != nil) == isOne)
    }

    // MARK: - A gateway

    private func status(_ gateway: ServedGateway, _ key: String?) async throws -> Int {
        let client = try gateway.client(key: key.map { Secret($0) })
        let status = try await client.get("/v1/backends").status
        await client.close()
        return status
    }

    @Test("is made at the first start; commands on the machine find it, later starts use it, and keys end it")
    func life() async throws {
        try await SandboxRig.run { rig in
            try rig.removeAuth()
            let file = rig.folder.appending(path: "chapar.db.first-key").path
            var gateway = try await rig.serve(environment: Self.machine)
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            let key = try SecretFile.read(file).reveal()
            #expect(gateway.child.errors.contains(file) && !gateway.child.errors.contains(key))
            #expect(!gateway.child.errors.contains("#code="), "a log gets no link")
            #expect(try await status(gateway, nil) == 401)
            #expect(try await status(gateway, key) == 200)
            try await commands(rig, gateway)
            gateway.child.send(SIGTERM)
            #expect(try await gateway.child.end().status == 0)

            gateway = try await rig.serve(environment: Self.machine)
            defer { gateway.child.kill() }
            #expect(try await status(gateway, key) == 200)
            #expect(try await status(gateway, nil) == 401)

            let made = try await Program.run(["keys", "create", "--name", "shop", "--scope", "read", "--json"])
            let json = try JSONValue(parsing: Array(made.output.utf8))
            try rig.append("auth:\n  api_keys:\n    \(try #require(json["line"]?.stringValue))\n")
            gateway.child.send(SIGHUP)
            let errors = gateway.child
            try await Program.wait("reload") { errors.errors.contains("is no longer valid") ? true : nil }
            try await Program.wait("its end") { try await status(gateway, key) == 401 ? true : nil }
            #expect(try await status(gateway, json["key"]?.stringValue) == 200)
            try rig.removeAuth()
            gateway.child.send(SIGHUP)
            try await Program.wait("its return") { try await status(gateway, key) == 200 ? true : nil }
        }
    }

    /// Every kind of command gets in by the configuration alone, and by no other.
    private func commands(_ rig: SandboxRig, _ gateway: ServedGateway) async throws {
        let here = ["CHAPAR_CONFIG": rig.config]
        let token = "ios-apns:\(SandboxRig.token(1))"
        for command in [
            ["send", "--to", token, "Hello"], ["backends"],
            ["devices", "put", "phone-1", "--user", "ali", "--token", token],
            ["devices", "list"], ["retry", "ios"], ["users", "erase", "ali"],
        ] {
            let result = try await Program.run(command + ["--url", gateway.url], environment: here)
            #expect(result.status == 0, "\(command): \(result.errors)")
        }
        let named = ["send", "--url", gateway.url, "--config", rig.config, "--to", token, "Hello"]
        #expect(try await Program.run(named).status == 0)
        let without = try await Program.run(["send", "--url", gateway.url, "--to", token, "Hello"])
        #expect(without.status == 2 && without.errors.contains("its log names the file"), "\(without.errors)")
        let listed = try await Program.run(["keys", "list", "--config", rig.config])
        #expect(listed.output.contains("first  admin"), "\(listed.output)")
        let doctor = try await Program.run(["doctor", "--config", rig.config], environment: Self.machine)
        #expect(doctor.output.contains("first key: "), "\(doctor.output)")
    }

    @Test("goes to its own gateway only: at the configured address, on this machine")
    func destination() throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let path = folder.url.appending(path: "c.yaml").path
        try SecretFile.write(Self.key, to: folder.url.appending(path: "chapar.db.first-key").path)
        func found(_ text: String, _ url: String, listens isOwn: Bool = true) throws -> Bool {
            // Variables that only the service has are no obstacle.
            let backends = "backends: { ios: { kind: apns, key: \"${NOWHERE_SET}\" } }\n"
            try (backends + text).write(toFile: path, atomically: true, encoding: .utf8)
            let endpoint = try #require(HTTPEndpoint(url: url))
            return try FirstKey.find(for: endpoint, configuration: path) { user, port in
                isOwn && user == geteuid() && port == endpoint.port
            } != nil
        }
        #expect(try found("", "http://127.0.0.1:8080"))
        #expect(try found("server: { port: 9000 }", "http://localhost:9000"))
        #expect(try !found("server: { port: 9000 }", "http://127.0.0.1:8080"))
        #expect(try !found("", "https://push.example.com:8080"))
        #expect(try !found("", "http://127.evil.example:8080"))
        #expect(try !found("auth: { keyless: true }", "http://127.0.0.1:8080"))
        let failure = #expect(throws: CommandFailure.self) { try found("", "http://127.0.0.1:8080", listens: false) }
        #expect(failure?.description.contains("another user listens on port 8080") ?? false)
        #expect(try !found("auth: { api_keys: [ { name: a, hash: \"${NOWHERE_SET}\" } ] }", "http://127.0.0.1:8080"))
    }

    @Test("goes to a port only where every program that listens there is the gateway's user's")
    func listeners() throws {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
               0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4242        0 1 1 0 100 0 0 10 0
               1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
               2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 100 0 0 10 0
               3: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0:0 00:0 0    65534        0 4
            """
        #expect(Listeners.owners(in: table, port: 8080) == [4242, 0])
        #expect(Listeners.owners(in: table, port: 8081) == [65534])
        #expect(Listeners.owners(in: table, port: 9).isEmpty)
        // More than the kernel gives in one read.
        let sockets = (0..<64).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
        defer { for socket in sockets { close(socket) } }
        for socket in sockets {
            // The kernel gives a socket that listens without an address one of its free ports.
            #expect(listen(socket, 1) == 0)
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let named = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &length) }
            }
            #expect(named == 0)
            let port = Int(UInt16(bigEndian: address.sin_port))
            #expect(Listeners.areAll(ownedBy: geteuid(), onPort: port))
            #expect(!Listeners.areAll(ownedBy: geteuid() + 1, onPort: port))
        }
        #expect(!Listeners.areAll(ownedBy: geteuid(), onPort: 0))
    }

    @Test("makes serve end with 3 where its file is not to be trusted, or there can be none")
    func refused() async throws {
        try await SandboxRig.run { rig in
            try rig.removeAuth()
            let file = rig.folder.appending(path: "chapar.db.first-key").path
            try SecretFile.write(Self.key, to: file)
            chmod(file, 0o644)
            let open = try await Program.run(["serve", "--config", rig.config], environment: Self.machine)
            #expect(open.status == 3 && open.errors.contains(file), "\(open.errors)")
            let contained = try await Program.run(
                ["serve", "--config", rig.config],
                environment: ["CHAPAR_CONTAINER": "1"]
            )
            #expect(contained.status == 3 && contained.errors.contains("serve --make-key"), "\(contained.errors)")
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            let path = "  path: \(Self.closed)/chapar.db"
            let moved = text.replacing(/(?m)^  path: .*$/, with: path, maxReplacements: 1)
            try moved.write(toFile: rig.config, atomically: true, encoding: .utf8)
            let unwritable = try await Program.run(["serve", "--config", rig.config], environment: Self.machine)
            #expect(unwritable.status == 3 && unwritable.errors.contains("serve --make-key"), "\(unwritable.errors)")
            #expect(unwritable.errors.contains("\(Self.closed) cannot be written"), "\(unwritable.errors)")
        }
    }

    @Test(
        "is needed behind real proxies that say nothing of themselves",
        .enabled(if: nginx != nil)
    )
    func proxy() async throws {
        try await SandboxRig.run { rig in
            try rig.removeAuth()
            let gateway = try await rig.serve(environment: Self.machine)
            defer { gateway.child.kill() }
            let sockets = ["nginx", "as-haproxy"].map { rig.folder.appending(path: "\($0).sock").path }
            let folder = rig.folder.path
            let configuration = """
                daemon off; master_process off; pid \(folder)/nginx.pid; error_log stderr;
                events {}
                http {
                    access_log off; client_body_temp_path \(folder)/body; proxy_temp_path \(folder)/proxy;
                    fastcgi_temp_path \(folder)/f; uwsgi_temp_path \(folder)/u; scgi_temp_path \(folder)/s;
                    proxy_http_version 1.1; proxy_set_header Connection "";
                    server { listen unix:\(sockets[0]); location / { proxy_pass \(gateway.url); } }
                    server { listen unix:\(sockets[1]); location / {
                        proxy_set_header Host $http_host; proxy_set_header Connection ""; proxy_pass \(gateway.url); } }
                }
                """
            let file = rig.folder.appending(path: "nginx.conf")
            try configuration.write(to: file, atomically: true, encoding: .utf8)
            let proxy = try Child(
                ["-c", file.path, "-p", folder],
                executable: URL(fileURLWithPath: try #require(Self.nginx))
            )
            defer { proxy.kill() }
            for socket in sockets {
                try await Program.wait("nginx") { FileManager.default.fileExists(atPath: socket) ? true : nil }
                let curl = try Child(
                    [
                        "-s", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", socket,
                        "-H", "Host: localhost", "http://public.example/v1/backends",
                    ],
                    executable: URL(fileURLWithPath: "/usr/bin/curl")
                )
                #expect(try await curl.end().output == "401")
            }
        }
    }

    private static let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
}
