/// The reader of private keys and certificates in PEM form, for every platform and for TLS.
///
/// It reads every form that OpenSSL reads: text before, between and after the blocks, other kinds of blocks (`EC
/// PARAMETERS`), any length of lines, any line ends, a byte order mark, bytes after the value, and DER in place of PEM.
/// It also reads the forms that secret managers make: `\n` as two characters, blanks in place of line breaks, quotes,
/// base64 of the whole. Sources: RFC 7468; OpenSSL 3, PEM_read_bio(3).
public enum PEMReader {
    /// How to get PEM from a keychain's file; `-legacy` since its RC2 is in OpenSSL 3's legacy provider only.
    package static let fromKeychain =
        "Get PEM from a .p12 file: openssl pkcs12 -legacy -in FILE.p12 -clcerts -nokeys (-nocerts -nodes for the key); "
        + "leave -legacy out before OpenSSL 3."

    /// Returns the first private key as one block of PEM in its plainest form.
    public static func privateKey(in text: Secret) throws(CredentialMistake) -> Secret {
        let whole = CredentialText.unwrapped(text)
        let blocks = blocks(in: whole)
        guard let block = blocks.first(where: { Label.keys.contains($0.label) }) else {
            throw noKey(blocks.map(\.label), in: whole)
        }
        let encoding = try block.encoding("key")
        return Secret(encoding.pem(encoding.keyLabel ?? block.label.rawValue))
    }

    /// Returns every certificate, each as one block of PEM, in their order.
    public static func certificates(in text: Secret) throws(CredentialMistake) -> String {
        let whole = CredentialText.unwrapped(text)
        let blocks = blocks(in: whole)
        let certificates = blocks.filter { Label.certificates.contains($0.label) }
        guard !certificates.isEmpty else { throw noCertificate(blocks.map(\.label), in: whole) }
        var text = ""
        for certificate in certificates { text += try certificate.encoding("certificate").pem("CERTIFICATE") }
        return text
    }

    /// Whether the text has a private key, plain or encrypted.
    public static func holdsKey(_ text: Secret) -> Bool {
        blocks(in: CredentialText.unwrapped(text)).contains { Label.keys.contains($0.label) || $0.label == .encrypted }
    }

    /// Names the algorithm of a private key, as the end of a sentence: "a P-384 key"; nil for an unknown one.
    public static func algorithm(ofKey text: Secret) -> String? {
        blocks(in: CredentialText.unwrapped(text)).first { Label.keys.contains($0.label) }
            .flatMap { try? $0.encoding("key").keyAlgorithm }
    }

    /// Returns why a key is not one of RSA with at least 2048 bits, as the end of a sentence.
    package static func mismatch(ofKey pem: Secret) -> String {
        let wanted = "is not an RSA key of at least 2048 bits"
        guard let algorithm = algorithm(ofKey: pem), algorithm != "an RSA key" else { return wanted }
        return "\(wanted): it is \(algorithm)"
    }

    // MARK: Blocks

    /// The labels that are known; any other text of a BEGIN line is never shown, since it may be key material.
    private enum Label: String, CaseIterable {
        case key = "PRIVATE KEY"
        case ec = "EC PRIVATE KEY"
        case rsa = "RSA PRIVATE KEY"
        case encrypted = "ENCRYPTED PRIVATE KEY"
        case openSSH = "OPENSSH PRIVATE KEY"
        case publicKey = "PUBLIC KEY"
        case rsaPublicKey = "RSA PUBLIC KEY"
        case certificate = "CERTIFICATE"
        case x509 = "X509 CERTIFICATE"
        case trusted = "TRUSTED CERTIFICATE"
        case request = "CERTIFICATE REQUEST"
        case newRequest = "NEW CERTIFICATE REQUEST"
        case pkcs7 = "PKCS7"
        case other = ""

        static let keys: [Label] = [.key, .ec, .rsa]
        static let certificates: [Label] = [.certificate, .x509, .trusted]

        /// Reads a label; blanks make no difference, since some tools take them out.
        init(_ text: ArraySlice<UInt8>) {
            let written = String(decoding: text.prefix(64), as: UTF8.self).filter { !$0.isWhitespace }
            self = Self.allCases.first { $0.rawValue.filter { $0 != " " } == written } ?? .other
        }
    }

    private static let begin = Array("-----BEGIN".utf8)
    private static let end = Array("-----END".utf8)
    private static let dashes = Array("-----".utf8)

    /// A block, not decoded yet: a wrong one matters only when it is the wanted one.
    private struct Block {
        let label: Label
        /// The text between the lines BEGIN and END.
        let body: ArraySlice<UInt8>
        /// Whether the line END is missing.
        let hasNoEnd: Bool

        /// Decodes the body; `thing` is the word for it in messages.
        func encoding(_ thing: String) throws(CredentialMistake) -> DEREncoding {
            let lines = String(decoding: body, as: UTF8.self).split(separator: "\n")
            // RFC 1421: an encrypted key of the old form has headers.
            if lines.contains(where: { $0.contains("DEK-Info:") || $0.contains(",ENCRYPTED") }) {
                throw PEMReader.encrypted
            }
            guard !hasNoEnd else {
                throw CredentialMistake(
                    "is a damaged \(thing), cut off: its -----END \(label.rawValue)----- line is missing",
                    fix: "Give the whole text, from -----BEGIN to the last line."
                )
            }
            let text = lines.filter { !$0.contains(":") }.joined().filter { $0 != " " }
            if text.hasPrefix("nM") || text.hasPrefix("rnM") {
                throw CredentialMistake(
                    "is a damaged \(thing): its line breaks were \\n and have lost the backslash",
                    fix: "Put the value in quotes where it is set, or name a file."
                )
            }
            guard !text.isEmpty else { throw CredentialMistake("is a damaged \(thing): it has no content") }
            guard !text.contains("-"), !text.contains("_"), let bytes = CredentialText.base64(text) else {
                throw CredentialMistake(
                    text.utf8.count % 4 == 1
                        ? "is a damaged \(thing), cut off: a character of its base64 is missing"
                        : "is a damaged \(thing): between BEGIN and END stand characters that are not base64"
                )
            }
            guard let encoding = DEREncoding(bytes) else {
                throw CredentialMistake("is a damaged \(thing): it cannot be decoded")
            }
            guard !encoding.isCutOff else {
                throw CredentialMistake(
                    "is a damaged \(thing), cut off: it has \(bytes.count) of \(encoding.announced) bytes"
                )
            }
            return encoding
        }
    }

    private static func blocks(in text: String) -> [Block] {
        var blocks: [Block] = []
        var rest = Array(CredentialText.unescaped(text).utf8)[...]
        while let start = rest.firstRange(of: begin) {
            rest = rest[start.upperBound...]
            guard let close = rest.firstRange(of: dashes) else { break }
            let label = Label(rest[..<close.lowerBound])
            rest = rest[close.upperBound...]
            let next = rest.firstRange(of: begin)?.lowerBound ?? rest.endIndex
            let body = rest[..<next]
            guard let stop = body.firstRange(of: end) else {
                blocks.append(Block(label: label, body: body, hasNoEnd: true))
                continue
            }
            let tail = body[stop.upperBound...]
            let isWhole = tail.firstRange(of: dashes).map { Label(tail[..<$0.lowerBound]) == label } ?? false
            blocks.append(Block(label: label, body: body[..<stop.lowerBound], hasNoEnd: !isWhole))
        }
        return blocks
    }

    // MARK: Mistakes

    private static let encrypted = CredentialMistake(
        "is an encrypted key",
        fix: "Remove its passphrase: openssl pkcs8 -topk8 -nocrypt -in FILE -out plain.pem"
    )

    private static func noKey(_ labels: [Label], in text: String) -> CredentialMistake {
        if labels.contains(.encrypted) { return encrypted }
        if labels.contains(.openSSH) {
            return CredentialMistake(
                "is a key in OpenSSH's own form",
                fix: "Convert a copy: ssh-keygen -p -N '' -m PKCS8 -f COPY"
            )
        }
        if labels.contains(where: Label.certificates.contains) {
            return CredentialMistake(
                "is a certificate, not a key",
                fix: "A certificate belongs to certificate_file; here goes a private key."
            )
        }
        if labels.contains(where: { $0 == .publicKey || $0 == .rsaPublicKey }) {
            return CredentialMistake("is a public key; the private key is needed")
        }
        if labels.contains(where: { $0 == .request || $0 == .newRequest }) {
            return CredentialMistake("is a request for a certificate, not a key")
        }
        return other(text, "key", "PRIVATE KEY")
    }

    private static func noCertificate(_ labels: [Label], in text: String) -> CredentialMistake {
        if labels.contains(where: { Label.keys.contains($0) || $0 == .encrypted || $0 == .openSSH }) {
            return CredentialMistake(
                "is a key, not a certificate",
                fix: "A private key belongs to key_file, or to certificate_key_file beside a certificate."
            )
        }
        if labels.contains(where: { $0 == .request || $0 == .newRequest }) {
            return CredentialMistake(
                "is a request for a certificate, not the certificate",
                fix: "Give the file that the authority made of it."
            )
        }
        if labels.contains(.pkcs7) {
            return CredentialMistake(
                "is a PKCS #7 bundle",
                fix: "Convert it: openssl pkcs7 -print_certs -in FILE -out FILE.pem"
            )
        }
        if labels.contains(where: { $0 == .publicKey || $0 == .rsaPublicKey }) {
            return CredentialMistake("is a public key, not a certificate")
        }
        return other(text, "certificate", "CERTIFICATE")
    }

    private static func other(_ text: String, _ thing: String, _ label: String) -> CredentialMistake {
        if let mistake = CredentialText.mistake(in: text) { return mistake }
        if text.hasPrefix("{") {
            return CredentialMistake(
                "is JSON, not a PEM \(thing)",
                fix: "The JSON file of a service account belongs to service_account_file."
            )
        }
        let words = text.uppercased()
        if words.contains("BEGIN"), words.contains(label) {
            return CredentialMistake(
                "is not a PEM \(thing): its first line is damaged",
                fix: "It is exactly -----BEGIN \(label)-----, with five hyphens on each side."
            )
        }
        return CredentialMistake("is not a PEM \(thing): it has no -----BEGIN \(label)----- line")
    }
}
