public import ChaparCore

/// A simulated platform that may stand behind a relay, which takes access tokens in place of the platform's credential.
public protocol RelayedPlatform: Sendable {
    /// Takes the access tokens that `accepts` accepts, in place of the platform's own credential, from now on.
    func relay(_ accepts: @escaping @Sendable (String) -> Bool)

    /// Returns the keys of a backend's section that sends through the relay, but for its `auth`.
    ///
    /// - Parameter caFile: The path of the file with the certificate to trust.
    /// - Returns: The keys with their values, `kind` first.
    func relayedSection(caFile: String) -> JSONObject
}
