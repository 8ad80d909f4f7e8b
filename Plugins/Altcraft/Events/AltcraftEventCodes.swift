/// The action at Altcraft that an event is about, from which its number follows.
@nonexhaustive
public enum AltcraftAction: String, Sendable, CaseIterable {
    /// A subscription becomes `subscribed`.
    case subscribe
    /// A subscription becomes `suspended`.
    case suspend
    /// A subscription becomes `unsubscribed`.
    case unsubscribe
    /// A subscription moves to another push token.
    case update
    /// A log-in or log-out.
    case unsuspend
    /// A question about a subscription.
    case status
    /// A delivery or an opening is told.
    case event
    /// An event of the app's own is told.
    case mobile
    /// Profile fields change without a subscription.
    case profile

    /// Its name in event messages.
    var requestName: String {
        switch self {
        case .subscribe, .suspend, .unsubscribe: "push/subscribe"
        case .update: "push/update"
        case .unsuspend: "push/unsuspend"
        case .status: "push/status"
        case .event: "event/push"
        case .mobile: "event/post"
        case .profile: "profile/update"
        }
    }

    /// The word before an event's type or name in a message, as `. Type: open` or `, name: purchase`.
    var remarkName: (ofSuccess: String, ofFailure: String) {
        self == .mobile ? ("Event name", "name") : ("Type", "type")
    }

    /// Whether a failure of the platform is followed by another try.
    var isRepeated: Bool { self != .unsuspend && self != .status }
}

/// Which numbers events have: the same number means different things in different releases of Altcraft's SDK.
///
/// Source: the code of altcraft/ios-sdk 0.0.1 to 1.0.x and android-sdk 1.0.6, read 2026-08.
@nonexhaustive
public enum AltcraftEventCodes: String, Sendable, CaseIterable {
    /// Releases 0.0.1 to 0.0.3.
    case seed
    /// Releases from 1.0.4 on.
    case current

    /// The number of a success; a refusal has 200 more, a failure that is repeated 300 more.
    public func success(_ action: AltcraftAction) -> Int {
        switch (self, action) {
        case (.seed, .subscribe), (.seed, .suspend), (.seed, .unsubscribe), (.current, .subscribe): 230
        case (.seed, .update), (.current, .suspend): 231
        case (.seed, .event), (.current, .unsubscribe): 232
        case (.seed, .unsuspend), (.current, .update): 233
        case (.seed, .status), (.current, .unsuspend): 234
        case (.current, .status): 235
        case (.current, .event): 236
        // The seed has no such events, so these are the numbers of the releases that have them.
        case (_, .mobile): 237
        case (_, .profile): 238
        }
    }

    /// The number of a refusal.
    public func refused(_ action: AltcraftAction) -> Int { success(action) + 200 }

    /// The number of a failure of the platform; what is never repeated counts as refused.
    public func failed(_ action: AltcraftAction) -> Int { action.isRepeated ? success(action) + 300 : refused(action) }

    /// The number of the event that a request could not be prepared.
    func unprepared(_ action: AltcraftAction) -> Int {
        switch action {
        case .unsuspend: success(.unsuspend) + 190
        case .status: success(.status) + 190
        case .subscribe, .suspend, .unsubscribe: 520
        case .update: 521
        case .event: 522
        case .mobile: 527
        case .profile: 561
        }
    }

    /// The number of an operation that was given up after its last try.
    func dropped(_ action: AltcraftAction) -> Int {
        switch action {
        case .event: 484
        case .mobile: 485
        default: 480
        }
    }
}
