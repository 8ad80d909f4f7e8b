import Crypto
import Foundation
import PushCore

/// What a ``DeviceRecord`` says, in the words that IDPush and OneSignal share.
struct DeviceFields {
    /// The kinds of devices that have tokens OneSignal takes.
    enum Kind: Int {
        case iOS = 0
        case android = 1
        case huawei = 13

        /// The name of the subscription type in the user model.
        var subscriptionType: String {
            switch self {
            case .iOS: "iOSPush"
            case .android: "AndroidPush"
            case .huawei: "HuaweiPush"
            }
        }
    }

    /// The entitlement that an APNs token was made under.
    enum Environment: String, CaseIterable {
        case production
        case development
        case adHoc = "ad_hoc"
    }

    let kind: Kind
    let token: String
    let record: DeviceRecord

    /// Takes the first of the device's tokens that OneSignal can use.
    ///
    /// An FCM token of an iOS app is none, since `iOSPush` means an APNs token.
    init(_ record: DeviceRecord) throws(PushError) {
        let tokens = record.tokens.filter { !$0.value.allSatisfy(\.isWhitespace) }
        guard let first = tokens.first else {
            throw PushError(.invalidRequest, "the device has no token", reason: "missing_device_token")
        }
        for token in tokens {
            guard let kind = Self.kind(of: token.service) else { continue }
            self.kind = kind
            self.token = token.value
            self.record = record
            return
        }
        throw PushError(
            .invalidRequest,
            "a token of \(first.service) is of no use here: ios-apns, android-firebase or android-huawei is",
            reason: "wrong_token_service"
        )
    }

    private static func kind(of service: TokenService) -> Kind? {
        switch service {
        case .iOSAPNs: .iOS
        case .androidFirebase: .android
        case .androidHuawei: .huawei
        default: nil
        }
    }

    /// The token as OneSignal's user model wants it: white space gone, and for APNs the brackets of a printed `Data` too.
    var plainToken: String {
        kind == .iOS
            ? token.filter { !$0.isWhitespace && $0 != "<" && $0 != ">" }.lowercased()
            : token.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    var appVersion: String? { text("app_version") }
    var model: String? { text("model") }
    var osVersion: String? { text("os_version") }
    var timeZone: String? { text("time_zone") }

    /// The seconds from UTC of the device's time zone, which the player API wants.
    func secondsFromUTC(at now: Date) -> Int? {
        timeZone.flatMap { TimeZone(identifier: $0) }?.secondsFromGMT(for: now)
    }

    /// OneSignal's code of its language: two letters, but Chinese by its script.
    var language: String? { record.language.map(OneSignalText.code) }

    func environment(default fallback: Environment) -> Environment {
        text("environment").flatMap(Environment.init) ?? fallback
    }

    /// The hash of the token and of the place it is registered at: in another app it has another id.
    func tokenHash(at place: String) -> String { Self.hash("\(place)\n\(kind.rawValue)\n\(token)") }

    /// The hash of whatever else OneSignal is told; other attributes of the device are nobody's business there.
    var fieldsHash: String {
        var told = JSONObject()
        for name in Self.attributes { told[name] = record.attributes[name] }
        return Self.hash("\(record.user ?? "")\n\(language ?? "")\n\(JSONValue.object(told).text)")
    }

    /// The attributes that OneSignal has a field for.
    private static let attributes =
        ["app_version", "model", "os_version", "time_zone", "environment"] + places

    /// Attributes that keep their names on the way.
    static let places = ["country", "lat", "long"]

    private func text(_ name: String) -> String? { record.attributes[name]?.stringValue }

    static func hash(_ text: String) -> String {
        SHA256.hash(data: Array(text.utf8)).prefix(16).map { byte in
            byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
        }.joined()
    }
}

extension DeviceRecord {
    /// A finite tag value as text; nil for what cannot be one.
    static func tagText(_ value: JSONValue) -> String? {
        switch value {
        case .null: ""
        case .bool(let flag): flag ? "true" : "false"
        case .integer(let number): String(number)
        case .double(let number): number.isFinite ? value.text : nil
        case .string(let text): text
        case .array, .object: nil
        }
    }
}
