internal import Foundation

/// The outermost value of a key or a certificate in DER form, as far as it tells what the whole is.
struct DEREncoding {
    /// The bytes of the value, without what follows it.
    let bytes: ArraySlice<UInt8>
    /// The number of bytes that the value announces, its head included.
    let announced: Int
    /// The content: what follows the head.
    private let content: ArraySlice<UInt8>

    /// Reads the head; nil when the bytes begin with no sequence.
    init?(_ all: [UInt8]) {
        guard all.count >= 2, all[0] == 0x30 else { return nil }
        var length = Int(all[1])
        var head = 2
        if length >= 0x80 {
            let digits = length - 0x80
            // In text the second character of "0…" is below 0x80; three bytes of length are 16 MiB.
            guard (1...3).contains(digits), all.count >= 2 + digits else { return nil }
            length = all[2..<2 + digits].reduce(0) { $0 << 8 | Int($1) }
            head += digits
        } else if all.count < 2 + length || all[2..<2 + length].allSatisfy({ (0x20..<0x7F).contains($0) }) {
            return nil
        }
        announced = head + length
        bytes = all.prefix(announced)
        content = all.prefix(announced).dropFirst(head)
    }

    /// Whether bytes of the value are missing.
    var isCutOff: Bool { bytes.count < announced }

    /// The label of a private key's PEM form by its structure; nil for anything else.
    ///
    /// Sources: RFC 5208 and 5958 (PKCS #8), RFC 8017 A.1.2 (RSA), RFC 5915 (EC).
    var keyLabel: String? {
        if content.starts(with: [2, 1, 0, 0x30]) || content.starts(with: [2, 1, 1, 0x30]) { return "PRIVATE KEY" }
        if content.starts(with: [2, 1, 0, 2]) { return "RSA PRIVATE KEY" }
        if content.starts(with: [2, 1, 1, 4]) { return "EC PRIVATE KEY" }
        return nil
    }

    /// Returns the PEM form of a private key or a certificate.
    func text() throws(CredentialMistake) -> Secret {
        if content.starts(with: [2, 1, 3]) {
            throw CredentialMistake("is a .p12 file, not PEM", fix: PEMReader.fromKeychain)
        }
        // A certificate begins with a sequence of a version (RFC 5280), which public and encrypted keys do not have.
        let isCertificate = DEREncoding(Array(content))?.content.starts(with: [0xA0, 3, 2, 1]) ?? false
        guard let label = keyLabel ?? (isCertificate ? "CERTIFICATE" : nil) else {
            throw CredentialMistake(
                "is in binary form (DER) and is neither a plain private key nor a certificate",
                fix: "Convert it to PEM: openssl pkey -inform DER -in FILE -out FILE.pem"
            )
        }
        return Secret(pem(label))
    }

    /// Returns the value as one block of PEM, with lines of 64 characters.
    func pem(_ label: String) -> String {
        var body = Data(bytes).base64EncodedString()[...]
        var text = "-----BEGIN \(label)-----\n"
        while !body.isEmpty {
            text += body.prefix(64) + "\n"
            body = body.dropFirst(64)
        }
        return text + "-----END \(label)-----\n"
    }

    /// The algorithm of a private key, as the end of "is …"; nil for one that is not known.
    var keyAlgorithm: String? {
        let algorithms: [(oid: [UInt8], name: String)] = [
            ([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07], "a P-256 key"),
            ([0x2B, 0x81, 0x04, 0x00, 0x22], "a P-384 key"),
            ([0x2B, 0x81, 0x04, 0x00, 0x23], "a P-521 key"),
            ([0x2B, 0x81, 0x04, 0x00, 0x0A], "a secp256k1 key"),
            ([0x2B, 0x65, 0x70], "an Ed25519 key"),
            ([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01], "an RSA key"),
            ([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x01, 0x01], "a key with a curve of explicit parameters"),
        ]
        if keyLabel == "RSA PRIVATE KEY" { return "an RSA key" }
        return algorithms.first { bytes.firstRange(of: [0x06, UInt8(clamping: $0.oid.count)] + $0.oid) != nil }?.name
    }
}
