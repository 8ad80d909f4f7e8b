import ArgumentParser
import ChaparCore

/// `chapar devices list`: lists devices of the registry, the oldest first.
struct DevicesListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List devices, those that were registered first at the top."
    )

    @OptionGroup(title: "Which devices") var filter: DeviceFilter

    @Option(help: "The most devices to list. Default: 100.")
    var limit = 100

    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is at least 1.") }
    }

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        try await DevicesClient.use(gateway) { devices in
            var table = TextTable("ID", "USER", "PLATFORM", "TOKENS", "TAGS", "UPDATED")
            var left = limit
            var cursor: String?
            repeat {
                let page = try await devices.page(filter, limit: min(left, 1000), after: cursor)
                left -= page.items.count
                cursor = page.next
                for device in page.items {
                    form.isJSON ? Shell.print(device) : Self.add(device, to: &table)
                }
            } while cursor != nil && left > 0
            if !form.isJSON { table.print() }
            if cursor != nil { Shell.complain("There are more; use --limit, or devices export for all of them.") }
        }
    }

    private static func add(_ device: JSONValue, to table: inout TextTable) {
        table.add(
            device["id"]?.stringValue ?? "",
            device["user"]?.stringValue ?? "-",
            device["platform"]?.stringValue ?? "-",
            DeviceText.tokens(device).joined(separator: ","),
            (device["tags"]?.arrayValue ?? []).compactMap(\.stringValue).joined(separator: ","),
            device["updated_at"]?.stringValue ?? ""
        )
    }
}

/// `chapar devices get`: shows devices with all their fields.
struct DevicesGetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "get", abstract: "Show devices with all their fields.")

    @Argument(help: "The ids.")
    var ids: [String]

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            for id in ids {
                let path = DevicesClient.path(id)
                let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.get(path) }
                if form.isJSON {
                    Shell.print(answer.json)
                } else {
                    for line in DeviceText.lines(answer.json) { Shell.print(line) }
                }
            }
        }
    }
}

/// `chapar devices delete`: deletes devices and their tokens for good.
struct DevicesDeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Delete devices with their tokens, for good."
    )

    @Argument(help: "The ids.")
    var ids: [String]

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            var missing = 0
            for id in ids {
                let path = DevicesClient.path(id)
                do {
                    _ = try await devices.call { (client) throws(HTTPFailure) in try await client.delete(path) }
                } catch let failure as CommandFailure where failure.status == .failure {
                    Shell.complain(failure.description)
                    missing += 1
                    continue
                }
                form.isJSON ? Shell.print(["id": .string(id), "deleted": true]) : Shell.print("deleted \(id)")
            }
            if missing > 0 { throw missing == ids.count ? ExitStatus.failure : ExitStatus.partial }
        }
    }
}

/// Text for people of a device in an answer of the API.
enum DeviceText {
    private static func isQuarantined(_ tombstone: JSONValue) -> Bool {
        tombstone.value(of: .quarantined)?.boolValue == true
    }

    /// Returns the services that it has tokens of, with the problems of these tokens.
    static func tokens(_ device: JSONValue) -> [String] {
        (device["tokens"]?.objectValue?.members ?? []).map { service, token in
            guard let tombstone = token["tombstone"] else { return service }
            return isQuarantined(tombstone) ? "\(service) (quarantined)" : "\(service) (dead)"
        }
    }

    /// Returns a line for each field.
    static func lines(_ device: JSONValue) -> [String] {
        (device.objectValue?.members ?? []).flatMap { name, value -> [String] in
            switch value {
            case .object(let attributes) where name == "attributes":
                return attributes.members.map { "\($0.name): \($0.value.words ?? $0.value.text)" }
            case .object(let tokens):
                return tokens.members.map { service, token in
                    var line = "\(service): \(token["token"]?.words ?? ""), registered "
                    line += token["registered_at"]?.words ?? ""
                    guard let tombstone = token["tombstone"] else { return line }
                    let reason = tombstone["reason"]?.words ?? ""
                    return line + ", \(isQuarantined(tombstone) ? "refusal quarantined" : "dead") since "
                        + "\(tombstone["as_of"]?.words ?? "") (\(tombstone["backend"]?.words ?? ""): \(reason))"
                }
            case .array(let tags): return ["\(name): \(tags.compactMap(\.words).joined(separator: ", "))"]
            default: return ["\(name): \(value.words ?? value.text)"]
            }
        }
    }
}
