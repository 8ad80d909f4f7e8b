import ArgumentParser
import ChaparCore

/// `chapar keys own`: what the key of the shell may do at a running gateway.
struct KeysOwnCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "own",
        abstract: "Show what your key may do at a running gateway: scopes, apps, backends, limits."
    )

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.answer { (client) throws(HTTPFailure) in try await client.get("/v1/key") }
        if form.isJSON { return Shell.print(answer) }
        for line in Self.lines(answer) { Shell.print(line) }
    }

    /// Returns the answer in words.
    static func lines(_ answer: JSONValue) -> [String] {
        func list(_ name: String) -> String {
            guard let values = answer[name]?.arrayValue else { return "all" }
            return values.isEmpty ? "none" : values.compactMap(\.words).joined(separator: ", ")
        }
        let name = answer["name"]?.words ?? ""
        return [
            "name         \(name.isEmpty ? "none: the gateway has no keys" : name)", "scopes       \(list("scopes"))",
            "apps         \(list("apps"))", "backends     \(list("backends"))",
            "not after    \(answer["not_after"]?.words ?? "-")",
            "audiences    \(answer["max_audience"]?.integerValue.map { "at most \($0) devices" } ?? "any size")",
            "queue        at most \(KeysUseCommand.percent(answer["queue_share"]))",
        ]
    }
}

/// `chapar keys use`: the keys of a running gateway with their last use and what they have waiting.
struct KeysUseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "use",
        abstract: "Show when the keys of a running gateway were used last, and what each has waiting.",
        discussion: "Needs the key of the scope \"admin\". Values and hashes are never shown."
    )

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let answer = try await gateway.answer { (client) throws(HTTPFailure) in try await client.get("/v1/keys") }
        let keys = answer["keys"]?.arrayValue ?? []
        if form.isJSON { return keys.forEach { Shell.print($0) } }
        var table = TextTable("NAME", "SCOPES", "LAST USED", "NOT AFTER", "WAITING", "SHARE", "OLDEST")
        for key in keys {
            table.add(
                key["name"]?.words ?? "",
                (key["scopes"]?.arrayValue ?? []).compactMap(\.words).joined(separator: ","),
                key["last_used"]?.words ?? "never",
                key["not_after"]?.words ?? "-",
                key["waiting"]?.integerValue.map { "\($0)" } ?? "-",
                Self.percent(key["share"]),
                Self.number(key["oldest_age"]).map { "\(Int64(clamping: $0)) s" } ?? "-"
            )
        }
        table.print()
    }

    /// Returns a part of one as a percentage; a dash for no number.
    static func percent(_ value: JSONValue?) -> String {
        number(value).map { "\(Int64(clamping: ($0 * 100).rounded())) %" } ?? "-"
    }

    private static func number(_ value: JSONValue?) -> Double? {
        switch value {
        case .integer(let number)?: Double(number)
        case .double(let number)?: number
        default: nil
        }
    }
}
