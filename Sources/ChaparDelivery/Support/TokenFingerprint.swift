internal import Crypto
internal import Foundation
package import ChaparCore

/// A text that is shown in the place of a device token; the token cannot be computed from it.
///
/// It is `sha256-` and the first 16 hexadecimal digits of the SHA-256 of the token's text.
package enum TokenFingerprint {
    package static func of(_ token: String) -> String {
        let digest = SHA256.hash(data: Data(token.utf8))
        return "sha256-" + digest.prefix(8).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}

extension Recipient {
    /// The recipient's ``storedForm``, with a fingerprint in place of a device token.
    package var shownForm: String {
        guard case .token(let token) = self else { return storedForm }
        return Recipient.token(DeviceToken(TokenFingerprint.of(token.value), service: token.service)).storedForm
    }
}
