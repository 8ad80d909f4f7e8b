import ArgumentParser
import ChaparCore
import ChaparQueue
import Foundation

/// `chapar find`: finds what was sent to a user or a device, or by a reference or an id, and says why it failed.
struct FindCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "find",
            abstract: "Find the messages of a user, a device, a reference or an id, and say why one failed.",
            discussion: """
                Talks to a running gateway: --url, and a key of the scope "read", "read_all" or "admin" in --key-file or \
                $CHAPAR_KEY.

                  \(program) find ali --since yesterday --url http://127.0.0.1:8080

                Exit code 1 when nothing is found.
                """
        )
    }

    @Argument(help: "A user, a device, a reference or the id of a notification.")
    var word: String

    @Option(help: "Accepted since: yesterday, 2h, 2026-11-26, 14:30 or RFC 3339.")
    var since: String?

    @Option(help: "Accepted before, written like --since.")
    var until: String?

    @Option(help: "The most deliveries to list. Default: 20.")
    var limit = 20

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws {
        let app = gateway.app.map { [(name: "app", value: $0)] } ?? []
        let common = try app + FindingOptions.span(since: since, until: until)
        var names = ["user", "device", "reference"]
        if NotificationID(word) != nil { names.append("id") }
        var (found, more): ([String: JSONValue], [String]) = ([:], [])
        try await DevicesClient.use(gateway) { devices in
            for name in names {
                let filters = common + [(name: name, value: word)]
                let rest = try await FoundPages(devices: devices).each("/v1/deliveries", filters, limit: limit) {
                    found[FoundPages.name($0)] = $0
                }
                if let rest { more.append(rest) }
            }
        }
        let deliveries = found.values.sorted { FoundPages.isNewer($0, than: $1) }.prefix(limit)
        if found.count > limit, let last = deliveries.last?["created_at"]?.stringValue { more.append(last) }
        if form.isJSON {
            for delivery in deliveries { Shell.print(delivery) }
        } else if !deliveries.isEmpty {
            var table = FoundPages.table
            for delivery in deliveries { FoundPages.add(delivery, to: &table) }
            table.print()
            for line in FoundPages.explanations(Array(deliveries)) { Shell.print(line) }
        }
        FoundPages.complainOfMore(more.max())
        guard !deliveries.isEmpty else {
            throw CommandFailure("nothing was sent to a user, a device or with a reference \"\(word.onOneLine)\".")
        }
    }
}

/// `chapar deliveries`: lists deliveries by any filter.
struct DeliveriesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deliveries",
        abstract: "List deliveries, the newest first, by user, device, reference, state, backend, reason or time."
    )

    @OptionGroup(title: "Which") var which: FindingOptions

    @Option(help: "The most to list. Default: 50.")
    var limit = 50

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        let filters = try which.filters(gateway)
        try await DevicesClient.use(gateway) { devices in
            var table = FoundPages.table
            let more = try await FoundPages(devices: devices).each("/v1/deliveries", filters, limit: limit) {
                form.isJSON ? Shell.print($0) : FoundPages.add($0, to: &table)
            }
            if !form.isJSON { table.print() }
            FoundPages.complainOfMore(more)
        }
    }
}

/// `chapar notifications`: lists and shows notifications.
struct NotificationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notifications",
        abstract: "List and show the messages that a gateway has accepted.",
        subcommands: [
            NotificationsListCommand.self, NotificationsCountCommand.self, NotificationsShowCommand.self,
        ]
    )
}

/// `chapar notifications list`: lists notifications by any filter.
struct NotificationsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List notifications, the newest first."
    )

    @OptionGroup(title: "Which") var which: FindingOptions

    @Option(help: "The most to list. Default: 50.")
    var limit = 50

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        let filters = try which.filters(gateway)
        try await DevicesClient.use(gateway) { devices in
            var table = TextTable("ID", "ACCEPTED", "STATUS", "RECIPIENTS", "KEY", "REFERENCE")
            let more = try await FoundPages(devices: devices).each("/v1/notifications", filters, limit: limit) { item in
                if form.isJSON { return Shell.print(item) }
                table.add(
                    item["id"]?.words ?? "",
                    item["created_at"]?.words ?? "",
                    item["status"]?.words ?? "",
                    "\(item["recipients"]?.integerValue ?? 0)",
                    item["caller"]?.words ?? "-",
                    item["reference"]?.words ?? "-"
                )
            }
            if !form.isJSON { table.print() }
            FoundPages.complainOfMore(more)
        }
    }
}

/// `chapar notifications show`: shows a notification with its deliveries, and why one failed.
struct NotificationsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a notification with its deliveries, and why one failed."
    )

    @Argument(help: "The id.")
    var id: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in try await Self.show(id, devices, form) }
    }

    /// Prints a notification's state, its deliveries, and what the reasons mean.
    static func show(_ id: String, _ devices: DevicesClient, _ form: OutputForm) async throws {
        let path = "/v1/notifications/" + FormEncoding.encode(id)
        let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.get(path) }
        if form.isJSON { Shell.print(answer.json) }
        var deliveries: [JSONValue] = []
        _ = try await FoundPages(devices: devices).each("/v1/deliveries", [("id", id)], limit: 1_000) {
            deliveries.append($0)
        }
        if form.isJSON { return deliveries.forEach { Shell.print($0) } }
        let json = answer.json
        Shell.print("\(Shell.paint(json["id"]?.words ?? "", .bold))  \(json["status"]?.words ?? "")")
        for (name, member) in [
            ("accepted", "created_at"), ("to be sent", "send_at"), ("expires", "expires_at"), ("key", "caller"),
            ("reference", "reference"),
        ] {
            if let words = json[member]?.words {
                Shell.print("  \(name.padding(toLength: 12, withPad: " ", startingAt: 0)) \(words)")
            }
        }
        Shell.print("")
        var table = FoundPages.table
        for delivery in deliveries { FoundPages.add(delivery, to: &table) }
        table.print()
        for line in FoundPages.explanations(deliveries) { Shell.print(line) }
    }
}
