public import ChaparCore

/// The combination of a service and a kind, for which a device has one token.
///
/// It is written `ios-apns` for the app's own token, else followed by the kind: `ios-apns/voip`,
/// `ios-apns/live_activity_update/order-42`.
public struct TokenSlot: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The service.
    public var service: TokenService
    /// The purpose of its token.
    public var kind: TokenKind

    /// Makes a slot.
    public init(_ service: TokenService, _ kind: TokenKind = .device) {
        self.service = service
        self.kind = kind
    }

    /// Reads ``description``; nil for a kind that does not exist.
    ///
    /// The service is not checked; see ``ChaparCore/TokenService/named(_:)``.
    public init?(_ text: String) {
        // The app's own token, which most devices have alone.
        guard text.utf8.contains(UInt8(ascii: "/")) else {
            service = TokenService(rawValue: text)
            kind = .device
            return
        }
        let parts = text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count > 1, let kind = TokenKind(typeName: parts[1], name: parts.count > 2 ? parts[2] : nil) else {
            return nil
        }
        service = TokenService(rawValue: parts[0])
        self.kind = kind
    }

    /// The slot as text, in the API and in stores.
    public var description: String {
        guard kind != .device else { return service.rawValue }
        return "\(service.rawValue)/\(kind.typeName)" + (kind.name.map { "/" + $0 } ?? "")
    }

    /// Compares by the text.
    public static func < (left: TokenSlot, right: TokenSlot) -> Bool { left.description < right.description }
}
