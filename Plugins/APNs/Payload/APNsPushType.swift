import ChaparCore

/// The purpose of a push: the values of `apns-push-type`, with the rules that Apple ties to each.
///
/// Source: Apple, "Sending notification requests to APNs", read 2026-08.
enum APNsPushType: String, Sendable, CaseIterable {
    /// Shows, sounds or badges.
    case alert
    /// Wakes the app without showing anything.
    case background
    /// Updates controls (iOS 18).
    case controls
    /// Updates a watch complication.
    case complication
    /// Signals a File Provider extension.
    case fileprovider
    /// Starts, updates or ends a Live Activity.
    case liveactivity
    /// Asks for the device's location.
    case location
    /// Contacts a managed device.
    case mdm
    /// Push-to-Talk.
    case pushtotalk
    /// An incoming call.
    case voip
    /// Refreshes widgets.
    case widgets

    /// The suffix of the topic, after the bundle id.
    ///
    /// Callers never write it.
    var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .controls: ".push-type.controls"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .voip: ".voip"
        case .widgets: ".push-type.widgets"
        }
    }

    /// The kind of token that the push goes to; a Live Activity's token also has a name.
    var tokenKind: TokenKind {
        switch self {
        case .alert, .background, .mdm, .liveactivity: .device
        case .controls: .controls
        case .complication: .complication
        case .fileprovider: .fileProvider
        case .location: .location
        case .pushtotalk: .pushToTalk
        case .voip: .voip
        case .widgets: .widgets
        }
    }

    /// The largest payload after encoding, in bytes.
    var payloadLimit: Int { self == .voip ? 5120 : 4096 }

    /// Whether a client certificate is not enough.
    var needsProviderToken: Bool { self == .liveactivity || self == .location }

    /// Whether a second copy does harm, such as a call that rings twice.
    var isRepeatHarmful: Bool { self == .voip || self == .pushtotalk }

    /// Whether a collapse id makes a second copy take the place of the first on the screen.
    var showsSomething: Bool { self == .alert }

    /// Returns the longest suffix that ends `topic`, nil when it is a bare bundle id.
    static func suffix(of topic: String) -> String? {
        allCases.map(\.topicSuffix).filter { !$0.isEmpty && topic.hasSuffix($0) }.max { $0.count < $1.count }
    }
}
