import ArgumentParser
import Foundation
import ChaparCore
import Testing

@testable import ChaparCommands
@testable import chapar

@Suite("Help, manual pages and the API's description", .timeLimit(.minutes(2)))
struct ManualTests {
    /// The commands without commands below them, each with its arguments; those that ArgumentParser adds are left out.
    private static func commands() throws -> [(name: String, arguments: [JSONValue])] {
        let dump = GatewayProgram.$current.withValue(Plugins.program) { RootCommand._dumpHelp() }
        func leaves(_ command: JSONValue, _ path: String) -> [(String, [JSONValue])] {
            let name = [path, command["commandName"]?.stringValue ?? ""].filter { !$0.isEmpty }.joined(separator: " ")
            let inner = (command["subcommands"]?.arrayValue ?? []).filter { $0["commandName"] != "help" }
            if inner.isEmpty { return [(name, command["arguments"]?.arrayValue ?? [])] }
            return inner.flatMap { leaves($0, name) }
        }
        return leaves(try JSONValue(parsing: Array(dump.utf8))["command"] ?? .null, "")
    }

    @Test("Every command has --json")
    func json() throws {
        let commands = try Self.commands()
        #expect(commands.count > 40)
        for (name, arguments) in commands {
            let names = arguments.compactMap { $0["preferredName"]?["name"]?.stringValue }
            #expect(names.contains("json"), "\(name)")
        }
    }

    @Test("Every --url names CHAPAR_URL")
    func url() throws {
        let helps = try Self.commands().flatMap(\.arguments).filter { $0["preferredName"]?["name"] == "url" }
            .map { $0["abstract"]?.stringValue ?? "" }
        #expect(helps.count > 20)
        #expect(helps.allSatisfy { $0.contains("$CHAPAR_URL") })
    }

    @Test("The manual has a page for the program and each command")
    func pages() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let result = try await Program.run(["manual", "--dir", folder.url.path])
        #expect(result.status == 0, "\(result.errors)")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        for name in ["chapar.1", "chapar-send.1", "chapar-devices.1", "chapar-init.1"] { #expect(files.contains(name)) }
        #expect(!files.contains("chapar-manual.1") && !files.contains("chapar-help.1"))
        let send = try String(contentsOf: folder.url.appending(path: "chapar-send.1"), encoding: .utf8)
        for part in [".Nm chapar send", ".It Fl \\-url Ar url", ".Sh DESCRIPTION", ".Bd -literal"] {
            #expect(send.contains(part), "\(part)")
        }
        let devices = try String(contentsOf: folder.url.appending(path: "chapar-devices.1"), encoding: .utf8)
        #expect(devices.contains(".Sh CHAPAR DEVICES PUT"))
    }

    private static let groff = "/usr/bin/groff"

    @Test("man shows every page without a complaint", .enabled(if: FileManager.default.isExecutableFile(atPath: groff)))
    func shown() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        #expect(try await Program.run(["manual", "--dir", folder.url.path]).status == 0)
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        #expect(files.count > 20)
        let paths = files.map { folder.url.appending(path: $0).path }
        let child = try Child(["-mdoc", "-Tutf8", "-ww"] + paths, executable: URL(filePath: Self.groff))
        let shown = try await child.end()
        #expect(shown.status == 0 && shown.errors.isEmpty, "\(shown.errors.prefix(1000))")
    }

    @Test("openapi prints what a gateway serves", .about("apns"))
    func openAPI() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let served = try await client.get("/openapi.json").json
            await client.close()
            for form in [["--json"], []] {
                let printed = try await Program.run(["openapi"] + form)
                #expect(printed.status == 0, "\(printed.errors)")
                let json = try JSONValue(parsing: Array(printed.output.utf8))
                #expect(json["info"] == served["info"])
                let paths = try #require(served["paths"]?.objectValue)
                #expect(paths.count > 30)
                for (path, item) in paths where path != "/openapi.json" && path != "/" {
                    #expect(json["paths"]?[path] == item, "\(path)")
                }
            }
        }
    }
}
