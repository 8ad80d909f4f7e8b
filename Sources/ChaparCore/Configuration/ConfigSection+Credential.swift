extension ConfigSection {
    /// Reads the text of the credential in the file that the key names, in any of the shapes of ``CredentialText``.
    ///
    /// The value may also be the credential itself, for instance from an environment variable. Nil when the key is
    /// absent or the credential cannot be read.
    public func credentialFile(_ key: String) -> Secret? {
        if let text = credentialInPlaceOfFile(key) { return text }
        guard let bytes = file(key) else { return nil }
        do throws(CredentialMistake) {
            return try CredentialText.text(of: bytes)
        } catch {
            reject(key, error.problem, fix: error.fix)
            return nil
        }
    }

    /// Reads the certificates in the file that the key names, PEM; nil when absent or after an issue.
    public func certificates(_ key: String) -> String? {
        guard let text = credentialFile(key) else { return nil }
        do throws(CredentialMistake) {
            return try PEMReader.certificates(in: text)
        } catch {
            reject(key, error.problem, fix: error.fix ?? "Give a PEM file with -----BEGIN CERTIFICATE----- lines.")
            return nil
        }
    }

    /// Reads the private key in the file that the key names, PEM; nil when absent or after an issue.
    public func privateKey(_ key: String) -> Secret? {
        guard let text = credentialFile(key) else { return nil }
        do throws(CredentialMistake) {
            return try PEMReader.privateKey(in: text)
        } catch {
            reject(key, error.problem, fix: error.fix ?? "Give a PEM file with a -----BEGIN PRIVATE KEY----- line.")
            return nil
        }
    }
}
