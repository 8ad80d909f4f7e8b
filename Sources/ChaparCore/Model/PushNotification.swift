public import Foundation

/// A message in platform-neutral terms: what to show, how urgently, for how long.
///
/// The API reads it from JSON, code makes it directly, and a plugin turns it into its platform's payload. It does not
/// have the recipients: see ``Recipient``.
public struct PushNotification: Sendable, Hashable {
    private var storage: Storage

    /// The heading.
    ///
    /// Shown in bold by most platforms.
    public var title: LocalizedText? {
        get { storage.parts.title }
        set { own().parts.title = newValue }
    }
    /// The second heading; platforms without one drop it with a warning.
    public var subtitle: LocalizedText? {
        get { storage.parts.subtitle }
        set { own().parts.subtitle = newValue }
    }
    /// The text.
    public var body: LocalizedText? {
        get { storage.parts.body }
        set { own().parts.body = newValue }
    }
    /// The address of a picture, `https` only.
    public var image: String? {
        get { storage.parts.image }
        set { own().parts.image = newValue }
    }
    /// The name of a sound in the app, or `default`.
    ///
    /// With nil there is no sound.
    public var sound: String? {
        get { storage.parts.sound }
        set { own().parts.sound = newValue }
    }
    /// The number on the app's icon; 0 removes it, nil leaves it as it is.
    public var badge: Int? {
        get { storage.parts.badge }
        set { own().parts.badge = newValue }
    }
    /// The app's own name for a set of actions (APNs `category`, Android channel or category).
    public var category: String? {
        get { storage.parts.category }
        set { own().parts.category = newValue }
    }
    /// The URL that a tap opens.
    public var clickURL: String? {
        get { storage.parts.clickURL }
        set { own().parts.clickURL = newValue }
    }
    /// The buttons.
    public var actions: [Action] {
        get { storage.parts.actions }
        set { own().parts.actions = newValue }
    }
    /// The app's own values.
    ///
    /// Platforms that support only strings get each value as JSON text.
    public var data: JSONObject {
        get { storage.parts.data }
        set { own().parts.data = newValue }
    }

    /// The name of the Live Activity that the message updates or ends; the app's server chooses the name.
    ///
    /// The message goes to the tokens that devices registered for this activity
    /// (``TokenKind/liveActivityUpdate(activity:)``).
    public var activity: String? {
        get { storage.parts.activity }
        set { own().parts.activity = newValue }
    }

    /// The longest time that the platforms may try to deliver, counted from acceptance.
    ///
    /// Whole seconds, 0 to 28 days; 0 is "now or never".
    public var timeToLive: Duration? {
        get { storage.parts.timeToLive }
        set { own().parts.timeToLive = newValue }
    }
    /// The urgency.
    public var priority: Priority {
        get { storage.parts.priority }
        set { own().parts.priority = newValue }
    }
    /// An id that several messages can have.
    ///
    /// On the device and in the queue a newer message replaces an older one with the same id. At most 64 bytes for
    /// APNs.
    public var collapseID: String? {
        get { storage.parts.collapseID }
        set { own().parts.collapseID = newValue }
    }
    /// The time at which to send the message; nil or a past time means at once.
    ///
    /// A gateway keeps the message until then. Code without one refuses it (`scheduling_needs_a_gateway`), unless the
    /// platform keeps it: ``PushBackend/schedulesMessages``.
    public var sendAt: Date? {
        get { storage.parts.sendAt }
        set { own().parts.sendAt = newValue }
    }
    /// Whether it wakes the app without showing anything.
    public var isSilent: Bool {
        get { storage.parts.isSilent }
        set { own().parts.isSilent = newValue }
    }
    /// Whether it is only validated: by the platform where it can do so, else nothing is sent.
    public var isDryRun: Bool {
        get { storage.parts.isDryRun }
        set { own().parts.isDryRun = newValue }
    }
    /// Values that only one kind of backend understands.
    ///
    /// Its plugin merges them into the payload that it makes from the other fields. The keys are raw values of
    /// ``BackendKind``.
    public var overrides: [String: JSONObject] {
        get { storage.parts.overrides }
        set { own().parts.overrides = newValue }
    }

    /// Whether it has a title, a subtitle or a text.
    public var hasText: Bool {
        storage.parts.title != nil || storage.parts.subtitle != nil || storage.parts.body != nil
    }
    /// Whether one of its texts differs between languages.
    public var isLocalized: Bool {
        if case .localized? = storage.parts.title { return true }
        if case .localized? = storage.parts.subtitle { return true }
        if case .localized? = storage.parts.body { return true }
        return false
    }
    /// The languages of all texts, in order, after nil for the default.
    public var languages: [String?] {
        var tags: Set<String> = []
        for text in [title, subtitle, body] {
            if case .localized(_, let languages)? = text { tags.formUnion(languages.keys) }
        }
        return [nil] + tags.sorted()
    }

    /// The urgency of a message.
    @nonexhaustive
    public enum Priority: String, Sendable, Hashable, CaseIterable {
        /// Delivered at once, even when the device sleeps.
        case high
        /// Delivered when it suits the battery.
        case normal
    }

    /// A button below the text.
    public struct Action: Sendable, Hashable {
        /// The id that the app receives when the button is tapped.
        public var id: String
        /// The label.
        public var title: String
        /// The URL that a tap opens, if any.
        public var url: String?

        /// Makes a button.
        public init(id: String, title: String, url: String? = nil) {
            self.id = id
            self.title = title
            self.url = url
        }
    }

    /// Makes a message; every part is optional, though one without title, body and data shows nothing.
    ///
    /// For texts in several languages use ``LocalizedText/localized(_:_:)``; for one language a `String` is enough.
    @_disfavoredOverload
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
        activity: String? = nil,
        timeToLive: Duration? = nil,
        priority: Priority = .high,
        collapseID: String? = nil,
        sendAt: Date? = nil,
        isSilent: Bool = false,
        isDryRun: Bool = false,
        overrides: [String: JSONObject] = [:]
    ) {
        storage = Storage(
            Parts(
                title: title,
                subtitle: subtitle,
                body: body,
                image: image,
                sound: sound,
                badge: badge,
                category: category,
                clickURL: clickURL,
                actions: actions,
                data: data,
                activity: activity,
                timeToLive: timeToLive,
                priority: priority,
                collapseID: collapseID,
                sendAt: sendAt,
                isSilent: isSilent,
                isDryRun: isDryRun,
                overrides: overrides
            )
        )
    }

    /// Makes a message whose texts are the same in every language; every part is optional, though one without title,
    /// body and data shows nothing.
    public init(
        title: String? = nil,
        subtitle: String? = nil,
        body: String? = nil,
        image: String? = nil,
        sound: String? = nil,
        badge: Int? = nil,
        category: String? = nil,
        clickURL: String? = nil,
        actions: [Action] = [],
        data: JSONObject = JSONObject(),
        activity: String? = nil,
        timeToLive: Duration? = nil,
        priority: Priority = .high,
        collapseID: String? = nil,
        sendAt: Date? = nil,
        isSilent: Bool = false,
        isDryRun: Bool = false,
        overrides: [String: JSONObject] = [:]
    ) {
        self.init(
            title: title.map { LocalizedText.plain($0) },
            subtitle: subtitle.map { LocalizedText.plain($0) },
            body: body.map { LocalizedText.plain($0) },
            image: image,
            sound: sound,
            badge: badge,
            category: category,
            clickURL: clickURL,
            actions: actions,
            data: data,
            activity: activity,
            timeToLive: timeToLive,
            priority: priority,
            collapseID: collapseID,
            sendAt: sendAt,
            isSilent: isSilent,
            isDryRun: isDryRun,
            overrides: overrides
        )
    }

    /// Compares every part.
    public static func == (left: PushNotification, right: PushNotification) -> Bool {
        left.storage === right.storage || left.storage.parts == right.storage.parts
    }

    /// Hashes every part.
    public func hash(into hasher: inout Hasher) { hasher.combine(storage.parts) }

    /// Returns the parts for a change, after copying them if another message shares them.
    private mutating func own() -> Storage {
        if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.parts) }
        return storage
    }

    private struct Parts: Sendable, Hashable {
        var title: LocalizedText?
        var subtitle: LocalizedText?
        var body: LocalizedText?
        var image: String?
        var sound: String?
        var badge: Int?
        var category: String?
        var clickURL: String?
        var actions: [Action]
        var data: JSONObject
        var activity: String?
        var timeToLive: Duration?
        var priority: Priority
        var collapseID: String?
        var sendAt: Date?
        var isSilent: Bool
        var isDryRun: Bool
        var overrides: [String: JSONObject]
    }

    /// The storage of a message's parts.
    ///
    /// Copies of the message share it until one of the copies is changed. A message is passed on many times between its
    /// acceptance and its answer; each time costs only one change of a reference count. The class is `@unchecked
    /// Sendable` and has no exclusivity checks, because its parts are changed only through `own()`, when no other
    /// reference to them exists.
    private final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) var parts: Parts

        init(_ parts: Parts) { self.parts = parts }
    }
}

/// A text, in one language or in several.
@nonexhaustive
public enum LocalizedText: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// The same text in every language.
    case plain(String)
    /// A text for each language tag (`fa`, `pt-BR`), and one for all other languages.
    case localized(default: String, languages: [String: String])

    /// Makes a text that is the same in every language, from a literal with or without interpolations.
    public init(stringLiteral value: String) { self = .plain(value) }

    /// Makes a text that is the same in every language.
    public init(_ text: some StringProtocol) { self = .plain(String(text)) }

    /// Returns a text for each language tag (`fa`, `pt-BR`), with one for all other languages.
    public static func localized(_ fallback: String, _ languages: [String: String]) -> LocalizedText {
        .localized(default: fallback, languages: languages)
    }

    /// Returns the text for a device's language: the exact tag first, then the language without region, then the
    /// default.
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
