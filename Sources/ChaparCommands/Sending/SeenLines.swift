import ChaparCore

/// The lines of an input that have been sent, so that one that an export holds twice goes out once.
struct SeenLines {
    /// The most lines that are remembered, which take about 40 MB.
    private static let maximum = 1_000_000

    /// Two independent hashes of a request: together too long for two requests of one input to have the same.
    private struct Key: Hashable {
        let first: Int
        let second: Int

        init(_ bytes: [UInt8]) {
            var (one, two) = (Hasher(), Hasher())
            one.combine(bytes)
            two.combine(bytes.count)
            two.combine(bytes)
            (first, second) = (one.finalize(), two.finalize())
        }
    }

    private var keys: Set<Key> = []
    private var repeats = 0
    private var first = 0
    private var last = 0

    /// Returns whether no line before asked for the same, and remembers the request.
    ///
    /// Tokens are compared in the form that `form` gives them: an export can hold one in two spellings.
    mutating func isNew(_ request: JSONObject, line: Int, form: (DeviceToken) -> DeviceToken) -> Bool {
        let key = Key(JSONValue.object(Self.normalised(request, form)).bytes)
        if keys.contains(key) {
            if repeats == 0 { first = line }
            (repeats, last) = (repeats + 1, line)
            return false
        }
        if keys.count < Self.maximum { keys.insert(key) }
        return true
    }

    /// Returns the request with the tokens that it addresses in the form of their platform.
    private static func normalised(_ request: JSONObject, _ form: (DeviceToken) -> DeviceToken) -> JSONObject {
        guard var audience = request["to"]?.objectValue, let tokens = audience["tokens"]?.arrayValue else {
            return request
        }
        audience["tokens"] = .array(
            tokens.map { token in
                guard var members = token.objectValue, let value = members["token"]?.stringValue,
                    let service = members["service"]?.stringValue
                else { return token }
                members["token"] = .string(form(DeviceToken(value, service: TokenService(rawValue: service))).value)
                return .object(members)
            }
        )
        var request = request
        request["to"] = .object(audience)
        return request
    }

    /// The sentence about lines that were left out; nil without any.
    var warning: String? {
        guard repeats > 0 else { return nil }
        let places =
            repeats == 1
            ? "line \(first) repeats an earlier one and was"
            : "\(repeats) lines repeat earlier ones (\(first) to \(last)) and were"
        return "\(places) left out; --keep-repeats sends them"
    }
}
