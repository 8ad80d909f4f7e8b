public import ChaparCore

/// The options of a notification that only Apple has: the purpose of the push, its priority and its expiration.
///
/// Title, body, sound, badge, category and data of the notification are sent as usual; the values set here are merged
/// with them. Add the options with ``ChaparCore/PushNotification/with(_:)``:
///
/// ```swift
/// let update = try APNsLiveActivity.update(["stopsLeft": 3], at: now)
/// let notification = try PushNotification().with(APNsPush(.liveActivity(update)))
/// ```
///
/// Source: Apple, "Sending notification requests to APNs", read 2026-08.
public struct APNsPush: PlatformPayload, Hashable {
    /// `apns`.
    public static var kind: BackendKind { APNsBackend.kind }

    /// The purpose of a push: each of Apple's push types, with the values that its payload must hold.
    ///
    /// The suffix of the topic follows from it.
    @nonexhaustive
    public enum Content: Sendable, Hashable {
        /// Shows, sounds or badges.
        case alert(APNsAlert)
        /// Wakes the app without showing anything; its priority is 5.
        case background
        /// Updates controls (iOS 18).
        case controls
        /// Updates a watch complication; the app reads the notification's data.
        case complication
        /// Tells a File Provider extension what changed: the container's identifier, and the domain unless it is the
        /// default.
        case fileProvider(container: String, domain: String? = nil)
        /// Starts, updates or ends a Live Activity; a key is needed to send it, not a certificate.
        case liveActivity(APNsLiveActivity)
        /// Asks for the device's location; a key is needed to send it, not a certificate.
        case location
        /// Makes a managed device contact its server, with the magic that the device gave when it enrolled.
        ///
        /// The backend's topic is the one of the MDM certificate.
        case mdm(pushMagic: String)
        /// Push-to-Talk; priority 10, and never stored.
        case pushToTalk
        /// An incoming call; up to 5,120 bytes.
        case voip
        /// Reloads widgets.
        case widgets
    }

    /// How urgent a push is for Apple: the values of `apns-priority`.
    @nonexhaustive
    public enum Priority: Int, Sendable, Hashable {
        /// At once.
        case immediate = 10
        /// When it suits the battery.
        case considerate = 5
        /// Battery before all else; never wakes the device.
        case powerSaving = 1
    }

    /// The purpose of the push.
    public var content: Content
    /// How urgent it is; nil follows from the notification and the content.
    public var priority: Priority?
    /// When Apple gives up; nil follows from the notification's time to live.
    public var expiration: PushRequest.Expiration?
    /// The collapse id, 1 to 64 bytes: a newer push with it replaces this one; nil is the notification's.
    public var collapseID: String?
    /// The backend's topic, with or without the suffix that the content adds; nil is the backend's topic, and any other
    /// one is refused.
    public var topic: String?
    /// More of the payload, laid over all the rest: members beside `aps`, and keys under `aps` that Apple added later.
    public var payload: JSONObject

    /// Makes a push.
    public init(
        _ content: Content,
        priority: Priority? = nil,
        expiration: PushRequest.Expiration? = nil,
        collapseID: String? = nil,
        topic: String? = nil,
        payload: JSONObject = JSONObject()
    ) {
        self.content = content
        self.priority = priority
        self.expiration = expiration
        self.collapseID = collapseID
        self.topic = topic
        self.payload = payload
    }

    /// `headers` and `payload`, as the API takes them under `overrides.apns`.
    public var overrides: JSONObject {
        var headers: JSONObject = ["apns-push-type": .string(pushType.rawValue)]
        headers["apns-priority"] = priority.map { .string("\($0.rawValue)") }
        switch expiration {
        case .immediately?: headers["apns-expiration"] = "0"
        case .at(let seconds)?: headers["apns-expiration"] = .string("\(seconds)")
        case nil: break
        }
        headers["apns-collapse-id"] = collapseID.map { .string($0) }
        headers["apns-topic"] = topic.map { .string($0) }
        var overrides: JSONObject = ["headers": .object(headers)]
        let payload = members.merging(payload)
        if !payload.isEmpty { overrides["payload"] = .object(payload) }
        return overrides
    }

    /// Finds what Apple would refuse, except for rules that depend on the backend: its topic, and whether it has a key.
    public static func faults(in notification: PushNotification) -> [Finding] {
        let overrides = notification.overrides[kind.rawValue].map { APNsOverrides($0) }
        // A channel takes a larger update than a device; the backend knows which of the two it is.
        let isUpdate = overrides?.pushType == .liveactivity && overrides?.payload?["aps"]?["event"] != "start"
        let form: Recipient.Form = isUpdate ? .platformID : .token
        let headers = APNsHeaders(
            notification,
            overrides: overrides,
            form: form,
            topic: overrides?.topic ?? "com.example.app",
            hasProviderToken: true
        )
        return APNsCheck.examine(notification, headers: headers, overrides: overrides, form: form).faults
    }

    private var pushType: APNsPushType {
        switch content {
        case .alert: .alert
        case .background: .background
        case .controls: .controls
        case .complication: .complication
        case .fileProvider: .fileprovider
        case .liveActivity: .liveactivity
        case .location: .location
        case .mdm: .mdm
        case .pushToTalk: .pushtotalk
        case .voip: .voip
        case .widgets: .widgets
        }
    }

    /// The members that the content adds to the payload.
    private var members: JSONObject {
        switch content {
        case .alert(let alert):
            let aps = alert.aps
            return aps.isEmpty ? [:] : ["aps": .object(aps)]
        case .liveActivity(let activity): return ["aps": .object(activity.aps)]
        case .fileProvider(let container, let domain):
            var members: JSONObject = ["container-identifier": .string(container)]
            members["domain"] = domain.map { .string($0) }
            return members
        case .mdm(let magic): return ["mdm": .string(magic)]
        case .background, .controls, .complication, .location, .pushToTalk, .voip, .widgets: return [:]
        }
    }
}
