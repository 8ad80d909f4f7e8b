internal import Crypto
public import Foundation
public import ChaparCore

/// The identity whose credentials a request carries: a user on a device, or the device's own profile when there is no
/// user.
public struct AltcraftIdentity: Sendable, Hashable {
    /// The user; nil when no user is logged in.
    public var user: String?
    /// The gateway's id of the device.
    public var device: String

    /// Makes an identity; an empty user is none.
    public init(user: String?, device: String) {
        self.user = user.flatMap { $0.isEmpty ? nil : $0 }
        self.device = device
    }

    /// Makes the present identity of a device.
    public init(_ device: DeviceRecord) { self.init(user: device.user, device: device.id) }
}

/// The credential of a request: the header, and the mode by which Altcraft finds the profile.
public struct AltcraftSession: Sendable, Hashable {
    /// The value of the `authorization` field.
    public let authorization: Secret
    /// The value of `matching_mode`.
    public let matchingMode: String
    /// The tag of the profile: requests with the same tag belong together.
    ///
    /// A hash; it never leaves this machine.
    public let tag: String
    /// A number that rises with each new credential of an identity.
    public let generation: UInt64

    /// The header field that carries it.
    public var credential: AuthCredential {
        AuthCredential(headers: [.init("authorization", authorization)], generation: generation)
    }
}

/// The claims of a JWT about the profile that it is for.
///
/// Every JWT is read before it is used, so that an incomplete one is reported here, with the SDK's code, and not by
/// Altcraft. Reading proves nothing: only Altcraft checks the signature.
public struct AltcraftMatching: Sendable, Hashable {
    /// The database.
    public let databaseID: String
    /// The matching mode, such as `email`, `profile_id` or `custom`.
    public let mode: String
    /// The identifiers, joined by a slash in the order of the SDK.
    public let identifier: String
    /// The user in the JWT's claim `sub`; nil when there is none.
    public let subject: String?
    /// The time at which the JWT expires; nil when it names none.
    public let expiry: Date?

    /// The longest payload of a JWT that is read, in bytes.
    static let maximumBytes = 16_384
    private static let identifiers = [
        "email", "phone", "profile_id", "field_name", "field_value", "provider", "subscription_id",
    ]

    /// Reads a JWT without checking its signature, which only Altcraft does.
    ///
    /// - Throws: Code 541 when it cannot be read, 542 when its matching claim is incomplete.
    init(jwt: Secret) throws(AltcraftFault) {
        let parts = jwt.reveal().split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = Base64URL.decode(parts[1]), payload.count < Self.maximumBytes,
            let claims = (try? JSONValue(parsing: payload))?.objectValue
        else { throw AltcraftFault(541, "the JWT cannot be read: it must have a payload of JSON") }
        let matching: JSONObject
        switch claims["matching"] {
        case .object(let object)?: matching = object
        case .string(let text)?:
            guard let object = (try? JSONValue(parsing: Array(text.utf8)))?.objectValue else {
                throw AltcraftFault(541, "the JWT's claim matching is no JSON object")
            }
            matching = object
        default: throw AltcraftFault(541, "the JWT has no claim matching")
        }
        let database = Self.text(matching["db_id"]).flatMap { Int64($0) }
        let mode = Self.text(matching["matching"])
        let found = Self.identifiers.compactMap { Self.text(matching[$0]) }
        var missing: [String] = []
        if database == nil { missing.append("db_id") }
        if mode == nil { missing.append("matching") }
        if found.isEmpty { missing.append("matching_identifier") }
        guard let database, let mode, missing.isEmpty else {
            throw AltcraftFault(542, "matching claim does not contain: \(missing.joined(separator: ", "))")
        }
        databaseID = String(database)
        self.mode = mode
        identifier = found.joined(separator: "/")
        subject = Self.text(claims["sub"])
        expiry = claims["exp"]?.numberValue.map { Date(timeIntervalSince1970: $0) }
    }

    /// The key of the profile: SHA-256 over a canonical text, in lower-case hex.
    public var tag: String {
        let canonical: [(String, String)] = [
            ("db_id", databaseID), ("matching", mode), ("matching_identifier", identifier),
        ]
        let lines = canonical.map { name, value in "  \"\(name)\": \(JSONValue.string(value).text)" }
        return Self.hash("{\n" + lines.joined(separator: ",\n") + "\n}")
    }

    package static func hash(_ text: String) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let bytes = SHA256.hash(data: Array(text.utf8)).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func text(_ value: JSONValue?) -> String? {
        let text: String
        switch value {
        case .string(let string)?: text = string.trimmingCharacters(in: .whitespacesAndNewlines)
        case .integer(let number)?: text = String(number)
        case .double?: text = value?.text ?? ""
        default: return nil
        }
        return text.isEmpty ? nil : text
    }
}
