/// The installations of an app that a token belongs to and a backend reaches: those from the platform's store, or those
/// of developers.
@nonexhaustive
public enum TokenEnvironment: String, Sendable, CaseIterable {
    /// Installed from the store or TestFlight: Apple's production host.
    case production
    /// Installed by Xcode: Apple's sandbox host.
    case development
    /// Not known, or the platform makes no such difference.
    case unknown

    /// Whether a backend of one environment is known to refuse tokens of the other.
    public func conflicts(with other: TokenEnvironment) -> Bool {
        self != other && self != .unknown && other != .unknown
    }
}
