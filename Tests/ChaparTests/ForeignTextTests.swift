import Foundation
import ChaparCore
import ChaparSandbox
import Testing

/// Text that is not UTF-8, through pipes and files, into every command that reads text.
@Suite("Commands and text that is not UTF-8", .timeLimit(.minutes(2)), .about("apns"))
struct ForeignTextTests {
    /// Another encoding than UTF-8.
    enum Form: String, CaseIterable {
        case utf16 = "UTF-16"
        case utf16WithoutMark = "UTF-16 without a byte order mark"
        case windows1251 = "Windows-1251"
        case windows1256 = "Windows-1256"
        case latin1 = "Latin-1"

        /// A text in it: a word of a language that it is for, between two texts of ASCII.
        func bytes(_ before: String, _ after: String) throws -> Data {
            switch self {
            case .utf16: return try #require((before + "Привет" + after).data(using: .utf16))
            case .utf16WithoutMark: return try #require((before + "Привет" + after).data(using: .utf16LittleEndian))
            case .windows1251: return try #require((before + "Привет" + after).data(using: .windowsCP1251))
            // "سلام", which Foundation may not know how to write.
            case .windows1256: return Data(Array(before.utf8) + [0xD3, 0xE1, 0xC7, 0xE3] + Array(after.utf8))
            case .latin1: return try #require((before + "Grüße" + after).data(using: .isoLatin1))
            }
        }

        /// The words that the advice must have.
        var advice: String {
            switch self {
            case .utf16: "iconv -f UTF-16 -t UTF-8"
            case .utf16WithoutMark: "iconv -f UTF-16LE -t UTF-8"
            case .windows1251, .windows1256, .latin1: "iconv -f ENCODING -t UTF-8"
            }
        }
    }

    /// Runs the program with bytes that come through a pipe.
    private func piped(_ bytes: Data, _ arguments: [String], in folder: URL) async throws -> Program.Result {
        let file = folder.appending(path: "piped").path
        try bytes.write(to: URL(filePath: file))
        let child = try Child(
            ["-c", #"cat "$0" | "$@""#, file, Program.url.path] + arguments,
            executable: URL(filePath: "/bin/sh")
        )
        defer { child.kill() }
        return try await child.end()
    }

    /// It ended with 2, and says where the text is not UTF-8 and what to do.
    private func expectRefused(_ result: Program.Result, _ place: String, _ form: Form) {
        #expect(result.status == 2, "\(result)")
        #expect(result.errors.contains("\(place): is not text in UTF-8"), "\(result)")
        #expect(result.errors.contains(form.advice), "\(result)")
    }

    @Test("send refuses the text of a message, and a row of messages, and sends nothing", arguments: Form.allCases)
    func send(form: Form) async throws {
        try await SandboxRig.run { rig in
            let token = SandboxRig.token(1)
            let text = try await piped(
                try form.bytes("Hello ", " there\n"),
                ["send", "--config", rig.config, "--to", "ios-apns:\(token)", "-"],
                in: rig.folder
            )
            expectRefused(text, "stdin:1", form)
            let rows = try form.bytes("service,token,title\nios-apns,\(token),fine\nios-apns,\(token),", "\n")
            let input = try await piped(
                rows,
                ["send", "--config", rig.config, "--input", "-", "--input-format", "csv"],
                in: rig.folder
            )
            expectRefused(input, form.advice.contains("UTF-16") ? "stdin:1" : "stdin:3", form)
            #expect(rig.sandbox.apns.counters.requests == 0)
        }
    }

    @Test("send names the line of the text, and reads UTF-8 with a byte order mark as what it says")
    func lines() async throws {
        try await SandboxRig.run { rig in
            let command = ["send", "--config", rig.config, "--to", "ios-apns:\(SandboxRig.token(1))", "-"]
            let third = try await piped(try Form.latin1.bytes("one\r\ntwo\r\n", ""), command, in: rig.folder)
            expectRefused(third, "stdin:3", .latin1)
            #expect(rig.sandbox.apns.counters.requests == 0)
            let read = try await piped(Data("\u{FEFF}Привет\nسلام\n".utf8), command, in: rig.folder)
            #expect(read.status == 0, "\(read)")
            let push = try #require(rig.sandbox.apns.inbox.first)
            let body = try JSONValue(parsing: push.payload)["aps"]?["alert"]
            let words = body?["body"]?.stringValue ?? body?.stringValue
            #expect(words.map { Array($0.utf8) } == Array("Привет\nسلام".utf8), "\(String(describing: words))")
        }
    }

    @Test("send refuses a title of the command line, and sends nothing")
    func arguments() async throws {
        try await SandboxRig.run { rig in
            let script = #"exec "$0" send --config "$1" --to "ios-apns:$2" --title "$(printf 'Gr\374\337e')" Hello"#
            let child = try Child(
                ["-c", script, Program.url.path, rig.config, SandboxRig.token(1)],
                executable: URL(filePath: "/bin/sh")
            )
            defer { child.kill() }
            let result = try await child.end()
            #expect(result.status == 2, "\(result)")
            #expect(result.errors.contains("argument 7: is not text in UTF-8"), "\(result)")
            #expect(rig.sandbox.apns.counters.requests == 0)
        }
    }

    @Test("devices import refuses a pipe and a file, and registers none of it")
    func devices() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            for form in Form.allCases {
                let isUTF16 = form.advice.contains("UTF-16")
                let rows = try form.bytes("id,user\nphone-1,ali\nphone-2,", "\n")
                let command = ["devices", "import", "--format", "csv", "--url", gateway.url]
                let pipe = try await piped(rows, command + ["-"], in: rig.folder)
                expectRefused(pipe, isUTF16 ? "stdin:1" : "stdin:3", form)
                let path = rig.folder.appending(path: "devices.csv").path
                try rows.write(to: URL(filePath: path))
                let file = try await Program.run(command + [path])
                expectRefused(file, isUTF16 ? "\(path):1" : "\(path):3", form)
            }
            let listed = try await Program.run(["devices", "list", "--json", "--url", gateway.url])
            #expect(listed.status == 0 && listed.output.isEmpty, "\(listed)")
        }
    }

    /// Nothing listens at the address: a list that is read comes to another end.
    @Test("tokens are refused in a file and a pipe, before the gateway is asked", arguments: Form.allCases)
    func tokens(form: Form) async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let list = try form.bytes("aa01\n", "\n")
        let path = folder.url.appending(path: "tokens.txt").path
        try list.write(to: URL(filePath: path))
        let line = form.advice.contains("UTF-16") ? 1 : 2
        let platform = ["--backend", "ios", "--url", "http://127.0.0.1:1"]
        let importing = ["tokens", "import", "--application", "com.example"] + platform
        expectRefused(try await Program.run(importing + [path]), "\(path):\(line)", form)
        expectRefused(try await piped(list, importing + ["-"], in: folder.url), "stdin:\(line)", form)
        let lookup = try await piped(list, ["tokens", "lookup"] + platform + ["-"], in: folder.url)
        expectRefused(lookup, "stdin:\(line)", form)
        let read = try await Program.run(importing + ["-"], input: "\u{FEFF}aa01\n")
        #expect(read.status == 75, "\(read)")
    }
}
