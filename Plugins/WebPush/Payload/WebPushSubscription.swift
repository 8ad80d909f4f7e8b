internal import Crypto
internal import Foundation
internal import ChaparCore

/// A browser's push subscription, as `PushSubscription.toJSON()` gives it: where to send, and the keys to encrypt with.
///
/// Its text is the token of the service `web-push`. The point of `p256dh` is decoded here, which refuses one that is
/// not on the curve. The endpoint is a capability: it is enough for sending. So it never stands in an error.
struct WebPushSubscription: Sendable {
    /// The reason why a text is no subscription: the member and its fault.
    struct Mistake: Error, Hashable {
        /// The end of a sentence about the token: "keys.auth has 15 octets; it must have 16".
        let problem: String
    }

    /// The most bytes of an endpoint.
    static let maximumEndpointBytes = 2_048
    /// The number of octets of an uncompressed point on P-256.
    private static let pointBytes = 65
    /// The number of octets of the authentication secret.
    private static let authBytes = 16
    /// The members that browsers have, beside the keys.
    private static let members: Set<String> = ["endpoint", "expirationTime", "keys"]

    /// Where to send.
    let address: HTTPAddress
    /// The browser's public key.
    let key: P256.KeyAgreement.PublicKey
    /// The 65 octets of that key.
    let point: [UInt8]
    /// The authentication secret.
    let auth: [UInt8]
    /// The time at which the browser ends the subscription, in milliseconds since 1970; nil for none.
    let expirationTime: Int64?

    /// Reads a subscription's JSON; padded and standard base64 are read as well.
    init(_ text: String) throws(Mistake) {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: Array(text.utf8))
        } catch {
            throw Mistake(problem: "it is no JSON: give the text of JSON.stringify(subscription)")
        }
        guard let object = value.objectValue else {
            throw Mistake(problem: "it is no JSON object: give the text of JSON.stringify(subscription)")
        }
        if let name = object.map(\.name).first(where: { !Self.members.contains($0) }) {
            let known = Self.members.sorted().joined(separator: ", ")
            throw Mistake(problem: "the member \"\(name.prefix(40))\" is unknown; a subscription has \(known)")
        }
        address = try Self.address(object["endpoint"])
        switch object["expirationTime"] {
        case nil, .null?: expirationTime = nil
        case .integer(let time)?: expirationTime = time
        case .double(let time)?: expirationTime = Int64(clamping: time)
        default: throw Mistake(problem: "expirationTime is neither a number nor null")
        }
        guard let keys = object["keys"]?.objectValue else {
            throw Mistake(problem: "keys is missing: give the text of JSON.stringify(subscription)")
        }
        if let name = keys.map(\.name).first(where: { $0 != "p256dh" && $0 != "auth" }) {
            throw Mistake(problem: "the member \"keys.\(name.prefix(40))\" is unknown; there are p256dh and auth")
        }
        point = try Self.octets(keys["p256dh"], "keys.p256dh", Self.pointBytes)
        auth = try Self.octets(keys["auth"], "keys.auth", Self.authBytes)
        guard point.first == 4, let key = try? P256.KeyAgreement.PublicKey(x963Representation: point) else {
            throw Mistake(problem: "keys.p256dh is no point of the curve P-256")
        }
        self.key = key
    }

    /// The text in its canonical form: `endpoint`, `keys.p256dh`, `keys.auth`, without blanks.
    var text: String {
        var writer = JSONWriter(capacity: 320)
        writer.beginObject()
        writer.field("endpoint", address.url)
        writer.name("keys")
        writer.beginObject()
        writer.field("p256dh", Base64URL.encode(point))
        writer.field("auth", Base64URL.encode(auth))
        writer.endObject()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Whether the browser has ended it at a time.
    func hasEnded(at now: Date) -> Bool {
        guard let expirationTime else { return false }
        return Double(expirationTime) <= now.timeIntervalSince1970 * 1_000
    }

    private static func address(_ value: JSONValue?) throws(Mistake) -> HTTPAddress {
        guard let url = value?.stringValue else { throw Mistake(problem: "endpoint is missing") }
        guard url.utf8.count <= maximumEndpointBytes else {
            throw Mistake(problem: "endpoint has \(url.utf8.count) bytes, more than \(maximumEndpointBytes)")
        }
        guard url.lowercased().hasPrefix("https://") else {
            throw Mistake(problem: "endpoint does not begin with https://")
        }
        let rest = url.dropFirst("https://".count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        if authority.contains("@") {
            throw Mistake(problem: "endpoint has a user: no push service gives such an address")
        }
        guard let address = HTTPAddress(url: url), address.endpoint.scheme == .https else {
            throw Mistake(problem: "endpoint is no address, such as https://host/path")
        }
        return address
    }

    private static func octets(_ value: JSONValue?, _ name: String, _ count: Int) throws(Mistake) -> [UInt8] {
        guard let text = value?.stringValue else { throw Mistake(problem: "\(name) is missing") }
        guard let octets = WebPushBase64.decode(text) else { throw Mistake(problem: "\(name) is not base64url") }
        guard octets.count == count else {
            throw Mistake(problem: "\(name) has \(octets.count) octets; it must have \(count)")
        }
        return octets
    }
}

/// Base64 as subscriptions and keys have it: both alphabets, with and without padding.
enum WebPushBase64 {
    /// Returns the octets; nil for a text of other characters.
    static func decode(_ text: String) -> [UInt8]? {
        guard text.utf8.count <= 1_024, let octets = Base64URL.decode(text) else { return nil }
        return octets
    }
}
