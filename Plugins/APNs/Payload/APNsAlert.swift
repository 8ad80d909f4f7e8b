public import ChaparCore

/// A push that shows, sounds or badges, in Apple's own words.
///
/// A property that is nil leaves the notification's value. Source: Apple, "Generating a remote notification", read
/// 2026-08.
public struct APNsAlert: Sendable, Hashable {
    /// The heading.
    public var title: AppText?
    /// The second heading.
    public var subtitle: AppText?
    /// The text.
    public var body: AppText?
    /// The picture that is shown while the app launches.
    public var launchImage: String?
    /// The number on the app's icon; 0 removes it.
    public var badge: Int?
    /// The sound.
    public var sound: APNsSound?
    /// Notifications with the same one are grouped.
    public var threadID: String?
    /// The app's name for a set of actions.
    public var category: String?
    /// Whether the app is woken as well, to fetch something.
    public var isContentAvailable: Bool
    /// Whether the app's extension may change the notification before it is shown.
    public var isMutable: Bool
    /// The identifier of the window that is brought forward.
    public var targetContentID: String?
    /// How much it may interrupt.
    public var interruptionLevel: InterruptionLevel?
    /// Its place in a summary, 0 to 1; the highest is shown largest.
    public var relevanceScore: Double?
    /// The value that a Focus compares with its filter.
    public var filterCriteria: String?

    /// How much a notification may interrupt.
    @nonexhaustive
    public enum InterruptionLevel: String, Sendable, Hashable {
        /// Into the list, without lighting the screen.
        case passive
        /// At once; what Apple assumes.
        case active
        /// Through a Focus and a scheduled summary; the app needs the capability.
        case timeSensitive = "time-sensitive"
        /// Through the mute switch too; Apple grants it to few apps.
        case critical
    }

    /// Makes an alert.
    public init(
        title: AppText? = nil,
        subtitle: AppText? = nil,
        body: AppText? = nil,
        launchImage: String? = nil,
        badge: Int? = nil,
        sound: APNsSound? = nil,
        threadID: String? = nil,
        category: String? = nil,
        isContentAvailable: Bool = false,
        isMutable: Bool = false,
        targetContentID: String? = nil,
        interruptionLevel: InterruptionLevel? = nil,
        relevanceScore: Double? = nil,
        filterCriteria: String? = nil
    ) {
        self.title = title
        self.subtitle = subtitle
        self.body = body
        self.launchImage = launchImage
        self.badge = badge
        self.sound = sound
        self.threadID = threadID
        self.category = category
        self.isContentAvailable = isContentAvailable
        self.isMutable = isMutable
        self.targetContentID = targetContentID
        self.interruptionLevel = interruptionLevel
        self.relevanceScore = relevanceScore
        self.filterCriteria = filterCriteria
    }

    /// The members of `aps`.
    var aps: JSONObject {
        var alert = JSONObject()
        Self.put(title, as: "title", key: "title-loc", into: &alert)
        Self.put(subtitle, as: "subtitle", key: "subtitle-loc", into: &alert)
        Self.put(body, as: "body", key: "loc", into: &alert)
        alert["launch-image"] = launchImage.map { .string($0) }
        var aps = JSONObject()
        if !alert.isEmpty { aps["alert"] = .object(alert) }
        aps["badge"] = badge.map { .integer(Int64($0)) }
        aps["sound"] = sound?.value
        aps["thread-id"] = threadID.map { .string($0) }
        aps["category"] = category.map { .string($0) }
        if isContentAvailable { aps["content-available"] = 1 }
        if isMutable { aps["mutable-content"] = 1 }
        aps["target-content-id"] = targetContentID.map { .string($0) }
        aps["interruption-level"] = interruptionLevel.map { .string($0.rawValue) }
        aps["relevance-score"] = relevanceScore.map { .number($0) }
        aps["filter-criteria"] = filterCriteria.map { .string($0) }
        return aps
    }

    private static func put(_ text: AppText?, as name: String, key prefix: String, into alert: inout JSONObject) {
        switch text {
        case nil: break
        case .plain(let text)?: alert[name] = .string(text)
        case .key(let key, let arguments)?:
            alert["\(prefix)-key"] = .string(key)
            if !arguments.isEmpty { alert["\(prefix)-args"] = .texts(arguments) }
        }
    }
}

/// The sound that a device plays.
@nonexhaustive
public enum APNsSound: Sendable, Hashable {
    /// A file of the app, or `default`.
    case named(String)
    /// Played through the mute switch, at a volume from 0 to 1; Apple grants it to few apps.
    case critical(name: String = "default", volume: Double = 1)

    /// The system's own.
    public static let standard = APNsSound.named("default")

    var value: JSONValue {
        switch self {
        case .named(let name): .string(name)
        case .critical(let name, let volume): ["critical": 1, "name": .string(name), "volume": .number(volume)]
        }
    }
}
