internal import Foundation

/// Base64 with the URL alphabet and without padding (RFC 4648, section 5): what JWTs and their like are written in.
package enum Base64URL {
    /// The text of bytes.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    /// The bytes of a text, with or without padding; nil when it is none.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var plain = String(text).replacing("-", with: "+").replacing("_", with: "/")
        while plain.hasSuffix("=") { plain.removeLast() }
        plain += String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        return Data(base64Encoded: plain).map(Array.init)
    }
}

/// A JSON Web Token in its compact form (RFC 7515, section 3.1).
package enum JSONWebToken {
    /// The signed text of a header and claims, both JSON.
    ///
    /// - Parameters:
    ///   - header: The JOSE header.
    ///   - claims: The claims.
    ///   - sign: Gives the signature of the text before the second dot.
    /// - Returns: The token.
    /// - Throws: What `sign` throws.
    package static func compact<Failure: Error>(
        header: [UInt8],
        claims: [UInt8],
        sign: (String) throws(Failure) -> [UInt8]
    ) throws(Failure) -> String {
        let content = Base64URL.encode(header) + "." + Base64URL.encode(claims)
        return content + "." + Base64URL.encode(try sign(content))
    }
}
