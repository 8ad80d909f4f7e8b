internal import Foundation

/// Base64 with the URL alphabet and without padding (RFC 4648, section 5), as in JWTs.
package enum Base64URL {
    /// Returns the text of bytes.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// Returns the bytes of a text, with or without padding; nil when it is malformed.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var plain = String(text).replacing("-", with: "+").replacing("_", with: "/")
        while plain.hasSuffix("=") { plain.removeLast() }
        plain += String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        return Data(base64Encoded: plain).map(Array.init)
    }
}

/// A JSON Web Token in its compact form (RFC 7515, section 3.1).
package enum JSONWebToken {
    /// Returns the signed text of a header and claims, both JSON.
    ///
    /// - Parameters:
    ///   - header: The JOSE header.
    ///   - claims: The claims.
    ///   - sign: Returns the signature of the text before the second dot.
    /// - Returns: The token.
    /// - Throws: The error of `sign`.
    package static func compact<Failure: Error>(
        header: [UInt8],
        claims: [UInt8],
        sign: (String) throws(Failure) -> [UInt8]
    ) throws(Failure) -> String {
        let content = Base64URL.encode(header) + "." + Base64URL.encode(claims)
        return content + "." + Base64URL.encode(try sign(content))
    }
}
