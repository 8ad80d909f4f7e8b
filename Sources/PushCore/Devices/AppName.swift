/// The name of one of the apps that share a gateway, which keeps their devices and users apart.
///
/// Registries, stored deliveries and operations know a device or a user by a key: its own name in the app `default`,
/// else the app's name, a slash and its own name (`shop/phone-1`). So the same id or user in two apps is two of them.
/// Backends and their platforms never see keys.
public struct AppName: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The app of whatever names none.
    public static let `default` = AppName(rawValue: "default")

    /// The name: as of a backend (``BackendRegistry/isName(_:)``).
    public let rawValue: String

    /// Takes a name as it is.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The app of a device, by the device's key.
    public init(ofDevice key: String) {
        guard let slash = key.utf8.firstIndex(of: UInt8(ascii: "/")) else {
            self = .default
            return
        }
        self.init(rawValue: String(key[..<slash]))
    }

    /// The key of a device or a user of the app.
    ///
    /// A user of the default app whose name has a slash has one more before it, so that no two keys are the same.
    public func key(_ name: String) -> String {
        guard self == .default else { return rawValue + "/" + name }
        return name.utf8.contains(UInt8(ascii: "/")) ? "/" + name : name
    }

    /// The own name of a device or a user of the app; a text that is no key of the app is given back as it is.
    public func name(_ key: String) -> String {
        let prefix = self == .default ? "/" : rawValue + "/"
        return key.hasPrefix(prefix) ? String(key.dropFirst(prefix.count)) : key
    }

    /// Whether a key is one of the app's.
    public func owns(_ key: String) -> Bool {
        if self != .default { return key.hasPrefix(rawValue + "/") }
        return key.hasPrefix("/") || !key.utf8.contains(UInt8(ascii: "/"))
    }

    /// The recipient with the key of a device or a user in the place of its name.
    public func keyed(_ recipient: Recipient) -> Recipient {
        switch recipient {
        case .device(let id): .device(key(id))
        case .user(let id): .user(key(id))
        case .token, .platformID, .topic, .tags, .everyone: recipient
        }
    }

    /// The recipient as a backend sees it: the opposite of ``keyed(_:)``.
    public func named(_ recipient: Recipient) -> Recipient {
        switch recipient {
        case .device(let id): .device(name(id))
        case .user(let id): .user(name(id))
        case .token, .platformID, .topic, .tags, .everyone: recipient
        }
    }

    /// The name.
    public var description: String { rawValue }

    /// By the name.
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}
