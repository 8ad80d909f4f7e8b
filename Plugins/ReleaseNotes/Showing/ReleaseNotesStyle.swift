public import ChaparCore

/// A colour with a light and a dark value, each `#RRGGBB` or `#RRGGBBAA`.
public struct NotesColor: Sendable, Hashable {
    /// On a light ground.
    public let light: String
    /// On a dark ground.
    public let dark: String

    /// The colours that have names: Apple's system colours, and plain ones.
    public static let named: [String: NotesColor] = [
        "systemBlue": .init("#007AFF", "#0A84FF"), "label": .init("#000000", "#FFFFFF"),
        "systemGray": .init("#8E8E93", "#8E8E93"), "systemGray4": .init("#D1D1D6", "#3A3A3C"),
        "systemGray5": .init("#E5E5EA", "#2C2C2E"), "secondarySystemBackground": .init("#F2F2F7", "#1C1C1E"),
        "systemBackground": .init("#FFFFFF", "#000000"), "blue": .init("#0000FF"), "black": .init("#000000"),
        "white": .init("#FFFFFF"), "darkGray": .init("#555555"), "lightGray": .init("#AAAAAA"),
        "groupTableViewBackground": .init("#EFEFF4"),
    ]

    private init(_ light: String, _ dark: String? = nil) {
        self.light = light
        self.dark = dark ?? light
    }

    /// Returns a named colour.
    static func name(_ name: String) -> NotesColor { named[name] ?? NotesColor("#000000", "#FFFFFF") }

    /// Reads a name, `#RGB`, `#RRGGBB`, `#RRGGBBAA`, or `{"light": …, "dark": …}`; nil for anything else.
    public init?(_ json: JSONValue) {
        switch json {
        case .string(let text):
            if let named = Self.named[text] {
                self = named
            } else if let hex = Self.hex(text) {
                self.init(hex)
            } else {
                return nil
            }
        case .object(let pair):
            guard pair.count == 2, let light = pair["light"].flatMap(NotesColor.init),
                let dark = pair["dark"].flatMap(NotesColor.init)
            else { return nil }
            self.init(light.light, dark.dark)
        default: return nil
        }
    }

    private static func hex(_ text: String) -> String? {
        guard text.first == "#", text.dropFirst().utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else {
            return nil
        }
        let digits = text.dropFirst().uppercased()
        switch digits.count {
        case 3: return "#" + digits.map { "\($0)\($0)" }.joined()
        case 6, 8: return "#" + digits
        default: return nil
        }
    }

    /// Returns the three parts of a value, for terminals.
    static func parts(_ hex: String) -> (red: Int, green: Int, blue: Int) {
        let number = Int(hex.dropFirst().prefix(6), radix: 16) ?? 0
        return (number >> 16 & 255, number >> 8 & 255, number & 255)
    }
}

/// A font: `system`, or a family's name, with size and weight.
public struct NotesFont: Sendable, Hashable {
    /// How bold it is.
    @nonexhaustive
    public enum Weight: String, Sendable, CaseIterable {
        /// 100.
        case ultraLight
        /// 200.
        case thin
        /// 300.
        case light
        /// 400.
        case regular
        /// 500.
        case medium
        /// 600.
        case semibold
        /// 700.
        case bold
        /// 800.
        case heavy
        /// 900.
        case black

        /// The number in style sheets.
        public var number: Int { ((Self.allCases.firstIndex(of: self) ?? 3) + 1) * 100 }
    }

    /// `system`, or a family's name.
    public var family: String
    /// In points; above 0.
    public var size: Double
    /// How bold it is.
    public var weight: Weight

    /// Makes a system font.
    public init(_ size: Double, _ weight: Weight, family: String = "system") {
        (self.family, self.size, self.weight) = (family, size, weight)
    }
}

/// How a list of versions looks, with the client library's defaults.
public struct NotesStyle: Sendable, Hashable {
    /// The title and changes of some versions.
    public struct Display: Sendable, Hashable {
        /// The number's colour.
        public var titleColor: NotesColor
        /// The number's font.
        public var titleFont: NotesFont
        /// The changes' colour.
        public var changesColor: NotesColor
        /// The changes' font.
        public var changesFont: NotesFont
    }

    /// The words above the current version's number.
    public struct WhatsNew: Sendable, Hashable {
        /// The words.
        public var text: String
        /// Their colour.
        public var textColor: NotesColor
    }

    /// The button that asks for a review.
    public struct ReviewButton: Sendable, Hashable {
        /// Its title; not blank.
        public var title: String
        /// Its font.
        public var font = NotesFont(20, .bold)
        /// Its ground.
        public var backgroundColor = NotesColor.name("systemBlue")
        /// Its title's colour.
        public var textColor = NotesColor.name("white")
    }

    /// Whether the list runs from right to left.
    public var isRightToLeft = false
    /// The review button; nil for none.
    public var reviewButton: ReviewButton?
    /// The words above the current version's number; nil for none.
    public var whatsNew: WhatsNew?
    /// The current version.
    public var current = Display(
        titleColor: .name("systemBlue"),
        titleFont: NotesFont(22, .bold),
        changesColor: .name("label"),
        changesFont: NotesFont(14, .regular)
    )
    /// All others.
    public var other = Display(
        titleColor: .name("systemBlue"),
        titleFont: NotesFont(15, .bold),
        changesColor: .name("systemGray"),
        changesFont: NotesFont(13, .medium)
    )

    /// Makes the defaults.
    public init() {}
}
