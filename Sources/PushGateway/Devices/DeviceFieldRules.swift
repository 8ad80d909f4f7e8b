internal import Foundation
internal import PushCore
internal import PushQueue

/// The values that members of a device may have, and the messages about those that they may not.
enum DeviceFieldRules {
    /// The platforms.
    static let platforms = ["ios", "android", "harmony", "web"]
    /// What an id looks like.
    static let formOfID = "An id has 1 to \(Device.maximumIDBytes) of the characters A-Z a-z 0-9 . _ : -."
    /// What the name of a Live Activity, or of its attributes type, looks like.
    static let formOfActivity =
        "A name of a Live Activity or of its attributes type has 1 to \(Device.maximumIDBytes) of the characters "
        + "A-Z a-z 0-9 . _ : -."
    /// What the name of a token's service and kind looks like.
    static let formOfSlot =
        "Name the service, and the kind behind a slash if it is none of the app's own: ios-apns, ios-apns/voip, "
        + "ios-apns/live_activity_update/order-42. The kinds are \(TokenKind.typeNames.joined(separator: ", ")); "
        + "live_activity_start has the attributes type behind it, live_activity_update the activity."
    /// The path of many devices, and so no id.
    static let reservedID = "batch"

    /// What other names a service may have.
    static let ownServices = "x-name for a platform of your own (a-z, 0-9, -)"

    /// The sentence about a service that does not exist.
    static func unknownService(_ name: String) -> String {
        if name == "web-push" { return "The service is reserved, but nothing serves it yet." }
        let services = TokenService.known.map(\.rawValue)
        return didYouMean(name, services) ?? "The services are \(services.joined(separator: ", ")), and \(ownServices)."
    }

    /// What is wrong with a language tag; nil for one of the form of BCP 47, with `-` or `_`.
    static func faultOfLocale(_ text: String) -> String? {
        let parts = text.split(omittingEmptySubsequences: false) { $0 == "-" || $0 == "_" }
        let isTag =
            text.utf8.count <= 35 && (2...8).contains(parts[0].count)
            && parts[0].allSatisfy { $0.isASCII && $0.isLetter }
            && parts.dropFirst().allSatisfy {
                (1...8).contains($0.count) && $0.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
            }
        return isTag ? nil : "Must be a language tag, such as fa or pt-BR."
    }

    /// What is wrong with the name of a time zone; nil for one that the IANA database has.
    ///
    /// Without the database on the machine only the form is looked at.
    static func faultOfTimeZone(_ text: String) -> String? {
        let isName =
            text.utf8.count <= 64
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/_+-".contains($0)) }
        let known = TimeZone.knownTimeZoneIdentifiers
        if isName, known.isEmpty || known.contains(text) || TimeZone(identifier: text) != nil { return nil }
        return didYouMean(text, known) ?? "Must be the name of a time zone, such as Asia/Tehran."
    }
}
