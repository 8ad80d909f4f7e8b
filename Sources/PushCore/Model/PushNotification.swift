public import Foundation

/// One message in words that no platform owns: what to show, how urgently, for how long.
///
/// The API reads it from JSON, code builds it directly, a plugin turns it into its platform's payload. It says nothing
/// about whom it goes to: that is ``Recipient``.
public struct PushNotification: Sendable, Hashable {
    /// The heading.
    ///
    /// Shown in bold by most platforms.
    public var title: LocalizedText?
    /// A second heading; platforms without one drop it with a warning.
    public var subtitle: LocalizedText?
    /// The text.
    public var body: LocalizedText?
    /// The address of a picture, `https` only.
    public var image: String?
    /// The name of a sound in the app, or `default`.
    ///
    /// Nil is silent.
    public var sound: String?
    /// The number on the app's icon; 0 removes it, nil leaves it as it is.
    public var badge: Int?
    /// The app's own name for a set of actions (APNs `category`, Android channel or category).
    public var category: String?
    /// What a tap opens.
    public var clickURL: String?
    /// Buttons.
    public var actions: [Action]
    /// The app's own values.
    ///
    /// Platforms that know strings only get each value as JSON text.
    public var data: JSONObject

    /// How long the platforms may try to deliver, counted from acceptance.
    ///
    /// Whole seconds, 0 to 28 days; 0 is "now or never".
    public var timeToLive: Duration?
    /// How urgent it is.
    public var priority: Priority
    /// A newer message with the same id replaces this one, on the device and in the queue.
    ///
    /// At most 64 bytes for APNs.
    public var collapseID: String?
    /// When to send; nil or a past time is at once.
    public var sendAt: Date?
    /// Wakes the app without showing anything.
    public var isSilent: Bool
    /// Goes the whole way but for the delivery: the platform is asked to validate where it can, else nothing is sent.
    public var isDryRun: Bool
    /// What only one kind of backend understands, laid over what the plugin makes of the rest.
    ///
    /// Keyed by ``BackendKind``.
    public var overrides: [String: JSONObject]

    /// How urgent a message is.
    public enum Priority: String, Sendable, Hashable, CaseIterable {
        /// At once, also when the device sleeps.
        case high
        /// When it suits the battery.
        case normal
    }

    /// A button below the text.
    public struct Action: Sendable, Hashable {
        /// What the app is told when it is tapped.
        public var id: String
        /// The label.
        public var title: String
        /// What a tap opens, if anything.
        public var url: String?

        /// Makes a button.
        public init(id: String, title: String, url: String? = nil) {
            self.id = id
            self.title = title
            self.url = url
        }
    }

    /// Makes a message; every part is optional, though one without title, body and data shows nothing.
    public init(
        title: LocalizedText? = nil,
        subtitle: LocalizedText? = nil,
        body: LocalizedText? = nil,
        image: String? = nil,
        sound: String? = nil,
        badge: Int? = nil,
        category: String? = nil,
        clickURL: String? = nil,
        actions: [Action] = [],
        data: JSONObject = JSONObject(),
        timeToLive: Duration? = nil,
        priority: Priority = .high,
        collapseID: String? = nil,
        sendAt: Date? = nil,
        isSilent: Bool = false,
        isDryRun: Bool = false,
        overrides: [String: JSONObject] = [:]
    ) {
        self.title = title
        self.subtitle = subtitle
        self.body = body
        self.image = image
        self.sound = sound
        self.badge = badge
        self.category = category
        self.clickURL = clickURL
        self.actions = actions
        self.data = data
        self.timeToLive = timeToLive
        self.priority = priority
        self.collapseID = collapseID
        self.sendAt = sendAt
        self.isSilent = isSilent
        self.isDryRun = isDryRun
        self.overrides = overrides
    }
}

/// A text, in one language or in several.
public enum LocalizedText: Sendable, Hashable, ExpressibleByStringLiteral {
    /// The same text for everybody.
    case plain(String)
    /// A text for each language tag (`fa`, `pt-BR`), and one for everybody else.
    case localized(default: String, languages: [String: String])

    /// The same text for everybody.
    public init(stringLiteral value: String) { self = .plain(value) }

    /// The text for a device's language: the exact tag first, then the language without region, then the default.
    public func resolved(for language: String?) -> String {
        switch self {
        case .plain(let text): return text
        case .localized(let fallback, let languages):
            guard let language else { return fallback }
            if let text = languages[language] { return text }
            let base = language.prefix { $0 != "-" && $0 != "_" }
            return languages[String(base)] ?? fallback
        }
    }
}
