import ArgumentParser
import ChaparCore
import Foundation

/// The flags that say which messages are meant: the filters of the API under their own names.
struct FindingOptions: ParsableArguments {
    @Option(help: "Messages to this user.")
    var user: String?

    @Option(help: "Messages to this device.")
    var device: String?

    @Option(help: "Messages with this reference, the sender's own id.")
    var reference: String?

    @Option(help: "Ids of notifications, divided by commas.")
    var id: String?

    @Option(help: "States, divided by commas, such as failed,expired,unknown.")
    var state: String?

    @Option(help: "Backends, divided by commas.", completion: NameCompletion.backends.kind)
    var backend: String?

    @Option(help: "Reasons of the last attempt, divided by commas.")
    var reason: String?

    @Option(
        help: "Messages to audiences whose rule names this segment.",
        completion: NameCompletion.segments.kind
    )
    var segment: String?

    @Option(help: "API keys that sent them, divided by commas.", completion: NameCompletion.keys.kind)
    var key: String?

    @Option(help: "The collapse id.")
    var collapseID: String?

    @Option(help: "Accepted since: yesterday, 2h, 2026-11-26, 14:30 or RFC 3339.")
    var since: String?

    @Option(help: "Accepted before, written like --since.")
    var until: String?

    /// Returns the filters, with the app of the gateway's flags.
    func filters(_ gateway: GatewayAddress) throws -> [(name: String, value: String)] {
        [
            ("user", user), ("device", device), ("reference", reference), ("id", id), ("state", state),
            ("app", gateway.app), ("backend", backend), ("reason", reason), ("segment", segment), ("key", key),
            ("collapse_id", collapseID),
        ].compactMap { name, value in value.map { (name, $0) } } + (try Self.span(since: since, until: until))
    }

    /// Returns the filters of a span of time, written as people write times.
    static func span(since: String?, until: String?) throws -> [(name: String, value: String)] {
        [
            ("since", try since.map { try PersonTime.text($0, .past, option: "--since") }),
            ("until", try until.map { try PersonTime.text($0, .past, option: "--until") }),
        ].compactMap { name, value in value.map { (name, $0) } }
    }

    /// Returns the filters as a member of a body.
    func body(_ gateway: GatewayAddress) throws -> JSONObject {
        var object = JSONObject()
        for (name, value) in try filters(gateway) {
            let isList = ["id", "state", "backend", "reason", "key"].contains(name)
            object[name] =
                isList ? .array(value.split(separator: ",").map { .string(String($0)) }) : .string(value)
        }
        return object
    }
}

/// Pages of a search, and their text for people.
struct FoundPages {
    let devices: DevicesClient

    /// Calls a function with each item of a search until enough are found; returns how far it has looked, if not to the
    /// end.
    func each(
        _ path: String,
        _ filters: [(name: String, value: String)],
        limit: Int,
        _ body: (JSONValue) -> Void
    ) async throws -> String? {
        var left = limit
        var cursor: String?
        while true {
            var parts = filters + [("limit", "\(min(left, 200))")]
            if let cursor { parts.append(("cursor", cursor)) }
            let query = parts.map { "\($0.name)=\(FormEncoding.encode($0.value))" }.joined(separator: "&")
            let answer = try await devices.call { (client) throws(HTTPFailure) in
                try await client.get("\(path)?\(query)")
            }
            let items = answer.json["items"]?.arrayValue ?? []
            for item in items { body(item) }
            left -= items.count
            cursor = answer.json["next"]?.stringValue
            guard cursor != nil, left > 0 else {
                return cursor == nil ? nil : answer.json["looked_back_to"]?.stringValue
            }
        }
    }

    /// Returns the name of a delivery: that of its notification, a slash and its index.
    static func name(_ delivery: JSONValue) -> String {
        "\(delivery["notification"]?.words ?? "?")/\(delivery["delivery"]?.integerValue ?? 0)"
    }

    /// Whether a delivery stands before another one in a list: the newest first, as the gateway's pages have them.
    static func isNewer(_ delivery: JSONValue, than other: JSONValue) -> Bool {
        func place(_ delivery: JSONValue) -> (String, Int64) {
            (delivery["notification"]?.stringValue ?? "", delivery["delivery"]?.integerValue ?? 0)
        }
        return place(delivery) > place(other)
    }

    /// Returns the last reason of a delivery; a dash without one.
    static func reason(_ delivery: JSONValue) -> String {
        delivery["explanation"]?["reason"]?.words
            ?? delivery["attempts"]?.arrayValue?.last?["reason"]?.words ?? "-"
    }

    /// Adds a delivery to a table with the columns ``columns``.
    static func add(_ delivery: JSONValue, to table: inout TextTable) {
        table.add(
            name(delivery),
            delivery["created_at"]?.words ?? "",
            delivery["recipient"]?.words ?? "",
            delivery["state"]?.words ?? "",
            delivery["backend"]?.words ?? "",
            reason(delivery),
            delivery["reference"]?.words ?? "-",
            delivery["resend_of"].map(name) ?? "-"
        )
    }

    /// A table of deliveries.
    static var table: TextTable {
        TextTable("DELIVERY", "ACCEPTED", "TO", "STATE", "BACKEND", "REASON", "REFERENCE", "RESEND OF")
    }

    /// Returns the lines that say why deliveries failed: one explanation for each reason.
    static func explanations(_ deliveries: [JSONValue]) -> [String] {
        var seen: Set<String> = []
        var lines: [String] = []
        for why in deliveries.compactMap({ $0["explanation"] }) {
            guard let reason = why["reason"]?.words, seen.insert(reason).inserted else { continue }
            lines += [
                "", Shell.paint(reason, .bold), "  meaning      \(why["meaning"]?.words ?? "")",
                "  the gateway  \(why["gateway"]?.words ?? "")", "  you          \(why["action"]?.words ?? "")",
            ]
        }
        return lines
    }

    /// Returns a time for --until that still includes everything accepted at the given time; nil for a text that is no
    /// time.
    ///
    /// `until` excludes what was accepted at that very time, and a page may end within a notification.
    static func until(_ lookedBackTo: String) -> String? {
        RFC3339.parse(lookedBackTo).map { RFC3339.string($0.addingTimeInterval(0.001_5)) }
    }

    static func complainOfMore(_ lookedBackTo: String?) {
        guard let lookedBackTo else { return }
        let time = until(lookedBackTo) ?? lookedBackTo
        Shell.complain("There are more, before \(time.onOneLine): use --limit, or --until.")
    }
}
