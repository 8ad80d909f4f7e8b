import ArgumentParser
import Foundation
import ChaparCore

/// `chapar audience`: commands on audiences of a gateway's registry.
struct AudienceCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "audience",
            abstract: "Count the devices of a rule, and list the tags that rules may name.",
            discussion: """
                Every command talks to a running gateway: --url, and the key of the scope "devices" in --key-file or \
                $CHAPAR_KEY. Rules: docs/Audiences.md.
                """,
            subcommands: [AudienceCountCommand.self, AudienceTagsCommand.self]
        )
    }
}

/// The flags that make the rule of an audience; all of them must hold.
struct AudienceRuleOptions: ParsableArguments {
    @Option(help: "Devices with this tag; may be repeated.")
    var tag: [String] = []

    @Option(help: "Devices of users with this tag; may be repeated.")
    var userTag: [String] = []

    @Option(help: "Devices of this segment; may be repeated.", completion: NameCompletion.segments.kind)
    var segment: [String] = []

    @Option(help: "Devices of this platform: ios, android, harmony, web or x-name.")
    var platform: String?

    @Flag(help: "Every device.")
    var everyone = false

    @Option(help: "A file with a rule as JSON, - for stdin.", completion: .file(extensions: ["json"]))
    var audience: String?

    /// Whether a flag is there.
    var isEmpty: Bool {
        tag.isEmpty && userTag.isEmpty && segment.isEmpty && platform == nil && !everyone && audience == nil
    }

    func validate() throws {
        guard everyone || audience != nil else { return }
        let others = !tag.isEmpty || !userTag.isEmpty || !segment.isEmpty || platform != nil
        if others || everyone && audience != nil {
            throw ValidationError("--everyone and --audience stand alone: leave the other flags out.")
        }
    }

    /// Returns the rule.
    func rule() throws -> JSONValue {
        if let audience { return try Self.read(audience) }
        if everyone { return ["everyone": true] }
        var rules: [JSONValue] = tag.map { ["tag": .string($0)] }
        rules += userTag.map { ["user_tag": .string($0)] }
        rules += segment.map { ["segment": .string($0)] }
        if let platform { rules.append(["platform": .string(platform)]) }
        guard !rules.isEmpty else {
            throw ValidationError(
                "Say which devices: --tag, --user-tag, --segment, --platform, --everyone or --audience."
            )
        }
        return rules.count == 1 ? rules[0] : ["all": .array(rules)]
    }

    /// Reads a file with JSON.
    static func read(_ path: String) throws -> JSONValue {
        let handle = path == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: path)
        guard let handle, let data = try handle.readToEnd() else {
            throw CommandFailure("cannot read a rule from \(path)", .usage)
        }
        do {
            return try JSONValue(parsing: Array(data))
        } catch {
            throw CommandFailure("\(path) is no JSON: \(error)", .usage)
        }
    }
}

/// `chapar audience count`: counts the devices of a rule.
struct AudienceCountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "count",
        abstract: "Count the devices that a message to an audience would reach."
    )

    /// The way to count.
    enum Mode: String, ExpressibleByArgument, CaseIterable {
        case exact, estimate
    }

    @OptionGroup(title: "Which devices") var rule: AudienceRuleOptions

    @Option(help: "A file with the rule of devices to leave out.", completion: .file(extensions: ["json"]))
    var exclude: String?

    @Option(help: "A list of the configuration: those who opted out are skipped.")
    var list: String?

    @Option(help: "exact, or estimate from samples. Default: exact.")
    var mode = Mode.exact

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        var question: JSONObject = ["audience": try rule.rule(), "mode": .string(mode.rawValue)]
        if let exclude { question["exclude"] = try AudienceRuleOptions.read(exclude) }
        if let list { question["list"] = .string(list) }
        let body = JSONValue.object(question).bytes
        try await DevicesClient.use(gateway) { devices in
            let answer = try await devices.client.postPatiently("/v1/audiences/count", body)
            if let failure = DevicesClient.failure(answer) { throw failure }
            form.isJSON ? Shell.print(answer.json) : Shell.print(AudienceText.sentence(answer.json))
        }
    }
}

/// The texts about audiences.
enum AudienceText {
    /// Returns the sentence about a count.
    static func sentence(_ count: JSONValue) -> String {
        let number = count["count"]?.integerValue ?? 0
        let amount =
            switch count["kind"]?.stringValue {
            case "estimate": "about \(number) devices, ± \(count["plus_minus"]?.integerValue ?? 0)"
            case "at_least": "at least \(number) devices; the time was over"
            default: "\(number) devices"
            }
        let skipped = (count["skipped"]?.objectValue ?? JSONObject()).map {
            "\($0.value.integerValue ?? 0) \($0.name.replacing("_", with: " "))"
        }
        return amount + (skipped.isEmpty ? "" : "; skipped: \(skipped.joined(separator: ", "))")
    }
}

/// `chapar audience tags`: lists the tags of devices and users.
struct AudienceTagsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tags",
        abstract: "List the tags of devices and users with the number of devices."
    )

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            var table = TextTable("TAG", "OF", "DEVICES")
            for try await item in devices.items("/v1/tags") {
                if form.isJSON {
                    Shell.print(item)
                } else {
                    table.add(
                        item["tag"]?.stringValue ?? "",
                        item["of"]?.stringValue ?? "",
                        "\(item["devices"]?.integerValue ?? 0)"
                    )
                }
            }
            if !form.isJSON { table.print() }
        }
    }
}

extension DevicesClient {
    /// Returns the items of all pages of a list, a page at a time.
    func items(_ path: String) -> AsyncThrowingStream<JSONValue, any Error> {
        let state = PageState()
        return AsyncThrowingStream {
            while await state.isEmpty {
                guard let cursor = await state.cursor else { return nil }
                let query = "?limit=1000" + (cursor.isEmpty ? "" : "&cursor=\(FormEncoding.encode(cursor))")
                let answer = try await call { (client) throws(HTTPFailure) in try await client.get(path + query) }
                await state.take(answer.json["items"]?.arrayValue ?? [], next: answer.json["next"]?.stringValue)
            }
            return await state.next()
        }
    }
}

/// The progress through the pages of a list.
private actor PageState {
    private var items: ArraySlice<JSONValue> = []
    /// The cursor of the next page; empty before the first, nil after the last.
    private(set) var cursor: String? = ""

    var isEmpty: Bool { items.isEmpty }

    func take(_ page: [JSONValue], next: String?) {
        items = page[...]
        cursor = next
    }

    func next() -> JSONValue? { items.popFirst() }
}
