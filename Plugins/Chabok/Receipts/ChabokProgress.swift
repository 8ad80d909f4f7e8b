/// The state of one message to one device, in Chabok's words; reports move it forward and never back.
///
/// For programs that follow messages without a gateway, whose own states are fewer.
public struct ChabokProgress: Sendable, Hashable {
    /// A state.
    @nonexhaustive
    public enum State: Int, Sendable, CaseIterable, Comparable {
        /// Chabok took it.
        case accepted
        /// It waits for its user.
        case queued
        /// It is on its way.
        case sent
        /// It reached the device.
        case delivered
        /// It was shown.
        case shown
        /// The user dismissed it; it may still be opened in an inbox.
        case dismissed
        /// The user opened it.
        case opened
        /// The user tapped a button.
        case actionTaken
        /// Its time to live ended before it was delivered.
        case expired
        /// It will not be delivered.
        case failed

        /// Orders states by their progress.
        public static func < (left: State, right: State) -> Bool { left.rawValue < right.rawValue }

        /// Whether no other state follows.
        public var isFinal: Bool { self >= .opened }
    }

    /// The state of the message.
    public private(set) var state = State.accepted
    /// Whether it went to connected users only: nothing is ever reported of it.
    public let isLive: Bool

    /// Makes a message that was just accepted.
    public init(isLive: Bool = false) { self.isLive = isLive }

    /// Applies a report; returns false when it changes nothing, since it is old or impossible.
    public mutating func move(to new: State) -> Bool {
        guard !isLive, new != state, isAllowed(new) else { return false }
        state = new
        return true
    }

    private func isAllowed(_ new: State) -> Bool {
        switch new {
        case .failed: state < .delivered
        case .expired: state == .queued || state == .sent
        default: new > state && !state.isFinal
        }
    }
}
