/// An account at a simulator: its credential, its address and the certificate to trust, for the plugin of its platform.
///
/// ```swift
/// let ios = try client.add(.apns(sandbox.apns.pushAccount), as: "ios")
/// ```
public struct SimulatedAccount: Sendable {
    /// How a backend reaches the simulator: its address and the certificate to trust.
    public let common: CommonBackendOptions
    private let kind: BackendKind
    private let fields: [String: String]

    /// Makes an account.
    ///
    /// - Parameters:
    ///   - kind: The kind of the platform's backend.
    ///   - fields: The credential, in the words of the configuration file.
    ///   - common: The address and the certificate.
    package init(_ kind: BackendKind, _ fields: [String: String], common: CommonBackendOptions) {
        self.common = common
        self.kind = kind
        self.fields = fields
    }

    /// Returns a field of the credential; throws when the account is one of another platform.
    package func field(_ name: String, of kind: BackendKind) throws(PushError) -> String {
        guard kind == self.kind, let value = fields[name] else {
            throw PushError(.invalidRequest, "the simulated account is one of \(self.kind), not of \(kind)")
        }
        return value
    }
}
