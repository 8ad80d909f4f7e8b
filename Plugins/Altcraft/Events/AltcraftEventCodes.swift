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
    /// A delivery or an opening is reported.
    case event
    /// An event of the app's own is reported.
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

    /// The words before an event's type or name in a message, as in `. Type: open` or `, name: purchase`.
    var remarkName: (ofSuccess: String, ofFailure: String) {
        self == .mobile ? ("Event name", "name") : ("Type", "type")
    }

    /// Whether another attempt follows a failure of the platform.
    var isRepeated: Bool { self != .unsuspend && self != .status }
}

/// The numbering of events: the same number has different meanings in different releases of Altcraft's SDK.
///
/// Source: the code of altcraft/ios-sdk 0.0.1 to 1.0.x and android-sdk 1.0.6, read 2026-08.
@nonexhaustive
public enum AltcraftEventCodes: String, Sendable, CaseIterable {
    /// Releases 0.0.1 to 0.0.3.
    case seed
    /// Releases from 1.0.4 on.
    case current

    /// Returns the number of a success; a refusal has 200 more, a failure that is repeated 300 more.
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

    /// Returns the number of a refusal.
    public func refused(_ action: AltcraftAction) -> Int { success(action) + 200 }

    /// Returns the number of a failure of the platform; an action that is never repeated has the number of a refusal.
    public func failed(_ action: AltcraftAction) -> Int { action.isRepeated ? success(action) + 300 : refused(action) }

    /// Returns the number of the event for a request that could not be prepared.
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

    /// Returns the number of the event for an operation that was given up after its last attempt.
    func dropped(_ action: AltcraftAction) -> Int {
        switch action {
        case .event: 484
        case .mobile: 485
        default: 480
        }
    }
}
