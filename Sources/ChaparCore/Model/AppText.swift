/// A text of a platform's payload: either the text itself, or a key into the app's own translations.
///
/// Apple, Google and Huawei all take both forms (`title` and `title-loc-key`, `title` and `title_loc_key`). With a key
/// the device translates; with ``LocalizedText`` the gateway chooses the text.
@nonexhaustive
public enum AppText: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// The text itself.
    case plain(String)
    /// The key of a text in the app's resources, and the values of its placeholders.
    case key(String, arguments: [String] = [])

    /// Makes a text from a literal with or without interpolations.
    public init(stringLiteral value: String) { self = .plain(value) }

    /// Makes a text.
    public init(_ text: some StringProtocol) { self = .plain(String(text)) }

    /// Writes it in the form that Android's platforms share: `title`, or `title_loc_key` and `title_loc_args`.
    package func put(as name: String, into members: inout JSONObject) {
        switch self {
        case .plain(let text): members[name] = .string(text)
        case .key(let key, let arguments):
            members["\(name)_loc_key"] = .string(key)
            if !arguments.isEmpty { members["\(name)_loc_args"] = .texts(arguments) }
        }
    }
}
