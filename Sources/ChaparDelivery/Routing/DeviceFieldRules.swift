internal import Foundation
internal import ChaparCore
internal import ChaparQueue

/// The valid values of a device's members, and the messages about invalid ones.
package enum DeviceFieldRules {
    /// The platforms that Chapar knows.
    package static let platforms = Device.platforms
    /// The message about the form of an id.
    package static let formOfID = "An id has 1 to \(Device.maximumIDBytes) of the characters A-Z a-z 0-9 . _ : -."
    /// The message about the form of a Live Activity's name, or of its attributes type.
    package static let formOfActivity =
        "A name of a Live Activity or of its attributes type has 1 to \(Device.maximumIDBytes) of the characters "
        + "A-Z a-z 0-9 . _ : -."
    /// The message about the form of a token's service and kind.
    package static let formOfSlot =
        "Name the service, and the kind behind a slash if it is none of the app's own: ios-apns, ios-apns/voip, "
        + "ios-apns/live_activity_update/order-42. The kinds are \(TokenKind.typeNames.joined(separator: ", ")); "
        + "live_activity_start has the attributes type behind it, live_activity_update the activity."
    /// The path of the batch endpoint, which no device can have as its id.
    package static let reservedID = "batch"

    /// The part of the message about services that allows own names.
    static let ownServices = "x-name for a platform of your own (a-z, 0-9, -)"

    /// Whether a text can be a device's platform: a known one, or `x-` and a name of your own, as with services.
    package static func isPlatform(_ text: String) -> Bool { platforms.contains(text) || isOwnPlatform(text) }

    /// Whether a text names a platform that Chapar does not know.
    package static func isOwnPlatform(_ text: String) -> Bool {
        text.hasPrefix("x-") && TokenService.named(text) != nil
    }

    /// Returns the sentence about a platform that does not exist.
    package static func unknownPlatform(_ text: String) -> String {
        didYouMean(text, platforms) ?? "The platforms are \(platforms.joined(separator: ", ")), and \(ownServices)."
    }

    /// Returns the sentence about a service that does not exist.
    package static func unknownService(_ name: String) -> String {
        let services = TokenService.known.map(\.rawValue)
        if let meant = TokenService.nearest(to: name) { return "Did you mean \"\(meant)\"?" }
        return "The services are \(services.joined(separator: ", ")), and \(ownServices)."
    }

    /// Returns the fault of a language tag; nil for one in the form of BCP 47, with `-` or `_`.
    package static func faultOfLocale(_ text: String) -> String? {
        let parts = text.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
        let isTag =
            text.utf8.count <= 35 && (2...8).contains(parts[0].count)
            && parts[0].allSatisfy { $0.isASCII && $0.isLetter }
            && parts.dropFirst().allSatisfy {
                (1...8).contains($0.count) && $0.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
            }
        return isTag ? nil : "Must be a language tag, such as fa or pt-BR."
    }

    /// Returns the fault of a time zone's name; nil for a name in the IANA database.
    ///
    /// On a machine without the database only the form is checked.
    package static func faultOfTimeZone(_ text: String) -> String? {
        let isName =
            text.utf8.count <= 64
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/_+-".contains($0)) }
        let known = TimeZone.knownTimeZoneIdentifiers
        if isName, known.isEmpty || known.contains(text) || TimeZone(identifier: text) != nil { return nil }
        return didYouMean(text, known) ?? "Must be the name of a time zone, such as Asia/Tehran."
    }
}
