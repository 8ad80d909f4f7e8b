public import PushCore

/// Which devices a list is asked for; what is nil does not matter.
public struct DeviceQuery: Sendable, Hashable {
    /// Devices of this app.
    public var app: AppName?
    /// Devices of this user, by its key.
    public var user: String?
    /// Devices with this tag.
    public var tag: String?
    /// Devices that were registered with this platform, or whose tokens all are of it.
    public var platform: String?
    /// Devices with a token of this service, dead ones included.
    public var service: TokenService?

    /// Makes a query; without anything it means all devices.
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

/// A place in a list of devices, opaque to everybody but the store that gave it.
public struct DeviceCursor: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The number of the last device before the place, in the order in which devices were registered first.
    public let rawValue: Int64

    /// Makes a cursor of a number; of one that no id has, the nearest.
    public init(rawValue: Int64) { self.rawValue = NotificationID(rawValue: rawValue).rawValue }

    /// Reads the API's form; nil for anything else.
    public init?(_ text: some StringProtocol) {
        guard let number = NotificationID(text) else { return nil }
        rawValue = number.rawValue
    }

    /// The API's form: 13 letters and digits.
    public var description: String { NotificationID(rawValue: rawValue).description }
}

/// A part of a list of devices.
public struct DevicePage: Sendable, Hashable {
    /// The devices, in the order in which they were registered first.
    public var devices: [Device]
    /// Where the next page begins; nil after the last one.
    public var next: DeviceCursor?

    /// Makes a page.
    public init(_ devices: [Device], next: DeviceCursor? = nil) {
        self.devices = devices
        self.next = next
    }
}

/// What became of a device that was put into the registry.
public struct DevicePut: Sendable, Hashable {
    /// The device as it stands now.
    public var device: Device
    /// Whether there was none with its id.
    public var isNew: Bool

    /// Makes a value.
    public init(_ device: Device, isNew: Bool) {
        self.device = device
        self.isNew = isNew
    }
}
