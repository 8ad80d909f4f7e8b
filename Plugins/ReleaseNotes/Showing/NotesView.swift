/// The view of a reader: the list, how it looks, and which version the reader has.
///
/// Pages and terminal texts are made of it, by pure functions.
public struct NotesView: Sendable {
    /// In which direction it runs.
    @nonexhaustive
    public enum Direction: String, Sendable, CaseIterable {
        /// As the style says.
        case auto
        /// From left to right.
        case ltr
        /// From right to left.
        case rtl
    }

    /// Whether its colours are light or dark.
    @nonexhaustive
    public enum Theme: String, Sendable, CaseIterable {
        /// As the reader's system says; light where there is none to ask.
        case auto
        /// Light.
        case light
        /// Dark.
        case dark
    }

    /// The list.
    public var notes: ReleaseNotes
    /// How it looks.
    public var style: NotesStyle
    /// The version that the reader has.
    public var current: ReleaseVersion
    /// The language tag.
    public var language: String
    /// The app's name, for the page's title.
    public var appName: String
    /// Where a review is written; nil leaves the review button out.
    public var reviewURL: String?
    /// In which direction it runs.
    public var direction = Direction.auto
    /// Whether its colours are light or dark.
    public var theme = Theme.auto

    /// Makes a view.
    public init(
        _ notes: ReleaseNotes,
        style: NotesStyle = NotesStyle(),
        current: ReleaseVersion,
        language: String,
        appName: String,
        reviewURL: String? = nil
    ) {
        self.notes = notes
        self.style = style
        self.current = current
        self.language = language
        self.appName = appName
        self.reviewURL = reviewURL
    }

    /// Whether it runs from right to left.
    public var isRightToLeft: Bool {
        switch direction {
        case .auto: style.isRightToLeft
        case .ltr: false
        case .rtl: true
        }
    }

    /// Returns a version's title, in Persian digits where the list runs from right to left.
    public func title(of entry: ReleaseNotes.Entry) -> String {
        isRightToLeft ? entry.number.persian : entry.number.description
    }

    /// Returns the status of an entry for the reader's version.
    public func status(of entry: ReleaseNotes.Entry) -> ReleaseNotes.Status {
        ReleaseNotes.status(of: entry, for: current)
    }

    /// The review button with its address; nil unless both exist.
    public var review: (button: NotesStyle.ReviewButton, url: String)? {
        guard let button = style.reviewButton, let reviewURL else { return nil }
        return (button, reviewURL)
    }
}
