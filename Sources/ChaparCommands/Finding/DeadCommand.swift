import ArgumentParser
import ChaparCore
import ChaparQueue
import Foundation

/// `chapar dead`: counts, shows, sends again and acknowledges what failed for a cause that can be corrected.
struct DeadCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "dead",
            abstract: "Count, show, send again and acknowledge what failed for a cause that can be corrected.",
            discussion: """
                Talks to a running gateway: --url, and a key in --key-file or $CHAPAR_KEY: "read" to look, "send" to send again \
                what the key sent, "admin" for all.

                  \(program) dead list --url http://127.0.0.1:8080
                  \(program) dead resend --reason InvalidProviderToken --ttl 3600 --dry-run --url http://127.0.0.1:8080
                """,
            subcommands: [
                DeadListCommand.self, DeadShowCommand.self, DeadResendCommand.self, DeadAcknowledgeCommand.self,
            ]
        )
    }
}

/// `chapar dead list`: counts dead letters by reason, backend and app, and says whether the cause is gone.
struct DeadListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Count dead letters by reason, backend and app, and say whether the cause is gone."
    )

    @OptionGroup(title: "Which") var which: FindingOptions
    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        let filters = try which.filters(gateway) + [("dead", "true")]
        let query = filters.map { "\($0.name)=\(FormEncoding.encode($0.value))" }.joined(separator: "&")
        try await DevicesClient.use(gateway) { devices in
            let answer = try await devices.call { (client) throws(HTTPFailure) in
                try await client.get("/v1/deliveries/counts?\(query)")
            }
            if form.isJSON { return Shell.print(answer.json) }
            var table = TextTable("COUNT", "REASON", "BACKEND", "APP", "CAUSE")
            let items = answer.json["items"]?.arrayValue ?? []
            for item in items {
                table.add(
                    "\(item["count"]?.integerValue ?? 0)",
                    item["reason"]?.words ?? "-",
                    item["backend"]?.words ?? "-",
                    item["app"]?.words ?? "-",
                    item["cause"]?.words ?? "-"
                )
            }
            items.isEmpty ? Shell.print("there are none") : table.print()
            for line in FoundPages.explanations(items) { Shell.print(line) }
        }
    }
}

/// `chapar dead show`: lists dead letters one by one.
struct DeadShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "List dead letters one by one, the newest first."
    )

    @OptionGroup(title: "Which") var which: FindingOptions

    @Option(help: "The most to list. Default: 50.")
    var limit = 50

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws {
        let filters = try which.filters(gateway) + [("dead", "true")]
        try await DevicesClient.use(gateway) { devices in
            var (table, found) = (FoundPages.table, [JSONValue]())
            let more = try await FoundPages(devices: devices).each("/v1/deliveries", filters, limit: limit) {
                if form.isJSON { return Shell.print($0) }
                FoundPages.add($0, to: &table)
                found.append($0)
            }
            if !form.isJSON {
                found.isEmpty ? Shell.print("there are none") : table.print()
                for line in FoundPages.explanations(found) { Shell.print(line) }
            }
            FoundPages.complainOfMore(more)
        }
    }
}

/// The selection of `dead resend` and `dead acknowledge`: named deliveries, or all that the flags mean.
struct DeadSelection {
    let names: [String]
    let which: FindingOptions
    let gateway: GatewayAddress

    /// Returns the member of the body; without names and flags every dead letter is meant.
    func member(_ isAll: Bool) throws -> (name: String, value: JSONValue) {
        guard names.isEmpty else {
            guard try which.body(gateway).isEmpty || gateway.app != nil else {
                throw CommandFailure("name deliveries, or give flags that say which, not both.", .usage)
            }
            return ("deliveries", .array(try names.map(Self.place)))
        }
        var filter = try which.body(gateway)
        if isAll { filter["dead"] = true }
        return ("filter", .object(filter))
    }

    static func place(_ text: String) throws -> JSONValue {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard let id = parts.first, NotificationID(id) != nil, parts.count == 2, let index = Int64(parts[1]), index >= 0
        else {
            throw CommandFailure(
                "\"\(text.onOneLine)\" names no delivery: write the id of the notification, a slash and the index, as lists do.",
                .usage
            )
        }
        return ["notification": .string(String(id)), "delivery": .integer(index)]
    }
}

extension DevicesClient {
    /// Posts a request until its cursor ends; calls a function with each answer.
    fileprivate func postAll(_ path: String, _ body: JSONObject, _ take: (JSONValue) -> Void) async throws {
        var body = body
        while true {
            let bytes = JSONValue.object(body).bytes
            let answer = try await call { (client) throws(HTTPFailure) in
                try await client.post(path, bytes, idempotencyKey: UUID().uuidString)
            }
            take(answer.json)
            guard let next = answer.json["next"]?.stringValue else { return }
            body["cursor"] = .string(next)
        }
    }
}

/// `chapar dead resend`: sends dead letters again.
struct DeadResendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resend",
        abstract: "Send dead letters again: the named ones, or all that the flags select.",
        discussion: """
            Each goes out as a new message to its one recipient, once for each failure. Dead tokens, erased users and messages \
            that the platform finds wrong are left out, and counted. What was unknown may arrive a second time.
            """
    )

    @Argument(help: "Deliveries, as lists name them: the id of the notification, a slash and the index.")
    var deliveries: [String] = []

    @Option(help: "The new time to live, in seconds: the old one is over.")
    var ttl: Int

    @Option(help: "How many to send in a minute; without it all are sent at once.")
    var perMinute: Int?

    @Flag(help: "Also those that were sent again before.")
    var again = false

    @Flag(help: "Only say what would be sent.")
    var dryRun = false

    @OptionGroup(title: "Which") var which: FindingOptions
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let selection = try DeadSelection(names: deliveries, which: which, gateway: gateway).member(!again)
        var body = JSONObject()
        body[selection.name] = selection.value
        body["options"] = ["ttl": .integer(Int64(ttl))]
        body["per_minute"] = perMinute.map { .integer(Int64($0)) }
        if again { body["again"] = true }
        if dryRun { body["dry_run"] = true }
        let request = body
        var (matched, resent, copies): (Int64, Int64, Int64) = (0, 0, 0)
        var leftOut: [String: Int64] = [:]
        try await DevicesClient.use(gateway) { devices in
            try await devices.postAll("/v1/deliveries/resend", request) { answer in
                if form.isJSON { return Shell.print(answer) }
                matched = matched.adding(clamping: answer["matched"]?.integerValue ?? 0)
                resent = resent.adding(clamping: answer["resent"]?.integerValue ?? 0)
                copies = copies.adding(clamping: answer["possible_second_copies"]?.integerValue ?? 0)
                for (reason, count) in answer["left_out"]?.objectValue?.members ?? [] {
                    leftOut[reason] = (leftOut[reason] ?? 0).adding(clamping: count.integerValue ?? 0)
                }
            }
        }
        guard !form.isJSON else { return }
        Shell.print("\(matched) failed, \(resent) \(dryRun ? "would be sent again" : "sent again")")
        if copies > 0 { Shell.print("\(copies) of them may arrive a second time: their outcome was unknown") }
        for (reason, count) in leftOut.sorted(by: { $0.key < $1.key }) {
            Shell.print("left out: \(count), \(reason.replacing("_", with: " "))")
        }
    }
}

/// `chapar dead acknowledge`: takes dead letters from the view, or brings them back.
struct DeadAcknowledgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge",
        abstract: "Acknowledge dead letters: the named ones, or all that the flags select."
    )

    @Argument(help: "Deliveries, as lists name them: the id of the notification, a slash and the index.")
    var deliveries: [String] = []

    @Flag(help: "Bring them back.")
    var undo = false

    @Flag(help: "Only say what would be changed.")
    var dryRun = false

    @OptionGroup(title: "Which") var which: FindingOptions
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let selection = try DeadSelection(names: deliveries, which: which, gateway: gateway).member(!undo)
        var body = JSONObject()
        body[selection.name] = selection.value
        if undo { body["undo"] = true }
        if dryRun { body["dry_run"] = true }
        let request = body
        var count: Int64 = 0
        try await DevicesClient.use(gateway) { devices in
            try await devices.postAll("/v1/deliveries/acknowledge", request) { answer in
                if form.isJSON { return Shell.print(answer) }
                let name = undo ? "brought_back" : "acknowledged"
                count = count.adding(clamping: answer[name]?.integerValue ?? 0)
            }
        }
        guard !form.isJSON else { return }
        Shell.print("\(count) \(dryRun ? "would be " : "")\(undo ? "brought back" : "acknowledged")")
    }
}
