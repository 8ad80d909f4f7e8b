public import Foundation
public import ChaparCore
import Synchronization

/// An event of Chabok, of its link or of a device, which the vendor's clients post as a notification.
@nonexhaustive
public enum ChabokEvent: Sendable, Hashable {
    /// Registering a device failed for good.
    case registrationFailed(message: String, user: String?, installation: String?)
    /// A message arrived on a device, by a report of its app or a webhook.
    case messageReceived(ChabokNotification)
    /// A device is registered.
    case registered(user: String?, installation: String)
    /// The link changed.
    case connectionStateChanged(old: ChabokConnectionState, new: ChabokConnectionState)
    /// Whether Chabok can be reached changed.
    case reachabilityChanged(isReachable: Bool, network: ChabokNetworkType)
    /// A device or a webhook reported something else.
    case reported(ChabokReport)

    /// The name of the notification that the clients post for it; nil for kinds that they do not post.
    public var clientName: String? {
        switch self {
        case .registrationFailed: "PushClientDidFailRegisterUserNotification"
        case .messageReceived: "PushClientDidReceivedMessageNotification"
        case .registered: "PushClientDidRegisterUserNotification"
        case .connectionStateChanged: "PushClientDidChangeServerConnectionStateNotification"
        case .reachabilityChanged: "PushClientDidChangeServerReachabilityNotification"
        case .reported: nil
        }
    }
}

/// One report of a device or a webhook.
///
/// ``ChabokReceipts`` makes it from a webhook. A report about a message becomes its receipt, any other becomes an
/// event. A word that is not known is kept and never refused.
public struct ChabokReport: Sendable, Hashable {
    /// The kinds of report.
    @nonexhaustive
    public enum Kind: Sendable, Hashable {
        /// It reached the device.
        case delivered
        /// The user has read it.
        case seen
        /// It was shown.
        case shown
        /// The user opened it.
        case opened
        /// The user dismissed it.
        case dismissed
        /// The user tapped a button.
        case actionTaken
        /// The app was installed.
        case newInstall
        /// There is a new user.
        case newUser
        /// The app was opened.
        case appOpened
        /// The app is gone.
        case uninstalled
        /// A word that is not known, kept as it came.
        case other(String)

        /// The reason or event name for it, from a fixed set.
        public var name: String {
            switch self {
            case .delivered: "delivered"
            case .seen: "seen"
            case .shown: "shown"
            case .opened: "opened"
            case .dismissed: "dismissed"
            case .actionTaken: "action_taken"
            case .newInstall: "new_install"
            case .newUser: "new_user"
            case .appOpened: "app_opened"
            case .uninstalled: "uninstalled"
            case .other: "other"
            }
        }

        /// Reads a word in any of the spellings in use, `opend` included.
        public init(name: String) {
            self =
                switch name.lowercased().filter({ $0.isLetter }) {
                case "delivered", "delivery", "messagedelivery", "messagedelivered": .delivered
                case "seen", "read", "messageseen": .seen
                case "shown", "notificationshown": .shown
                case "opened", "opend", "notificationopened": .opened
                case "dismissed", "dismiss", "notificationdismissed": .dismissed
                case "actiontaken", "action": .actionTaken
                case "newinstall", "install": .newInstall
                case "newuser": .newUser
                case "appopened", "appopen", "applaunch": .appOpened
                case "uninstalled", "uninstall": .uninstalled
                default: .other(name)
                }
        }
    }

    /// The kind of the report.
    public var kind: Kind

    /// Whether it is about the state of a message.
    var isAboutDelivery: Bool {
        switch kind {
        case .delivered, .seen, .shown, .opened, .dismissed, .actionTaken: messageID != nil
        case .newInstall, .newUser, .appOpened, .uninstalled, .other: false
        }
    }

    fileprivate var ids: JSONObject {
        var ids = JSONObject()
        for (name, id) in [("message", messageID), ("user", user), ("installation", installation)] {
            if let id { ids[name] = .string(id) }
        }
        if case .other(let word) = kind { ids["word"] = .string(word) }
        return ids
    }

    /// The message it is about.
    public var messageID: String?
    /// The user it is about.
    public var user: String?
    /// The installation it is about.
    public var installation: String?
    /// When it happened; nil when unknown.
    public var at: Date?
    /// The report as it came.
    public var raw: JSONObject

    /// Makes a report.
    public init(
        _ kind: Kind,
        messageID: String? = nil,
        user: String? = nil,
        installation: String? = nil,
        at: Date? = nil,
        raw: JSONObject = JSONObject()
    ) {
        self.kind = kind
        self.messageID = messageID
        self.user = user
        self.installation = installation
        self.at = at
        self.raw = raw
    }
}

/// The events of one backend, for one reader.
///
/// When the reader is too slow, the oldest events are dropped.
public final class ChabokEventStream: Sendable {
    /// The most events that wait for the reader.
    public static let capacity = 1000

    /// The events, oldest first; ends with the backend's shutdown.
    public let events: AsyncStream<ChabokEvent>
    private let continuation: AsyncStream<ChabokEvent>.Continuation
    private let dropped = Mutex(0)
    private let announce: @Sendable (BackendNotice) -> Void

    init(announce: @escaping @Sendable (BackendNotice) -> Void = { _ in }) {
        (events, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.capacity))
        self.announce = announce
    }

    /// The number of events that were dropped because they were not read in time.
    public var droppedCount: Int { dropped.withLock { $0 } }

    /// Passes an event to the reader, and announces it to the gateway if `isAnnounced`.
    func send(_ event: ChabokEvent, isAnnounced: Bool = true) {
        if case .dropped = continuation.yield(event) { dropped.withLock { $0 += 1 } }
        if isAnnounced, let notice = event.notice { announce(notice) }
    }

    func finish() { continuation.finish() }
}

extension ChabokEvent {
    /// The event in the form of the gateway's own stream.
    var notice: BackendNotice? {
        switch self {
        case .registrationFailed(let message, let user, _):
            BackendNotice(
                .error,
                "registration_failed",
                message: message,
                detail: user.map { ["user": .string($0)] } ?? [:]
            )
        case .registered(let user, let installation):
            BackendNotice(
                .info,
                "registered",
                message: "A device is registered with Chabok.",
                detail: ["installation": .string(installation), "user": user.map { .string($0) } ?? .null]
            )
        case .messageReceived(let message):
            BackendNotice(
                .info,
                "message_received",
                message: "A message reached a device.",
                detail: ["message": message.messageID.map { .string($0) } ?? .null]
            )
        case .connectionStateChanged(let old, let new):
            BackendNotice(
                new == .disconnectedError || new == .socketTimeout ? .retry : .info,
                "connection",
                message: "The link to Chabok is \(new.name).",
                detail: ["old": .integer(Int64(old.rawValue)), "new": .integer(Int64(new.rawValue))]
            )
        case .reachabilityChanged(let isReachable, _):
            BackendNotice(
                isReachable ? .info : .retry,
                "reachability",
                message: isReachable ? "Chabok can be reached." : "Chabok cannot be reached."
            )
        case .reported(let report):
            // A report about a message is published with its delivery, by the receipt.
            report.isAboutDelivery
                ? nil
                : BackendNotice(
                    .info,
                    report.kind.name,
                    message: "Chabok reports: \(report.kind.name).",
                    detail: report.ids
                )
        }
    }
}
