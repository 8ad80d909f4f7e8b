/// The name of one of the apps that share a gateway, whose devices and users are kept apart.
///
/// Registries, stored deliveries and operations use a key for a device or a user. In the app `default` the key is the
/// id itself; in another app it is the app's name, a slash and the id (`shop/phone-1`). So the same id in two apps
/// means two devices or users. Backends and their platforms never see these keys.
public struct AppName: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The app of everything that names none.
    public static let `default` = AppName(rawValue: "default")

    /// The name, in the form of a backend's (``BackendRegistry/isName(_:)``).
    public let rawValue: String

    /// Makes a name without checking it.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Makes the app of a device from the device's key.
    public init(ofDevice key: String) {
        guard let slash = key.utf8.firstIndex(of: UInt8(ascii: "/")) else {
            self = .default
            return
        }
        self.init(rawValue: String(key[..<slash]))
    }

    /// Returns the key of a device or a user of the app.
    ///
    /// The key of a user of the default app whose name has a slash begins with a further slash, so that no two keys are
    /// the same.
    public func key(_ name: String) -> String {
        guard self == .default else { return rawValue + "/" + name }
        return name.utf8.contains(UInt8(ascii: "/")) ? "/" + name : name
    }

    /// Returns the id of a device or a user of the app from its key; a text that is not a key of the app is returned
    /// unchanged.
    public func name(_ key: String) -> String {
        let prefix = self == .default ? "/" : rawValue + "/"
        return key.hasPrefix(prefix) ? String(key.dropFirst(prefix.count)) : key
    }

    /// Whether a key is one of the app's.
    public func owns(_ key: String) -> Bool {
        if self != .default { return key.hasPrefix(rawValue + "/") }
        return key.hasPrefix("/") || !key.utf8.contains(UInt8(ascii: "/"))
    }

    /// Returns the recipient with the key of a device or a user in place of its name.
    public func keyed(_ recipient: Recipient) -> Recipient {
        switch recipient {
        case .device(let id): .device(key(id))
        case .user(let id): .user(key(id))
        case .token, .platformID, .topic, .tags, .everyone: recipient
        }
    }

    /// Returns the recipient as a backend sees it: the opposite of ``keyed(_:)``.
    public func named(_ recipient: Recipient) -> Recipient {
        switch recipient {
        case .device(let id): .device(name(id))
        case .user(let id): .user(name(id))
        case .token, .platformID, .topic, .tags, .everyone: recipient
        }
    }

    /// The name.
    public var description: String { rawValue }

    /// Compares by the name.
    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}
