/// Decides whether the arrival of a notification in an app is a click, and which callback navigates.
///
/// Up to iOS 9 a Chabok message arrives as a local notification and a push as a remote one, through different
/// callbacks; from iOS 10 on only the response to a notification is a click.
public enum ChabokClickClassifier {
    /// The callback through which it arrived.
    @nonexhaustive
    public enum Origin: Sendable, Hashable {
        /// The callback of local notifications.
        case local
        /// The callback of remote notifications.
        case remote
        /// The launch options, before any callback.
        case launchOptions(isRemote: Bool)
        /// The response to a notification, from iOS 10 on.
        case response
    }

    /// The state of the app when the notification arrived.
    @nonexhaustive
    public enum AppState: Sendable, Hashable, CaseIterable {
        /// The app is on the screen.
        case foreground
        /// The app runs, and is not on the screen.
        case background
        /// The app does not run.
        case terminated
    }

    /// The meaning of an arrival.
    public struct Verdict: Sendable, Hashable {
        /// Whether the user clicked.
        public var isClick: Bool
        /// Whether this callback opens the screen.
        public var navigateHere: Bool
        /// Whether the same notification comes once more, through another callback.
        public var willArriveAgain: Bool
    }

    /// Returns the meaning of an arrival.
    public static func classify(_ origin: Origin, osMajor: Int, appState: AppState) -> Verdict {
        if origin == .response { return Verdict(isClick: true, navigateHere: true, willArriveAgain: false) }
        guard osMajor < 10 else { return Verdict(isClick: false, navigateHere: false, willArriveAgain: false) }
        switch (origin, appState) {
        case (.launchOptions(isRemote: true), _):
            // The remote callback follows; navigating here as well would do it twice.
            return Verdict(isClick: true, navigateHere: false, willArriveAgain: true)
        case (.launchOptions(isRemote: false), _), (.local, _), (.remote, _), (.response, _):
            return Verdict(isClick: true, navigateHere: true, willArriveAgain: false)
        }
    }
}
