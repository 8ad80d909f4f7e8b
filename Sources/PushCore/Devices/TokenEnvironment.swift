/// Which installations of an app a token is of, and which a backend reaches: those of the platform's store, or those
/// that developers install.
@nonexhaustive
public enum TokenEnvironment: String, Sendable, CaseIterable {
    /// Installed from the store or TestFlight: Apple's production host.
    case production
    /// Installed by Xcode: Apple's sandbox host.
    case development
    /// Not said; or the platform has no such difference.
    case unknown

    /// Whether a token of one of the two is known to be refused by a backend of the other.
    public func conflicts(with other: TokenEnvironment) -> Bool {
        self != other && self != .unknown && other != .unknown
    }
}
