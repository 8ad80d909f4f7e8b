import ArgumentParser
import ChaparCore

/// The flags that name a message's recipients: `to` of a request.
struct AudienceOptions: ParsableArguments {
    /// The flags, for sentences.
    static let words = "--token service:token (or --to), --device, --user, --activity, --topic, --tag or --platform-id"

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
        help: "A tag of the platform: who has any of those given; --backend says of which. Repeat it."
    )
    var tags: [String] = []

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
        if !tags.isEmpty { forms.append(("tags", ["any": .texts(tags)])) }
        add("platform_ids", platformIDs)
        guard forms.count < 2 else { throw ValidationError("Say in one way who gets it: \(Self.words).") }
        guard let form = forms.first else { return nil }
        if !isThroughGateway, ["devices", "users", "activity"].contains(form.name) {
            throw ValidationError(
                "Only a gateway knows its devices, users and their Live Activities: give --url, or $CHAPAR_URL."
            )
        }
        return .object([form.name: form.value])
    }
}
