public import Foundation
public import ChaparChabok
internal import ChaparCore

// The names of the notifications that the vendor's client library posts.

/// Registering the app or its user failed; `error` holds the reason.
public let kPushClientDidFailRegisterUserNotification = Notification.Name("PushClientDidFailRegisterUserNotification")
/// A message arrived; `message` holds it, as a ``ChaparChabok/ChabokNotification``.
public let kPushClientDidReceivedMessageNotification = Notification.Name("PushClientDidReceivedMessageNotification")
/// A device is registered; `isRegistered` is true, `userId` is its user.
public let kPushClientDidRegisterUserNotification = Notification.Name("PushClientDidRegisterUserNotification")
/// The link changed; ``ChaparChabok/ChabokBackend/connectionState`` is its state.
public let kPushClientDidChangeServerConnectionStateNotification = Notification.Name(
    "PushClientDidChangeServerConnectionStateNotification"
)
/// Whether Chabok can be reached changed; `reachable` is a truth value, `networkType` a number.
public let kPushClientDidChangeServerReachabilityNotification = Notification.Name(
    "PushClientDidChangeServerReachabilityNotification"
)

extension ChabokEvent {
    /// The notification that the client library posts for it; nil for kinds that it does not post.
    public var clientNotification: Notification? {
        clientName.map { Notification(name: Notification.Name($0), userInfo: clientInfo) }
    }

    private static func registered(_ user: String?) -> [String: any Sendable] {
        var info: [String: any Sendable] = ["isRegistered": true]
        info["userId"] = user
        return info
    }

    private var clientInfo: [String: any Sendable]? {
        switch self {
        case .registrationFailed(let message, _, _):
            ["error": PushError(.invalidRequest, message, reason: "registration_failed")]
        case .messageReceived(let message): ["message": message]
        case .registered(let user, _): Self.registered(user)
        case .reachabilityChanged(let isReachable, let network):
            ["reachable": isReachable, "networkType": network.rawValue]
        case .connectionStateChanged, .reported: nil
        }
    }
}

extension ChabokEventStream {
    /// Posts each event as the client library does; returns when the backend is shut down or the task is cancelled.
    ///
    /// It is the only reader of the stream.
    public func post(to center: NotificationCenter = .default) async {
        for await event in events {
            if let notification = event.clientNotification { center.post(notification) }
        }
    }
}
