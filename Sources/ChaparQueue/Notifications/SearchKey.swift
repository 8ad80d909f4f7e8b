package import ChaparCore

/// A key of the index by which a search finds deliveries: a hash of a user, a device or a reference.
///
/// Stores keep only the hash, in the commit that accepts the notification, and nothing where a notification has none of
/// the three. A user and a device are the keys that the registry has (``ChaparCore/AppName/key(_:)``). A message to a
/// bare token has neither.
public struct SearchKey: Sendable, Hashable {
    /// The hash, which is stored: it must be the same in every process.
    public let hash: Int64
    /// Whether it belongs to a whole notification: the index has it once, with the number of the notification.
    public let isOfNotification: Bool

    private init(_ kind: UInt8, _ text: String, isOfNotification: Bool = false) {
        var hash = StableHash()
        hash.add(kind)
        hash.add(text.utf8)
        self.hash = Int64(bitPattern: hash.value)
        self.isOfNotification = isOfNotification
    }

    /// The key of the messages to a user, as the user was when they were accepted.
    public static func user(_ user: String) -> SearchKey { SearchKey(UInt8(ascii: "u"), user) }
    /// The key of the messages to a device.
    public static func device(_ device: String) -> SearchKey { SearchKey(UInt8(ascii: "d"), device) }
    /// The key of the messages with a reference.
    public static func reference(_ reference: String) -> SearchKey {
        SearchKey(UInt8(ascii: "r"), reference, isOfNotification: true)
    }
}

extension NewNotification {
    /// Whether a search finds it by a key.
    package var hasSearchKeys: Bool { Self.hasSearchKeys(record.reference, recipients) }

    /// Whether a search finds a notification with this reference and these recipients by a key.
    package static func hasSearchKeys(_ reference: String?, _ recipients: [Recipient]) -> Bool {
        if reference != nil { return true }
        switch recipients.first {
        case .device, .user: return true
        default: return false
        }
    }

    /// Calls a function with each key by which a search finds the notification, and the number of the delivery.
    ///
    /// All recipients of a notification have the same form, so for most notifications they need not be read.
    package func forEachSearchKey<Failure: Error>(
        _ body: (_ key: SearchKey, _ delivery: Int64) throws(Failure) -> Void
    ) throws(Failure) {
        if let reference = record.reference { try body(.reference(reference), id.rawValue) }
        switch recipients.first {
        case .device, .user: break
        default: return
        }
        for (index, recipient) in recipients.enumerated() {
            let number = id.delivery(at: index)
            switch recipient {
            case .device(let device):
                try body(.device(device), number)
                if index < users.count, let user = users[index] { try body(.user(user), number) }
            case .user(let user): try body(.user(user), number)
            default: continue
            }
        }
    }
}

extension UserTraces {
    /// The keys by which a search finds the user's messages.
    package var searchKeys: [SearchKey] { [.user(user)] + devices.sorted().map { .device($0) } }
}
