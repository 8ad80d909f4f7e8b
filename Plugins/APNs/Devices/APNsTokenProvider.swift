public import ChaparCore

/// Gives and checks the device tokens of `ios-apns`, for code that gets them from an app.
///
/// An APNs token cannot be deleted, neither by the app nor by a server, so this type does not conform to
/// `TokenDeleting`.
public struct APNsTokenProvider: TokenProvider {
    /// `ios-apns`.
    public var service: TokenService { .iOSAPNs }

    private let deadline: Duration
    private let fetch: @Sendable () async throws -> [UInt8]?

    /// Makes a provider.
    ///
    /// - Parameters:
    ///   - deadline: How long `fetch` may take.
    ///   - fetch: Asks the app for the token's bytes; nil or no bytes when there is none for now.
    public init(deadline: Duration = .seconds(10), fetch: @escaping @Sendable () async throws -> [UInt8]?) {
        self.deadline = deadline
        self.fetch = fetch
    }

    /// Returns the current token in lower-case hexadecimal; nil when the app has none for now.
    ///
    /// Throws `PushError.Code.unavailable` when the app fails or does not answer within the deadline.
    public func token() async throws(PushError) -> DeviceToken? {
        guard let bytes = try await AppToken.fetch(within: deadline, fetch), !bytes.isEmpty else { return nil }
        guard bytes.count <= 200 else { throw PushError(.badAnswer, "the app gave \(bytes.count) bytes for a token") }
        return DeviceToken(Self.hexadecimal(bytes), service: service)
    }

    /// Returns a token in lower-case hexadecimal, without the brackets and blanks of older logs.
    ///
    /// There is no fixed length: 2 to 400 digits, an even number of them.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken { try Self.token(text) }

    fileprivate static func token(_ text: String) throws(InvalidToken) -> DeviceToken {
        let service = TokenService.iOSAPNs
        var digits: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): digits.append(byte)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digits.append(byte | 0x20)
            case UInt8(ascii: "<"), UInt8(ascii: ">"), 0x20, 0x09, 0x0A, 0x0D: continue
            default: throw InvalidToken(service, "it holds something other than hexadecimal digits")
            }
        }
        guard !digits.isEmpty else { throw InvalidToken(service, "it is empty") }
        guard digits.count % 2 == 0 else { throw InvalidToken(service, "it has an odd number of digits") }
        guard digits.count <= 400 else { throw InvalidToken(service, "it has \(digits.count) digits; 400 is the most") }
        return DeviceToken(String(decoding: digits, as: UTF8.self), service: service)
    }

    /// Whether a text is a token in its normal form: lower-case hexadecimal, an even number of digits.
    fileprivate static func isNormal(_ text: String) -> Bool {
        let bytes = text.utf8
        guard (2...400).contains(bytes.count), bytes.count % 2 == 0 else { return false }
        // Text that is not stored as UTF-8 is checked by the slower path.
        return bytes.withContiguousStorageIfAvailable { bytes in
            bytes.allSatisfy { $0 &- 0x30 < 10 || $0 &- 0x61 < 6 }
        } ?? false
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(unsafeUninitializedCapacity: bytes.count * 2) { text in
            for (index, byte) in bytes.enumerated() {
                text[2 * index] = digits[Int(byte >> 4)]
                text[2 * index + 1] = digits[Int(byte & 15)]
            }
            return bytes.count * 2
        }
    }
}

extension APNsBackend {
    /// Returns the token in lower-case hexadecimal, as ``APNsTokenProvider/validate(_:)`` does.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        // The usual case is one pass over the text.
        if APNsTokenProvider.isNormal(token.value) { return token }
        return try APNsTokenProvider.token(token.value)
    }
}
