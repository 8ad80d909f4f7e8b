internal import ChaparCore

/// An answer of RuStore.
///
/// Its shapes are not documented, so reading accepts every known form and never fails.
///
/// The direct API's errors have `code`, `message` and `status` at the top or inside `error`, as Google's; the
/// universal one's have `status`, or `Status` as its successes do, and a list of `errors`. The texts decide only
/// where a table says so, and are never shown, since they may echo the request with its secrets.
struct RuStoreAnswer {
    /// `status`, such as `NOT_FOUND`, fit for a metric label.
    private(set) var word: String?
    /// `message` of the direct API, in lower case.
    private(set) var message = ""
    /// `errors` of the universal API, in lower case.
    private(set) var errors: [String] = []
    /// Whether the body is a JSON object.
    private(set) var isJSON = false
    /// Whether the body is not RuStore's: a page of some device on the way.
    private(set) var isForeign = false

    init(_ answer: HTTPAnswer) {
        guard !answer.body.isEmpty else { return }
        guard let top = (try? JSONValue(parsing: answer.body))?.objectValue else {
            // A truncated body is still RuStore's.
            isForeign = answer.body.first { $0 > 0x20 } != UInt8(ascii: "{")
            return
        }
        isJSON = true
        let object = top["error"]?.objectValue ?? top
        word = (object["status"] ?? object["Status"])?.stringValue.flatMap(\.asReasonLabel)
        message = object["message"]?.stringValue?.lowercased() ?? ""
        errors = (object["errors"]?.arrayValue ?? []).compactMap { $0.stringValue?.lowercased() }
    }

    /// Whether a text of the universal API calls the service token wrong.
    var blamesServiceToken: Bool { errors.contains { $0.contains("invalid auth token") } }

    /// Whether a text of the universal API calls device tokens wrong.
    var blamesTokens: Bool { errors.contains { Self.list(in: $0) != nil } }

    /// Whether a text of the universal API names this device token, by its first six characters.
    func blames(_ token: String) -> Bool {
        let prefix = token.prefix(6).lowercased()
        return errors.contains { text in
            guard text.hasPrefix("rustore:"), let list = Self.list(in: text) else { return false }
            return list.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "[" || $0 == "]" }).contains {
                $0 == prefix
            }
        }
    }

    /// Returns the list of tokens after `invalid token` or `invalid tokens`; nil when a text has no such words.
    private static func list(in text: String) -> Substring? {
        guard let words = text.firstRange(of: "invalid token") else { return nil }
        let rest = text[words.upperBound...]
        return rest.hasPrefix("s") ? rest.dropFirst() : rest
    }
}
