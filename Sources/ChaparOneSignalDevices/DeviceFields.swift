import Crypto
package import Foundation
package import ChaparCore

/// The fields of a device that IDPush and OneSignal share, read from a `DeviceRecord`.
///
/// The registrars of both build their requests from it.
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

    /// Makes fields with the first of the device's tokens that OneSignal can use.
    ///
    /// An FCM token of an iOS app cannot be used, since `iOSPush` means an APNs token.
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

    /// The token in the form of OneSignal's user model: without white space, and for APNs without the brackets of a
    /// printed `Data`.
    package var plainToken: String {
        kind == .iOS
            ? token.filter { !$0.isWhitespace && $0 != "<" && $0 != ">" }.lowercased()
            : token.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    package var appVersion: String? { text("app_version") }
    package var model: String? { text("model") }
    package var osVersion: String? { text("os_version") }
    package var timeZone: String? { text("time_zone") }

    /// Returns the seconds from UTC of the device's time zone, which the player API requires.
    package func secondsFromUTC(at now: Date) -> Int? {
        timeZone.flatMap { TimeZone(identifier: $0) }?.secondsFromGMT(for: now)
    }

    /// OneSignal's code of its language: two letters, except Chinese by its script.
    package var language: String? { record.language.map(OneSignalLanguage.code) }

    package func environment(default fallback: OneSignalEnvironment) -> OneSignalEnvironment {
        text("environment").flatMap(OneSignalEnvironment.init) ?? fallback
    }

    /// Returns the hash of the token and of the place where it is registered (`place`): in another app it has another
    /// id.
    package func tokenHash(at place: String) -> String { Self.hash("\(place)\n\(kind.rawValue)\n\(token)") }

    /// The hash of all other data sent to OneSignal; other attributes of the device are not sent.
    package var fieldsHash: String {
        var fields = JSONObject()
        for name in Self.attributes { fields[name] = record.attributes[name] }
        return Self.hash("\(record.user ?? "")\n\(language ?? "")\n\(JSONValue.object(fields).text)")
    }

    /// The attributes that OneSignal has a field for.
    private static let attributes =
        ["app_version", "model", "os_version", "time_zone", "environment"] + places

    /// The attributes that are sent under their own names.
    package static let places = ["country", "lat", "long"]

    private func text(_ name: String) -> String? { record.attributes[name]?.stringValue }

    package static func hash(_ text: String) -> String {
        SHA256.hash(data: Array(text.utf8)).prefix(16).map { byte in
            byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
        }.joined()
    }
}

/// The entitlement under which an APNs token was made.
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
    /// Returns the code of a language tag: two letters, except Chinese by its script.
    package static func code(_ tag: String) -> String {
        let parts = tag.lowercased().split { $0 == "-" || $0 == "_" }
        guard parts.first == "zh" else { return String(parts.first ?? "en") }
        let isTraditional = parts.contains { ["hant", "tw", "hk", "mo"].contains($0) }
        return isTraditional ? "zh-Hant" : "zh-Hans"
    }
}
