/// The purpose of a token: Apple issues one for the app, and others for calls, Live Activities and the like.
///
/// Each push type goes to tokens of its own kind; a push to a token of another kind is refused or never shown. Source:
/// Apple, "Starting and updating Live Activities with ActivityKit push notifications", "PushKit", read 2026-08.
@nonexhaustive
public enum TokenKind: Hashable, Sendable {
    /// The app itself: visible messages and silent ones.
    case device
    /// Calls (PushKit).
    case voip
    /// Watch complications (PushKit).
    case complication
    /// File Provider extensions (PushKit).
    case fileProvider
    /// Push-to-Talk channels.
    case pushToTalk
    /// Requests for the location.
    case location
    /// Controls.
    case controls
    /// Widgets.
    case widgets
    /// Starts Live Activities of one attributes type of the app.
    case liveActivityStart(attributesType: String)
    /// Updates and ends one running Live Activity, by the name that the app's server gives it.
    case liveActivityUpdate(activity: String)

    /// The kinds without a name of their own.
    private static let plain: [(kind: TokenKind, typeName: String)] = [
        (.device, "device"), (.voip, "voip"), (.complication, "complication"), (.fileProvider, "file_provider"),
        (.pushToTalk, "push_to_talk"), (.location, "location"), (.controls, "controls"), (.widgets, "widgets"),
    ]
    private static let start = "live_activity_start"
    private static let update = "live_activity_update"

    /// The names of all kinds.
    public static let typeNames = plain.map(\.typeName) + [start, update]

    /// The kind's name in the API.
    public var typeName: String {
        switch self {
        case .liveActivityStart: Self.start
        case .liveActivityUpdate: Self.update
        default: Self.plain.first { $0.kind == self }?.typeName ?? ""
        }
    }

    /// The attributes type or the activity; nil for kinds without.
    public var name: String? {
        switch self {
        case .liveActivityStart(let name), .liveActivityUpdate(let name): name
        default: nil
        }
    }

    /// Whether tokens of this kind expire within hours, as those of running Live Activities do.
    ///
    /// Many dead tokens of such a kind are no sign of a fault.
    public var isShortLived: Bool {
        if case .liveActivityUpdate = self { true } else { false }
    }

    /// Makes a kind from the name of its type and the name of its activity or attributes type; nil for an unknown type,
    /// and for a second name that is missing, unexpected or malformed.
    ///
    /// A name has the form of a device's id: 1 to 128 of `A–Z a–z 0–9 . _ : -`.
    public init?(typeName: String, name: String?) {
        switch (typeName, name) {
        case (Self.start, let name?) where Recipient.isDeviceID(name): self = .liveActivityStart(attributesType: name)
        case (Self.update, let name?) where Recipient.isDeviceID(name): self = .liveActivityUpdate(activity: name)
        case (_, nil):
            guard let kind = Self.plain.first(where: { $0.typeName == typeName })?.kind else { return nil }
            self = kind
        default: return nil
        }
    }
}

/// The kind of a device's token that a message goes to.
public struct TokenUse: Sendable, Hashable {
    /// The kind of token.
    public var kind: TokenKind
    /// Whether the token is of no use after the platform has taken the message, as at the end of a Live Activity.
    public var isLast: Bool

    /// Makes a use.
    public init(_ kind: TokenKind, isLast: Bool = false) {
        self.kind = kind
        self.isLast = isLast
    }
}
