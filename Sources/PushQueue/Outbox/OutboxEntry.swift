public import Foundation
public import PushCore

/// Something that a platform is to be told about a device: kept by the store until the platform has taken or refused
/// it.
///
/// Entries of one device at one backend are carried out one at a time, in the order they were accepted.
public struct OutboxEntry: Sendable, Hashable {
    /// What it is about.
    public enum Kind: String, Sendable, CaseIterable {
        /// The device came or changed: ``PushCore/DeviceRegistrar/register(_:)``.
        case register
        /// The device went: ``PushCore/DeviceRegistrar/remove(_:)``.
        case remove
        /// Its subscription changes: ``PushCore/SubscriptionManager``.
        case subscription
        /// Its tags or fields change: ``PushCore/TagEditor``.
        case tags
        /// The app told what became of a message: ``PushCore/EventReporter``.
        case event
    }

    /// Its id; it never changes.
    public var id: UUID
    /// The backend it is for, by its name in the configuration.
    public var backend: String
    /// The device it is about.
    public var device: String
    /// The user that the device belonged to when it was asked for: whose credentials it goes out with.
    public var user: String?
    /// What it is about.
    public var kind: Kind
    /// What it says, in a form that belongs to the kind.
    public var body: JSONObject
    /// When it was asked for.
    public var at: Date

    /// Makes an entry.
    public init(
        id: UUID = UUID(),
        backend: String,
        device: String,
        user: String? = nil,
        kind: Kind,
        body: JSONObject = JSONObject(),
        at: Date
    ) {
        self.id = id
        self.backend = backend
        self.device = device
        self.user = user
        self.kind = kind
        self.body = body
        self.at = at
    }
}
