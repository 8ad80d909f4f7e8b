import ArgumentParser
import Foundation
import ChaparCore

/// `chapar segments`: commands on the stored rules and lists of an app's audiences.
struct SegmentsCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "segments",
            abstract: "List, show, store, load, count and delete the segments of a gateway.",
            discussion: """
                Every command talks to a running gateway: --url, and the key of the scope "devices" in --key-file or \
                $CHAPAR_KEY.

                  \(program) segments put readers --tag news --platform ios --url http://127.0.0.1:8080
                  \(program) segments load vip vip.csv --url http://127.0.0.1:8080

                Exit codes: 0 done, 1 refused or not found, 2 usage, 4 done in part, 75 try later.
                """,
            subcommands: [
                SegmentsListCommand.self, SegmentsShowCommand.self, SegmentsPutCommand.self, SegmentsLoadCommand.self,
                SegmentsCountCommand.self, SegmentsDeleteCommand.self,
            ]
        )
    }

    /// Returns the path of a segment; an invalid name is sent as well, so that the gateway reports what is wrong.
    static func path(_ name: String) -> String { "/v1/segments/" + FormEncoding.encode(name) }
}

/// `chapar segments list`: lists the segments of an app.
struct SegmentsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List segments by name.")

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        try await DevicesClient.use(gateway) { devices in
            var table = TextTable("NAME", "KIND", "UPDATED")
            for try await item in devices.items("/v1/segments") {
                if form.isJSON {
                    Shell.print(item)
                } else {
                    table.add(
                        item["name"]?.stringValue ?? "",
                        item["kind"]?.stringValue ?? "",
                        item["updated_at"]?.stringValue ?? ""
                    )
                }
            }
            if !form.isJSON { table.print() }
        }
    }
}

/// `chapar segments show`: shows a segment as JSON.
struct SegmentsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "show", abstract: "Show a segment as JSON.")

    @Argument(help: "The name.", completion: NameCompletion.segments.kind)
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            let path = SegmentsCommand.path(name)
            let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.get(path) }
            Shell.print(answer.json)
        }
    }
}

/// `chapar segments put`: stores a rule under a name.
struct SegmentsPutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Store a rule as a segment, or replace the rule of one."
    )

    @Argument(help: "The name.", completion: NameCompletion.segments.kind)
    var name: String

    @OptionGroup(title: "Which devices") var rule: AudienceRuleOptions
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let body = JSONValue.object(["rule": try rule.rule()]).bytes
        try await DevicesClient.use(gateway) { devices in
            let path = SegmentsCommand.path(name)
            let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.put(path, body) }
            form.isJSON
                ? Shell.print(answer.json) : Shell.complain("\(name) \(answer.status == 201 ? "created" : "replaced")")
        }
    }
}

/// `chapar segments load`: loads a list of devices or users from a file of any length.
struct SegmentsLoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Load a list of devices or users from a CSV or NDJSON file into a segment.",
        discussion: """
            CSV: the first line names the column device or user. NDJSON: an object a line with device or user. The members are \
            added to those that the list has, 1,000 in a commit; --replace empties it first. Loading a file again does no harm: \
            after an interruption start with --after and the last line that was written.
            """
    )

    @Argument(help: "The name.", completion: NameCompletion.segments.kind)
    var name: String

    @Argument(help: "The file, - for stdin.", completion: .file(extensions: ["csv", "ndjson"]))
    var file: String

    @Flag(help: "Empty the list first.")
    var replace = false

    @Option(help: "Skip the lines up to this one.")
    var after = 0

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    /// The most members in one request; the API takes 1,000.
    private static let batchSize = 1_000

    func validate() throws {
        if after < 0 { throw ValidationError("--after is the number of a line.") }
        if replace, after > 0 { throw ValidationError("--replace would remove what was loaded before: leave it out.") }
    }

    func run() async throws {
        var input = try InputFile(file, format: nil, rows: .members)
        defer { input.close() }
        var (added, unknown, refused) = (0, 0, 0)
        var bar = ProgressBar(isShown: true)
        try await DevicesClient.use(gateway) { devices in
            var kind: String?
            var batch: [JSONValue] = []
            var last = after
            func send() async throws {
                guard !batch.isEmpty else { return }
                let body = JSONValue.object(["add": .array(batch)]).bytes
                batch = []
                let path = SegmentsCommand.path(name) + "/members"
                let answer = try await devices.client.postPatiently(path, body)
                if let failure = DevicesClient.failure(answer) {
                    Shell.complain("up to line \(last) everything is loaded")
                    throw failure
                }
                added += Int(count: answer.json["added"]?.integerValue ?? 0)
                unknown += answer.json["unknown"]?.arrayValue?.count ?? 0
            }
            while let line = try input.next() {
                guard line.number > after else { continue }
                let member: JSONObject
                switch line.result {
                case .success(let object): member = object
                case .failure(let failure):
                    refused += 1
                    Shell.complain("line \(line.number) \(failure.description)")
                    continue
                }
                let own = member.contains("device") ? "devices" : "users"
                guard let id = (member["device"] ?? member["user"])?.stringValue, kind == nil || kind == own else {
                    refused += 1
                    Shell.complain("line \(line.number): a \(kind == "users" ? "user" : "device") is missing")
                    continue
                }
                if kind == nil {
                    kind = own
                    try await begin(own, devices)
                }
                batch.append(.string(id))
                guard batch.count >= Self.batchSize else { continue }
                try await send()
                last = line.number
                bar.update(done: added, fraction: input.size.map { Double(input.consumed) / Double(max($0, 1)) })
            }
            try await send()
        }
        bar.update(done: added, fraction: input.size.map { _ in 1 }, isLast: true)
        if form.isJSON {
            Shell.print([
                "added": .integer(Int64(added)), "unknown": .integer(Int64(unknown)),
                "refused": .integer(Int64(refused)),
            ])
        } else {
            Shell.complain("\(added) loaded, \(unknown) unknown, \(refused) refused")
        }
        if unknown + refused > 0 { throw added == 0 ? ExitStatus.failure : ExitStatus.partial }
    }

    /// Creates the list, or empties it.
    private func begin(_ kind: String, _ devices: DevicesClient) async throws {
        let path = SegmentsCommand.path(name)
        let empty = JSONValue.object([kind: .array([])]).bytes
        if !replace {
            let found: GatewayClient.Answer
            do throws(HTTPFailure) {
                found = try await devices.client.get(path)
            } catch {
                throw devices.client.unreachable(error)
            }
            if found.status == 200 {
                guard found.json["kind"]?.stringValue == kind else {
                    let known = found.json["kind"]?.stringValue ?? "another kind"
                    throw CommandFailure("the segment \(name) is one of \(known), and the file has \(kind)", .usage)
                }
                return
            }
        }
        _ = try await devices.call { (client) throws(HTTPFailure) in try await client.put(path, empty) }
    }
}

extension InputFile.Rows {
    /// The meaning of rows that hold members of a segment.
    fileprivate static var members: InputFile.Rows {
        InputFile.Rows(
            check: { (headings, file) throws(CommandFailure) in
                guard headings.contains("device") != headings.contains("user") else {
                    throw CommandFailure("\(file):1: name one column device or user", .usage)
                }
            },
            object: { (headings, fields) throws(CommandFailure) in
                var member = JSONObject()
                for (heading, field) in zip(headings, fields) where heading == "device" || heading == "user" {
                    member[heading] = .string(field)
                }
                return member
            },
            option: "a name that ends in .csv"
        )
    }
}

/// `chapar segments count`: counts the devices of a segment.
struct SegmentsCountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "count",
        abstract: "Count the devices that a message to a segment would reach."
    )

    @Argument(help: "The name.", completion: NameCompletion.segments.kind)
    var name: String

    @Option(help: "exact, or estimate from samples. Default: exact.")
    var mode = AudienceCountCommand.Mode.exact

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            let path = SegmentsCommand.path(name) + "/count?mode=\(mode.rawValue)"
            let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.get(path) }
            form.isJSON ? Shell.print(answer.json) : Shell.print(AudienceText.sentence(answer.json))
        }
    }
}

/// `chapar segments delete`: deletes a segment.
struct SegmentsDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete a segment; its devices and users stay."
    )

    @Argument(help: "The name.", completion: NameCompletion.segments.kind)
    var name: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            let path = SegmentsCommand.path(name)
            _ = try await devices.call { (client) throws(HTTPFailure) in try await client.delete(path) }
            if form.isJSON {
                Shell.print(JSONValue.object(["name": .string(name), "deleted": true]))
            } else {
                Shell.complain("\(name) deleted")
            }
        }
    }
}
