internal import ChaparCore

/// The target of one message, as the field of FCM's `message` that holds it.
///
/// A device token whose text begins with `fid:` is a Firebase Installation ID and goes into `fid`; no registration
/// token begins with `fid:`. A topic whose text holds a quotation mark is a condition, such as `'news' in topics &&
/// !('de' in topics)`: no topic's name can hold one.
struct FCMTarget: Sendable {
    /// The kinds of target that the rules distinguish.
    enum Class: Sendable, Hashable {
        case android
        case iOS
        case web
        /// A device whose platform is not known, only its token.
        case device
        case topic
        case condition

        var isToken: Bool { self != .topic && self != .condition }

        /// Whether a block for devices of a kind applies to a recipient.
        ///
        /// Members of topics are of any kind, and so is a token whose kind is not known.
        func includes(_ kind: Class) -> Bool { self == kind || self == .device || !isToken }

        /// The part of the project that it belongs to; nil for the rest, which pauses with the backend only.
        var part: Part? {
            switch self {
            case .android, .device: nil
            case .iOS: .iOS
            case .web: .web
            case .topic, .condition: .topics
            }
        }

        /// The most bytes of a payload.
        var payloadLimit: Int { self == .topic ? 2048 : 4096 }
    }

    /// A part of a project that can pause alone.
    enum Part: Hashable, Sendable {
        /// Tokens of Apple devices.
        case iOS
        /// Tokens of browsers.
        case web
        /// Topics and conditions.
        case topics
    }

    /// Why a recipient cannot be addressed.
    enum Mistake: Error {
        case malformedToken
        case malformedTopic
        case malformedCondition
        case unsupported
    }

    /// The kind of target.
    let kind: Class
    /// The name of the member and the opening quotation mark of its value, such as `"token":"`.
    let opening: StaticString
    /// The value, fit to stand between quotation marks.
    let value: String

    init(_ recipient: Recipient) throws(Mistake) {
        switch recipient {
        case .token(let token) where token.service == .androidFirebase: self = try Self.token(token.value, .android)
        case .token(let token) where token.service == .iOSFirebase: self = try Self.token(token.value, .iOS)
        case .token(let token) where token.service == .webFirebase: self = try Self.token(token.value, .web)
        case .token(let token) where token.service == .anyFirebase: self = try Self.token(token.value, .device)
        case .topic(let text) where text.utf8.contains(UInt8(ascii: "'")) || text.utf8.contains(UInt8(ascii: "\"")):
            guard FCMTopic.isCondition(text) else { throw .malformedCondition }
            self.init(kind: .condition, opening: #""condition":""#, value: Self.escaped(text))
        case .topic(let text):
            guard let name = FCMTopic.name(text) else { throw .malformedTopic }
            self.init(kind: .topic, opening: #""topic":""#, value: name)
        default: throw .unsupported
        }
    }

    private init(kind: Class, opening: StaticString, value: String) {
        self.kind = kind
        self.opening = opening
        self.value = value
    }

    private static func token(_ token: String, _ kind: Class) throws(Mistake) -> FCMTarget {
        switch form(of: token) {
        case .impossible: throw .malformedToken
        case .plain where token.utf8.starts(with: "fid:".utf8):
            guard token.utf8.count > 4 else { throw .malformedToken }
            return FCMTarget(kind: kind, opening: #""fid":""#, value: String(token.dropFirst(4)))
        case .plain: return FCMTarget(kind: kind, opening: #""token":""#, value: token)
        case .needsEscapes: return FCMTarget(kind: kind, opening: #""token":""#, value: escaped(token))
        }
    }

    private enum Form {
        case plain
        case needsEscapes
        case impossible
    }

    /// Returns how a token can be written: it must have 1 to 4,096 bytes, without white space and control characters.
    ///
    /// There is no stricter pattern, since Google promises none. Arithmetic instead of conditions lets the compiler
    /// test 16 bytes at once.
    private static func form(of token: String) -> Form {
        var token = token
        return token.withUTF8 { bytes in
            guard (1...4096).contains(bytes.count) else { return .impossible }
            var blanks: UInt8 = 0
            var escapes: UInt8 = 0
            for byte in bytes {
                blanks |= (byte <= 0x20 ? 1 : 0) | (byte == 0x7F ? 1 : 0)
                escapes |= (byte == UInt8(ascii: "\"") ? 1 : 0) | (byte == UInt8(ascii: "\\") ? 1 : 0)
            }
            return blanks != 0 ? .impossible : escapes != 0 ? .needsEscapes : .plain
        }
    }

    /// Whether a text can be a registration token or installation ID.
    static func isToken(_ text: String) -> Bool { form(of: text) != .impossible && text != "fid:" }

    private static func escaped(_ text: String) -> String {
        String(decoding: JSONValue.string(text).bytes.dropFirst().dropLast(), as: UTF8.self)
    }
}

extension TokenService {
    /// Firebase tokens whose platform is not known: they get the blocks of all platforms.
    ///
    /// Other systems keep the tokens of an app's Android, Apple and web installations as one list.
    static let anyFirebase = TokenService(rawValue: "x-firebase")
}

/// The names and conditions of FCM's topics.
///
/// The checks of messages and the calls about topics use it before a request, so that a mistake is found without
/// Google. It checks the text only, not whether a topic exists.
enum FCMTopic {
    /// The most topics in a condition.
    static let maximumTopics = 5

    /// Returns a topic's bare name; nil for a text that cannot be a topic's name.
    ///
    /// A leading `/topics/`, which other calls of Google's have, is removed.
    static func name(_ text: String) -> String? {
        let name = text.hasPrefix("/topics/") ? String(text.dropFirst(8)) : text
        return (1...900).contains(name.utf8.count) && name.utf8.allSatisfy(isNameByte) ? name : nil
    }

    static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
            UInt8(ascii: "~"), UInt8(ascii: "%"):
            true
        default: false
        }
    }

    /// Returns the problem of a topic or condition, with the right form; nil when it is valid.
    static func problem(with text: String) -> String? {
        do throws(FCMTarget.Mistake) {
            _ = try FCMTarget(.topic(text))
            return nil
        } catch {
            switch error {
            case .malformedCondition: return malformedCondition
            case .malformedTopic, .malformedToken, .unsupported: return malformedName
            }
        }
    }

    static let malformedName = "A topic's name holds a-z, A-Z, 0-9, - _ . ~ % only."
    static let malformedCondition =
        "A condition looks like 'news' in topics && !('de' in topics), with at most \(maximumTopics) topics."

    /// Whether a text is a boolean expression over at most five topics:
    /// `'a' in topics && ('b' in topics || !('c' in topics))`.
    static func isCondition(_ text: String) -> Bool {
        guard let topics = TopicCondition(text)?.topics else { return false }
        return (1...maximumTopics).contains(topics.count) && topics.allSatisfy { $0.utf8.allSatisfy(isNameByte) }
    }
}
