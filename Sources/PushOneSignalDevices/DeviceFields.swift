import Crypto
package import Foundation
package import PushCore

/// The fields of a device that IDPush and OneSignal share, read from a `DeviceRecord`.
///
/// The registrars of both make their requests of it.
package struct DeviceFields {
    /// The kinds of devices that have tokens OneSignal takes.
    package enum Kind: Int {
        case iOS = 0
        case android = 1
        case huawei = 13

        /// The name of the subscription type in the user model.
        package var subscriptionType: String {
            switch self {
            case .iOS: "iOSPush"
            case .android: "AndroidPush"
            case .huawei: "HuaweiPush"
            }
        }
    }

    package let kind: Kind
    package let token: String
    package let record: DeviceRecord

    /// Takes the first of the device's tokens that OneSignal can use.
    ///
    /// An FCM token of an iOS app is none, since `iOSPush` means an APNs token.
    package init(_ record: DeviceRecord) throws(PushError) {
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

    /// The token as OneSignal's user model wants it: white space gone, and for APNs the brackets of a printed `Data`
    /// too.
    package var plainToken: String {
        kind == .iOS
            ? token.filter { !$0.isWhitespace && $0 != "<" && $0 != ">" }.lowercased()
            : token.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    package var appVersion: String? { text("app_version") }
    package var model: String? { text("model") }
    package var osVersion: String? { text("os_version") }
    package var timeZone: String? { text("time_zone") }

    /// The seconds from UTC of the device's time zone, which the player API wants.
    package func secondsFromUTC(at now: Date) -> Int? {
        timeZone.flatMap { TimeZone(identifier: $0) }?.secondsFromGMT(for: now)
    }

    /// OneSignal's code of its language: two letters, but Chinese by its script.
    package var language: String? { record.language.map(OneSignalLanguage.code) }

    package func environment(default fallback: OneSignalEnvironment) -> OneSignalEnvironment {
        text("environment").flatMap(OneSignalEnvironment.init) ?? fallback
    }

    /// The hash of the token and of where it is registered (`place`): in another app it has another id.
    package func tokenHash(at place: String) -> String { Self.hash("\(place)\n\(kind.rawValue)\n\(token)") }

    /// The hash of whatever else OneSignal is told; other attributes of the device are not sent.
    package var fieldsHash: String {
        var fields = JSONObject()
        for name in Self.attributes { fields[name] = record.attributes[name] }
        return Self.hash("\(record.user ?? "")\n\(language ?? "")\n\(JSONValue.object(fields).text)")
    }

    /// The attributes that OneSignal has a field for.
    private static let attributes =
        ["app_version", "model", "os_version", "time_zone", "environment"] + places

    /// Attributes that keep their names on the way.
    package static let places = ["country", "lat", "long"]

    private func text(_ name: String) -> String? { record.attributes[name]?.stringValue }

    package static func hash(_ text: String) -> String {
        SHA256.hash(data: Array(text.utf8)).prefix(16).map { byte in
            byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
        }.joined()
    }
}

/// The entitlement that an APNs token was made under.
@nonexhaustive
public enum OneSignalEnvironment: String, Sendable, CaseIterable {
    /// App Store and TestFlight.
    case production
    /// Debug builds.
    case development
    /// Ad hoc builds.
    case adHoc = "ad_hoc"
}

/// OneSignal's codes of languages.
package enum OneSignalLanguage {
    /// The code of a language tag: two letters, but Chinese by its script.
    package static func code(_ tag: String) -> String {
        let parts = tag.lowercased().split { $0 == "-" || $0 == "_" }
        guard parts.first == "zh" else { return String(parts.first ?? "en") }
        let isTraditional = parts.contains { ["hant", "tw", "hk", "mo"].contains($0) }
        return isTraditional ? "zh-Hant" : "zh-Hans"
    }
}
