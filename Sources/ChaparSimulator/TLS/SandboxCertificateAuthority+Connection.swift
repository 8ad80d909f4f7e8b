package import ChaparCore

extension SandboxCertificateAuthority {
    /// Returns how a backend reaches a simulator of this authority: its address, and the certificate to trust.
    ///
    /// Throws while the simulator does not run, when it has no address.
    package func connection(to url: String) throws(InvalidAddress) -> CommonBackendOptions {
        CommonBackendOptions(address: try .simulator(url), trustPEM: certificatePEM)
    }
}
