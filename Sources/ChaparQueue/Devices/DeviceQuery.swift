public import ChaparCore

/// The conditions of a list of devices; those that are nil do not apply.
public struct DeviceQuery: Sendable, Hashable {
    /// Devices of this app.
    public var app: AppName?
    /// Devices of this user, by its key.
    public var user: String?
    /// Devices with this tag.
    public var tag: String?
    /// Devices that were registered with this platform, or whose tokens are all of it.
    public var platform: String?
    /// Devices with a token of this service, dead ones included.
    public var service: TokenService?

    /// Makes a query; without conditions it matches all devices.
    public init(
        app: AppName? = nil,
        user: String? = nil,
        tag: String? = nil,
        platform: String? = nil,
        service: TokenService? = nil
    ) {
        self.app = app
        self.user = user
        self.tag = tag
        self.platform = platform
        self.service = service
    }
}

/// A position in a list of devices, opaque outside the store that made it.
public struct DeviceCursor: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The number of the last device before the position, in the order of first registration.
    public let rawValue: Int64

    /// Makes a cursor from a number, or from the nearest number that an id can have.
    public init(rawValue: Int64) { self.rawValue = NotificationID(rawValue: rawValue).rawValue }

    /// Reads the API's form; nil for any other text.
    public init?(_ text: some StringProtocol) {
        guard let number = NotificationID(text) else { return nil }
        rawValue = number.rawValue
    }

    /// The API's form: 13 letters and digits.
    public var description: String { NotificationID(rawValue: rawValue).description }
}

/// A page of a list of devices.
public struct DevicePage: Sendable, Hashable {
    /// The devices, in the order of first registration.
    public var devices: [Device]
    /// The beginning of the next page; nil after the last one.
    public var next: DeviceCursor?

    /// Makes a page.
    public init(_ devices: [Device], next: DeviceCursor? = nil) {
        self.devices = devices
        self.next = next
    }
}

/// The result of putting a device into the registry.
public struct DevicePut: Sendable, Hashable {
    /// The device as it is now.
    public var device: Device
    /// Whether the device was created.
    public var isNew: Bool

    /// Makes a value.
    public init(_ device: Device, isNew: Bool) {
        self.device = device
        self.isNew = isNew
    }
}
