internal import ChaparCore

/// The recipient of one message, fit to stand in its request.
struct RuStoreTarget: Sendable {
    /// Why a recipient cannot be addressed.
    enum Mistake: Error {
        case malformedToken
        case malformedTopic
        case unsupported
    }

    /// The most bytes of a token.
    static let maximumBytes = 4096
    static let malformedTopic = "A topic's name has 1 to 900 characters, without blanks."

    let isTopic: Bool
    /// The token or the topic's name, fit to stand between quotation marks.
    let value: String

    /// Makes a target of a recipient, for an API that reaches the tokens of a service and perhaps topics.
    init(_ recipient: Recipient, service: TokenService, takesTopics: Bool) throws(Mistake) {
        switch recipient {
        case .token(let token) where token.service == service:
            guard let form = Self.written(token.value, limit: Self.maximumBytes) else { throw .malformedToken }
            (isTopic, value) = (false, form)
        case .topic(let name) where takesTopics:
            guard let form = Self.written(name, limit: 900) else { throw .malformedTopic }
            (isTopic, value) = (true, form)
        default: throw .unsupported
        }
    }

    /// Makes the target of a plain token that the program wrote itself.
    init(token: StaticString) { (isTopic, value) = (false, "\(token)") }

    /// Whether a text can be a token: not empty, no blanks or control characters, at most 4,096 bytes.
    static func isToken(_ text: String) -> Bool { written(text, limit: maximumBytes) != nil }

    /// Whether a text can be a topic's name.
    static func isTopic(_ text: String) -> Bool { written(text, limit: 900) != nil }

    /// Returns a text as it stands in JSON; nil when it is no name.
    ///
    /// Adds bits instead of branching, so that the compiler can test 16 bytes at once.
    private static func written(_ text: String, limit: Int) -> String? {
        var text = text
        let (isName, needsEscapes) = text.withUTF8 { bytes in
            guard (1...limit).contains(bytes.count) else { return (false, false) }
            var blanks: UInt8 = 0
            var escapes: UInt8 = 0
            for byte in bytes {
                blanks |= (byte <= 0x20 ? 1 : 0) | (byte == 0x7F ? 1 : 0)
                escapes |= (byte == UInt8(ascii: "\"") ? 1 : 0) | (byte == UInt8(ascii: "\\") ? 1 : 0)
            }
            return (blanks == 0, escapes != 0)
        }
        guard isName else { return nil }
        guard needsEscapes else { return text }
        return String(decoding: JSONValue.string(text).bytes.dropFirst().dropLast(), as: UTF8.self)
    }
}
