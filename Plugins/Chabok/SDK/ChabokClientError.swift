/// An error in an app, by the number that the vendor's client libraries report.
///
/// For apps that pass their errors on. Source: the public headers of AdpPushClient 1.16.0 and chabok-client-js 1.4.0.
@nonexhaustive
public enum ChabokClientError: Sendable, Hashable {
    /// The library was not initialised.
    case notInitialised
    /// A parameter is wrong.
    case badParameter
    /// Registering the app failed.
    case appRegistrationFailed
    /// Registering the user failed.
    case userRegistrationFailed
    /// The server cannot be reached.
    case serverUnreachable
    /// The connection failed.
    case connectionFailed
    /// Asking for a verification code failed.
    case verificationRequestFailed
    /// Checking a verification code failed.
    case verificationFailed
    /// There is no network.
    case offline
    /// A mistake in the use of the JavaScript client: an old credential, a bad app, user, channel, tag or attribute.
    case misuse(Int)
    /// A number that is not known.
    case unknown(Int)

    /// Reads a number.
    ///
    /// A doubled minus sign in the header made 5014 positive in the libraries that were shipped: both signs are taken.
    public init(code: Int) {
        self =
            switch code {
            case -5001: .notInitialised
            case -5002: .badParameter
            case -5009: .appRegistrationFailed
            case -5010: .userRegistrationFailed
            case -5011: .serverUnreachable
            case -5012: .connectionFailed
            case -5013: .verificationRequestFailed
            case 5014, -5014: .verificationFailed
            case -5030: .offline
            case 100...108: .misuse(code)
            default: .unknown(code)
            }
    }
}
