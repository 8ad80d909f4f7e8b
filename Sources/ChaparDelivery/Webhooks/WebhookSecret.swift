internal import Crypto
package import Foundation
package import ChaparCore

/// A key of an endpoint, in the form of Standard Webhooks: `whsec_` and 24 to 64 octets in standard base64.
package struct WebhookSecret: Sendable, Hashable {
    /// The prefix of the text form.
    static let prefix = "whsec_"

    /// The text that the receiver is given.
    package let text: Secret
    /// The time after which it signs no more, as a time of day; nil for the newest.
    package var until: Date?
    private let key: [UInt8]

    /// Makes a random key of 32 octets.
    package static func make() -> WebhookSecret {
        let key = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        return WebhookSecret(key: key)
    }

    private init(key: [UInt8]) {
        self.key = key
        text = Secret(Self.prefix + Data(key).base64EncodedString())
    }

    /// Reads the text form; nil for another alphabet or length.
    package init?(_ text: Secret, until: Date? = nil) {
        let revealed = text.reveal()
        guard revealed.hasPrefix(Self.prefix),
            let key = Data(base64Encoded: String(revealed.dropFirst(Self.prefix.count))), (24...64).contains(key.count)
        else { return nil }
        self.key = Array(key)
        self.text = text
        self.until = until
    }

    /// Returns the signature of a body: `v1,` and the HMAC-SHA256 of id, time and body in base64.
    package func signature(id: String, timestamp: Int64, body: [UInt8]) -> String {
        var code = HMAC<SHA256>(key: SymmetricKey(data: key))
        code.update(data: Data("\(id).\(timestamp).".utf8))
        code.update(data: body)
        return "v1," + Data(code.finalize()).base64EncodedString()
    }

    /// Whether one of the signatures of a request is this key's; compared in constant time.
    package func verifies(_ signatures: String, id: String, timestamp: Int64, body: [UInt8]) -> Bool {
        let message = Data("\(id).\(timestamp).".utf8) + Data(body)
        return signatures.split(separator: " ").contains { entry in
            guard entry.hasPrefix("v1,"), let code = Data(base64Encoded: String(entry.dropFirst(3))) else {
                return false
            }
            return HMAC<SHA256>.isValidAuthenticationCode(
                code,
                authenticating: message,
                using: SymmetricKey(data: key)
            )
        }
    }
}

/// The keys of an endpoint, the newest first; a replaced one signs until its time is over.
package struct WebhookSecrets: Sendable, Hashable {
    /// The most keys that sign at the same time: each adds a signature to the header.
    package static let maximumCount = 5

    package var all: [WebhookSecret]

    package init(_ all: [WebhookSecret]) { self.all = all }

    /// Returns the header `webhook-signature`: every live key signs, with one space between.
    package func signatures(id: String, timestamp: Int64, body: [UInt8]) -> String {
        let now = Date(timeIntervalSince1970: Double(timestamp))
        return all.filter { $0.until.map { $0 > now } ?? true }
            .map { $0.signature(id: id, timestamp: timestamp, body: body) }
            .joined(separator: " ")
    }

    /// Puts a new key before the others, which sign until `end`; those whose time is over are removed.
    package mutating func rotate(to new: WebhookSecret, keepingOthersUntil end: Date, now: Date) {
        var others = all.filter { $0.until.map { $0 > now } ?? true }
        for place in others.indices { others[place].until = min(others[place].until ?? end, end) }
        all = [new] + others.filter { $0.until.map { $0 > now } ?? true }
    }

    /// The stored form.
    var encoded: [UInt8] {
        let keys = all.map { key -> JSONValue in
            var object: JSONObject = ["secret": .string(key.text.reveal())]
            if let until = key.until { object["until"] = .integer(until.millisecondsSince1970) }
            return .object(object)
        }
        return JSONValue.array(keys).bytes
    }

    /// Reads the stored form; nil for another one.
    init?(encoded: [UInt8]) {
        guard let keys = (try? JSONValue(parsing: encoded))?.arrayValue, !keys.isEmpty else { return nil }
        var all: [WebhookSecret] = []
        for key in keys {
            let until = key["until"]?.integerValue.map { Date(millisecondsSince1970: $0) }
            guard let text = key["secret"]?.stringValue, let secret = WebhookSecret(Secret(text), until: until) else {
                return nil
            }
            all.append(secret)
        }
        self.all = all
    }

    /// Returns the name under which an endpoint's keys are stored, like other credentials.
    static func stateName(_ webhook: String) -> String { SealedState.webhooksPrefix + webhook }
}
