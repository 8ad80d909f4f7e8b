import ArgumentParser
import ChaparCore
import Foundation

/// The flags that name a message's recipients: `to` of a request.
struct AudienceOptions: ParsableArguments {
    /// The flags, for sentences.
    static let words =
        "--token service:token (or --to), --device, --user, --activity, --topic, --tag, --platform-id, --segment, "
        + "--platform, --everyone or --audience"

    @Option(name: [.customLong("to"), .customLong("token")], help: "A device token, service:token. Repeat it.")
    var tokens: [String] = []

    @Option(name: .customLong("device"), help: "A device of the gateway's registry. Repeat it.")
    var devices: [String] = []

    @Option(name: .customLong("user"), help: "A user of the gateway's registry. Repeat it.")
    var users: [String] = []

    @Option(help: "The Live Activity that is updated or ended, on all devices of the registry that show it.")
    var activity: String?

    @Option(help: "A topic of the platform; --backend says of which.")
    var topic: String?

    @Option(
        name: .customLong("tag"),
        help:
            "A tag of the gateway's registry, or with --backend of that platform: who has any of those given. Repeat it."
    )
    var tags: [String] = []

    @Option(
        name: .customLong("segment"),
        help: "A segment of the gateway: who is in any of those given. Repeat it.",
        completion: NameCompletion.segments.kind
    )
    var segments: [String] = []

    @Option(
        name: .customLong("platform"),
        help:
            "The devices of the registry on this platform, such as android; with --tag or --segment those among them. Repeat it."
    )
    var platforms: [String] = []

    @Flag(help: "Every device of the registry; the key needs the scope broadcast.")
    var everyone = false

    @Option(
        name: .customLong("audience"),
        help: "A JSON file with a rule: to.audience of a request.",
        completion: .file(extensions: ["json"])
    )
    var audienceFile: String?

    @Option(
        name: .customLong("platform-id"),
        help: "An id of the platform, such as a broadcast channel of APNs; --backend says of which. Repeat it."
    )
    var platformIDs: [String] = []

    /// Returns `to` of the request; nil when no flag names a recipient.
    ///
    /// Throws for several forms at once, and for a form that only a gateway knows, without a gateway.
    func json(throughGateway isThroughGateway: Bool) throws -> JSONValue? {
        var forms: [(name: String, value: JSONValue)] = []
        func add(_ name: String, _ texts: [String]) { if !texts.isEmpty { forms.append((name, .texts(texts))) } }
        if !tokens.isEmpty { forms.append(("tokens", .array(try tokens.map(MessageOptions.recipient)))) }
        add("devices", devices)
        add("users", users)
        if let activity { forms.append(("activity", .string(activity))) }
        if let topic { forms.append(("topic", .string(topic))) }
        if let audience = try audience { forms.append(audience) }
        add("platform_ids", platformIDs)
        guard forms.count < 2 else { throw ValidationError("Say in one way who gets it: \(Self.words).") }
        guard let form = forms.first else { return nil }
        if !isThroughGateway, ["devices", "users", "activity", "segment", "audience", "everyone"].contains(form.name) {
            throw ValidationError(
                "Only a gateway knows its devices, users, segments and their Live Activities: give --url, or $CHAPAR_URL."
            )
        }
        return .object([form.name: form.value])
    }

    /// Whether the message is a campaign: its recipients are an audience of the gateway's registry.
    ///
    /// With a backend a tag is one of its platform.
    func isAudience(backend: String?) -> Bool {
        !segments.isEmpty || !platforms.isEmpty || everyone || audienceFile != nil || (!tags.isEmpty && backend == nil)
    }

    /// The form that the flags of an audience give; nil without any.
    private var audience: (name: String, value: JSONValue)? {
        get throws {
            let parts = [("tag", tags), ("segment", segments), ("platform", platforms)].filter { !$0.1.isEmpty }
            guard !(everyone && audienceFile != nil), parts.isEmpty || !(everyone || audienceFile != nil) else {
                throw ValidationError("--everyone and --audience stand alone, without --tag, --segment and --platform.")
            }
            if everyone { return ("everyone", true) }
            if let audienceFile { return ("audience", try Self.rule(in: audienceFile)) }
            guard let first = parts.first else { return nil }
            if parts.count == 1, first.0 == "tag" { return ("tags", ["any": .texts(tags)]) }
            if parts.count == 1, first.0 == "segment", segments.count == 1 { return ("segment", .string(segments[0])) }
            let rules = parts.map { leaf, names -> JSONValue in
                let rules = names.map { JSONValue.object([leaf: .string($0)]) }
                return rules.count == 1 ? rules[0] : ["any": .array(rules)]
            }
            return ("audience", rules.count == 1 ? rules[0] : ["all": .array(rules)])
        }
    }

    private static func rule(in path: String) throws -> JSONValue {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ValidationError("--audience \(path): there is no such file, or it cannot be read.")
        }
        do {
            return try JSONValue(parsing: Array(data))
        } catch {
            throw ValidationError("--audience \(path) is not JSON: \(error).")
        }
    }
}
