import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@Suite("Sending without a server", .timeLimit(.minutes(2)), .about("apns"))
struct SendTests {
    private static let good = "ios-apns:" + SandboxRig.token(1)
    private static let dead = "ios-apns:" + SandboxRig.token(2, prefix: "0410")
    private static let busy = "ios-apns:" + SandboxRig.token(3, prefix: "0503")

    @Test(
        "The exit code tells what became of the recipients",
        arguments: [
            ([good], 0), ([dead], 1), ([busy], 75), ([good, dead], 4), ([dead, busy], 75), ([good, busy, dead], 4),
        ] as [([String], Int32)]
    )
    func exitCodes(recipients: [String], expected: Int32) async throws {
        try await SandboxRig.run { rig in
            let to = recipients.flatMap { ["--to", $0] }
            let result = try await Program.run(["send", "--config", rig.config, "--json", "hello"] + to)
            #expect(result.status == expected, "\(result.output)\(result.errors)")
            #expect(result.lines.count == recipients.count)
            #expect(rig.sandbox.apns.counters.requests == recipients.count)
        }
    }

    @Test("Flags become the payload that the platform gets")
    func flags() async throws {
        try await SandboxRig.run { rig in
            let result = try await Program.run(
                [
                    "send", "--config", rig.config, "--to", Self.good, "--title", "Order 42", "--sound", "default",
                    "--badge", "3", "--data", "order=42", "--data", #"box:={"n":[1,2]}"#, "--collapse-id", "order-42",
                    "--ttl", "600", "--priority", "normal", "--override",
                    #"apns={"payload":{"aps":{"thread-id":"t"}}}"#,
                    "-",
                ],
                input: "from stdin\n"
            )
            #expect(result.status == 0, "\(result.errors)")
            let push = try #require(rig.sandbox.apns.inbox.first)
            let payload = try JSONValue(parsing: push.payload)
            #expect(payload["aps"]?["alert"]?["title"]?.stringValue == "Order 42")
            #expect(payload["aps"]?["alert"]?["body"]?.stringValue == "from stdin")
            #expect(payload["aps"]?["badge"]?.integerValue == 3)
            #expect(payload["aps"]?["thread-id"]?.stringValue == "t")
            #expect(payload["order"]?.stringValue == "42")
            #expect(payload["box"]?["n"]?.arrayValue?.count == 2)
            #expect(push.header("apns-collapse-id") == "order-42")
            #expect(push.header("apns-priority") == "5")
        }
    }

    @Test(
        "A message that has nothing but an empty text is refused, and nothing is sent",
        arguments: [
            ([""], nil, 2), (["-"], "", 2), (["-"], "\n", 2), (["--body", " "], nil, 2), (["--title", "", ""], nil, 2),
            (["--title", "Hi", ""], nil, 0), (["", "--badge", "0"], nil, 0),
        ] as [([String], String?, Int32)]
    )
    func emptyText(words: [String], input: String?, status: Int32) async throws {
        try await SandboxRig.run { rig in
            let send = ["send", "--config", rig.config, "--to", Self.good]
            let result = try await Program.run(send + words, input: input)
            #expect(result.status == status, "\(result)")
            #expect(result.errors.contains("the text is empty") == (status == 2))
            #expect(rig.sandbox.apns.counters.requests == (status == 2 ? 0 : 1))
        }
    }

    @Test("A CSV file on a pipe is told how its form is said, and input without a message is told")
    func pipedInput() async throws {
        try await SandboxRig.run { rig in
            let send = ["send", "--config", rig.config, "--input", "-"]
            let table = try await Program.run(send, input: "service,token\n")
            #expect(table.status == 1, "\(table)")
            #expect((table.output + table.errors).contains("a table is --input-format csv"))
            let empty = try await Program.run(send, input: "")
            #expect(empty.errors.contains("stdin holds no message"), "\(empty)")
            let headings = try await Program.run(send + ["--input-format", "csv"], input: "service,token\n")
            #expect(headings.errors.contains("stdin holds no message"), "\(headings)")
        }
    }

    @Test("A CSV file and an NDJSON file say the same", arguments: ["csv", "ndjson"])
    func files(form: String) async throws {
        try await SandboxRig.run { rig in
            let people = (1...2500).map { ($0, SandboxRig.token($0)) }
            let text =
                form == "csv"
                ? "service,token,title,data.n\n"
                    + people.map { "ios-apns,\($0.1),\"Hello, \"\"\($0.0)\"\"\",\($0.0)\n" }.joined()
                : people.map {
                    #"{"to":{"tokens":[{"token":"\#($0.1)","service":"ios-apns"}]},"content":{"title":"Hello, \"\#($0.0)\"","data":{"n":"\#($0.0)"}}}"#
                        + "\n"
                }.joined()
            let file = rig.folder.appending(path: "people.\(form)").path
            try text.write(toFile: file, atomically: true, encoding: .utf8)
            let result = try await Program.run(
                ["send", "--config", rig.config, "--input", file, "--body", "for you", "--json"])
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.lines.count == people.count)
            #expect(rig.sandbox.apns.counters.accepted == people.count)
            let titles = Set(
                try rig.sandbox.apns.inbox.map {
                    try JSONValue(parsing: $0.payload)["aps"]?["alert"]?["title"]?.stringValue ?? ""
                }
            )
            #expect(titles.count == people.count)
            #expect(titles.contains("Hello, \"7\""))
        }
    }

    @Test("A pipe is read to its end before its first line goes out, unless it is a stream", arguments: [false, true])
    func wholePipe(isStream: Bool) async throws {
        try await SandboxRig.run { rig in
            let line: (Int) -> String = {
                #"{"to":{"tokens":[{"token":"\#(SandboxRig.token($0))","service":"ios-apns"}]}}"# + "\n"
            }
            // More than a batch, so that lines before the wrong one could go out.
            let text = (1...1200).map(line).joined() + "Gr\u{fc}\u{df}e\n"
            let file = rig.folder.appending(path: "piped").path
            try #require(text.data(using: .isoLatin1)).write(to: URL(filePath: file))
            let send = ["send", "--config", rig.config, "--input", "-", "--body", "x"] + (isStream ? ["--stream"] : [])
            let child = try Child(
                ["-c", #"cat "$0" | "$@""#, file, Program.url.path] + send,
                executable: URL(filePath: "/bin/sh")
            )
            defer { child.kill() }
            let result = try await child.end()
            #expect(result.status == 2 && result.errors.contains("stdin:1201: is not text in UTF-8"), "\(result)")
            #expect((rig.sandbox.apns.counters.requests > 0) == isStream)
        }
    }

    @Test("A row that stands twice goes out once, unless the flag says otherwise", arguments: [false, true])
    func repeatedRows(keeps: Bool) async throws {
        try await SandboxRig.run { rig in
            let rows = "service,token\nios-apns,\(SandboxRig.token(1))\nios-apns,\(SandboxRig.token(1))\n"
            let send = ["send", "--config", rig.config, "--input", "-", "--input-format", "csv", "--body", "x"]
            let result = try await Program.run(send + (keeps ? ["--keep-repeats"] : []), input: rows)
            #expect(result.status == 0, "\(result)")
            #expect(rig.sandbox.apns.counters.accepted == (keeps ? 2 : 1))
            #expect(result.errors.contains("line 3 repeats an earlier one") == !keeps, "\(result)")
        }
    }

    @Test("A token that stands twice, in two cases, gets the message once, with a warning, as through a gateway")
    func repeatedToken() async throws {
        try await SandboxRig.run { rig in
            let token = SandboxRig.token(1)
            let tokens = ["--to", "ios-apns:\(token)", "--to", "ios-apns:\(token.uppercased())"]
            let result = try await Program.run(["send", "--config", rig.config] + tokens + ["--body", "x"])
            #expect(result.status == 0, "\(result)")
            #expect(rig.sandbox.apns.counters.accepted == 1)
            #expect(result.errors.contains("warning: #/to/tokens/1: This recipient is named before"), "\(result)")
        }
    }

    @Test("A bad line of a file is named and stops no other")
    func badLines() async throws {
        try await SandboxRig.run { rig in
            let lines = [
                #"{"to":{"tokens":[{"token":"\#(SandboxRig.token(1))","service":"ios-apns"}]}}"#, "not json",
                #"{"to":{"tokens":[]}}"#,
            ]
            let result = try await Program.run(
                ["send", "--config", rig.config, "--input", "-", "--body", "x", "--json"],
                input: lines.joined(separator: "\n")
            )
            #expect(result.status == 4)
            let outcomes = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
                .sorted { ($0["line"]?.integerValue ?? 0) < ($1["line"]?.integerValue ?? 0) }
            #expect(outcomes.map { $0["outcome"]?.stringValue } == ["sent", "refused", "refused"])
        }
    }

    @Test("A heading that means nothing is refused with the nearest that does")
    func badHeading() async throws {
        try await SandboxRig.run { rig in
            let result = try await Program.run(
                ["send", "--config", rig.config, "--input", "-", "--input-format", "csv"],
                input: "service,tokn\n"
            )
            #expect(result.status == 2)
            #expect(result.errors.contains("Did you mean \"token\"?"))
        }
    }

    @Test("A dry run shows the request, hides the credential and sends nothing")
    func dryRun() async throws {
        try await SandboxRig.run { rig in
            let result = try await Program.run(
                ["send", "--config", rig.config, "--to", Self.good, "--title", "Hi", "there", "--dry-run", "--json"])
            #expect(result.status == 0)
            let json = try JSONValue(parsing: Array(result.output.utf8))
            #expect(json["outcome"]?.stringValue == "preview")
            #expect(json["request"]?["headers"]?["authorization"]?.stringValue == "<secret>")
            #expect(json["request"]?["headers"]?["apns-topic"]?.stringValue == Sandbox.topic)
            #expect(json["request"]?["body"]?["aps"]?["alert"]?["title"]?.stringValue == "Hi")
            #expect(rig.sandbox.apns.counters.requests == 0)
        }
    }

    @Test("A dry run shows a request of many messages for each of its recipients", .about("hms"))
    func dryRunOfBatch() async throws {
        try await SandboxRig.run { rig in
            let file = rig.folder.appending(path: "huawei.yaml").path
            let section = #"backends: { huawei: { kind: hms, app_id: "100200300", client_secret: hidden } }"#
            try section.write(toFile: file, atomically: true, encoding: .utf8)
            let tokens = ["a", "b"].map { String(repeating: $0, count: 130) }
            let to = tokens.flatMap { ["--to", "android-huawei:\($0)"] }
            let result = try await Program.run(["send", "--config", file, "hi", "--dry-run", "--json"] + to)
            #expect(result.status == 0, "\(result.output)\(result.errors)")
            #expect(!result.output.contains("hidden"))
            let answers = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
            #expect(answers.count == 2)
            for answer in answers {
                #expect(answer["outcome"]?.stringValue == "preview")
                let sent = answer["request"]?["body"]?["message"]?["token"]?.arrayValue?.compactMap(\.stringValue)
                #expect(sent == tokens)
            }
        }
    }

    @Test("Through a gateway the outcome is told as well")
    func throughGateway() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let result = try await Program.run(
                ["send", "--url", gateway.url, "--to", Self.good, "--to", Self.dead, "hello", "--json"])
            #expect(result.status == 4, "\(result.errors)")
            let outcomes = try result.lines.map { try JSONValue(parsing: Array($0.utf8))["outcome"]?.stringValue ?? "" }
            #expect(outcomes.sorted() == ["refused", "sent"])
            let wrong = try await Program.run(
                ["send", "--url", gateway.url, "--backend", "ios", "--to", "android-firebase:x", "hello", "--json"])
            #expect(wrong.status == 1)
            #expect(wrong.output.contains("audience_not_supported"))
        }
    }

    @Test("doctor says the fix of what is wrong", arguments: ["ok", "stopped", "revoked", "trust"])
    func doctor(fault: String) async throws {
        try await SandboxRig.run { rig in
            switch fault {
            case "stopped": await rig.sandbox.apns.shutdown()
            case "revoked": rig.sandbox.apns.revokeKey(id: rig.sandbox.apns.key.keyID)
            case "trust":
                let text = try String(contentsOfFile: rig.config, encoding: .utf8)
                let lines = text.split(separator: "\n").filter { !$0.contains("ca_file") }
                try (lines.joined(separator: "\n") + "\n").write(
                    toFile: rig.config,
                    atomically: true,
                    encoding: .utf8
                )
            default: break
            }
            let result = try await Program.run(["doctor", "--config", rig.config, "--json", "--timeout", "20"])
            let findings = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
            let failures = findings.filter { $0["verdict"]?.stringValue == "failure" }
            #expect(result.status == (fault == "ok" ? 0 : 1), "\(result.output)")
            #expect(failures.isEmpty == (fault == "ok"))
            for failure in failures { #expect(failure["fix"]?.stringValue?.isEmpty == false, "\(failure.text)") }
        }
    }
}
