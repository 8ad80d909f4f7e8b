public import Foundation
public import ChaparCore

/// A call to a platform about a device, stored until the platform has taken or refused it.
///
/// Entries of one device at one backend are carried out one at a time, in the order of acceptance.
public struct OutboxEntry: Sendable, Hashable {
    /// The purpose of an entry.
    public enum Kind: String, Sendable, CaseIterable {
        /// The device was created or changed: ``ChaparCore/DeviceRegistrar/register(_:)``.
        case register
        /// The device was removed: ``ChaparCore/DeviceRegistrar/remove(_:)``.
        case remove
        /// Its subscription changes: ``ChaparCore/SubscriptionManager``.
        case subscription
        /// Its tags or fields change: ``ChaparCore/TagEditor``.
        case tags
        /// The app reported an event of a message, or an event of its own: ``ChaparCore/EventReporter``,
        /// ``ChaparCore/CustomEventReporter``.
        case event
    }

    /// Its id; it never changes.
    public var id: UUID
    /// The backend it is for, by its name in the configuration.
    public var backend: String
    /// The device.
    public var device: String
    /// The user of the device at the time of the request, whose credentials the call uses.
    public var user: String?
    /// The purpose.
    public var kind: Kind
    /// The arguments, in a form that depends on the kind.
    public var body: JSONObject
    /// The time of the request.
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
