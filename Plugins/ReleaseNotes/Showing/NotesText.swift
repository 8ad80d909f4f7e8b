/// A list of versions as text for a terminal, in either direction.
public enum NotesText {
    /// How the text is made.
    public struct Options: Sendable {
        /// The columns there are; at least 20.
        public var width: Int
        /// Whether colours are written as SGR sequences.
        public var hasColor: Bool
        /// Whether isolates and padding are left out where the list runs from right to left.
        public var isPlain: Bool

        /// Makes options.
        public init(width: Int = 80, hasColor: Bool = false, isPlain: Bool = false) {
            self.width = max(20, width)
            self.hasColor = hasColor
            self.isPlain = isPlain
        }
    }

    /// Returns the lines, each ended by a line break.
    public static func render(_ view: NotesView, _ options: Options = Options()) -> String {
        var lines: [Line] = []
        let entries = view.notes.entries
        for (index, entry) in entries.enumerated() {
            let isLast = index == entries.count - 1
            lines += Row(entry, view, isLast: isLast).lines(options.width)
            if !isLast { lines.append(Line(edge: Row.connector(view), gap: 0, text: nil)) }
        }
        if entries.isEmpty {
            let words = view.language.hasPrefix("fa") ? "هنوز نسخه‌ای ثبت نشده است." : "There are no versions yet."
            lines.append(Line(edge: nil, gap: 0, text: Piece(words)))
        }
        if let (button, url) = view.review {
            lines.append(Line(edge: nil, gap: 0, text: nil))
            lines.append(Line(edge: nil, gap: 0, text: Piece("\(TerminalText.clean(button.title)): \(url)")))
        }
        return lines.map { $0.written(view, options) + "\n" }.joined()
    }

    /// A piece of a line in one colour.
    struct Piece {
        var text: String
        var color: NotesColor?
        var isBold = false

        init(_ text: String, _ color: NotesColor? = nil, isBold: Bool = false) {
            (self.text, self.color, self.isBold) = (text, color, isBold)
        }
    }

    /// A line: a piece at the edge, a gap of spaces, and a bullet and a text where there are any.
    struct Line {
        var edge: Piece?
        var gap: Int
        var bullet: Piece?
        var text: Piece?

        init(edge: Piece?, gap: Int, bullet: Piece? = nil, text: Piece?) {
            (self.edge, self.gap, self.bullet, self.text) = (edge, gap, bullet, text)
        }

        func written(_ view: NotesView, _ options: Options) -> String {
            // As (text, piece) from the edge inwards; the other direction has them in the other order.
            var parts: [(String, Piece?)] = []
            if let edge { parts.append((edge.text, edge)) }
            if gap > 0, bullet != nil || text != nil { parts.append((String(repeating: " ", count: gap), nil)) }
            if let bullet {
                parts.append((bullet.text, bullet))
                parts.append((" ", nil))
            }
            let isolates = view.isRightToLeft && !options.isPlain
            if let text { parts.append((isolates ? "\u{2067}\(text.text)\u{2069}" : text.text, text)) }
            if view.isRightToLeft {
                parts.reverse()
                let width = parts.reduce(0) { $0 + TerminalText.width($1.0) }
                if !options.isPlain, width < options.width, width > 0 {
                    parts.insert((String(repeating: " ", count: options.width - width), nil), at: 0)
                }
            }
            guard options.hasColor, parts.contains(where: { $0.1 != nil }) else { return parts.map(\.0).joined() }
            return parts.map { paint($0.0, $0.1, view.theme) }.joined() + "\u{1B}[0m"
        }

        private func paint(_ text: String, _ piece: Piece?, _ theme: NotesView.Theme) -> String {
            guard let piece, let color = piece.color else { return text }
            let (red, green, blue) = NotesColor.parts(theme == .dark ? color.dark : color.light)
            return "\u{1B}[0;\(piece.isBold ? "1;" : "")38;2;\(red);\(green);\(blue)m\(text)"
        }
    }

    /// One version's lines.
    private struct Row {
        private let entry: ReleaseNotes.Entry
        private let view: NotesView
        private let isLast: Bool

        init(_ entry: ReleaseNotes.Entry, _ view: NotesView, isLast: Bool) {
            (self.entry, self.view, self.isLast) = (entry, view, isLast)
        }

        static func connector(_ view: NotesView) -> Piece { Piece("│", .name("systemGray5")) }

        func lines(_ width: Int) -> [Line] {
            let status = view.status(of: entry)
            let display = status == .current ? view.style.current : view.style.other
            let bullet =
                switch status {
                case .future: Piece("○", .name("systemBlue"))
                case .current: Piece("●", .name("systemBlue"))
                case .old: Piece("·", .name("systemGray5"))
                }
            let edge = isLast ? Piece(" ") : Self.connector(view)
            let isBold = display.titleFont.weight.number >= 600
            let title = Piece(view.title(of: entry), display.titleColor, isBold: isBold)
            var lines: [Line] = []
            if status == .current, let whatsNew = view.style.whatsNew {
                for (number, part) in TerminalText.wrap(TerminalText.clean(whatsNew.text), width - 2).enumerated() {
                    let words = Piece(part, whatsNew.textColor, isBold: isBold)
                    lines.append(Line(edge: number == 0 ? bullet : edge, gap: 1, text: words))
                }
                lines.append(Line(edge: edge, gap: 1, text: title))
            } else {
                lines.append(Line(edge: bullet, gap: 1, text: title))
            }
            let isStrong = display.changesFont.weight.number >= 600
            for change in entry.changes {
                for (number, part) in TerminalText.wrap(TerminalText.clean(change), width - 6).enumerated() {
                    let text = Piece(part, display.changesColor, isBold: isStrong)
                    let dot = Piece("•", display.changesColor, isBold: isStrong)
                    lines.append(
                        number == 0
                            ? Line(edge: edge, gap: 3, bullet: dot, text: text) : Line(edge: edge, gap: 5, text: text)
                    )
                }
            }
            return lines
        }
    }
}

/// Texts by the columns that a terminal shows them in.
///
/// ``NotesText`` cleans, measures and wraps with it. The result never holds a control character: text in release notes
/// cannot move the cursor.
enum TerminalText {
    /// Returns the text without characters that move the cursor or change colours: a change's text is data, never an
    /// instruction.
    static func clean(_ text: String) -> String {
        var clean = ""
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control: clean += scalar == "\n" || scalar == "\t" ? " " : ""
            case .lineSeparator, .paragraphSeparator: clean += " "
            default: clean.unicodeScalars.append(scalar)
            }
        }
        return clean
    }

    /// Returns the columns of a text.
    static func width(_ text: String) -> Int { text.reduce(0) { $0 + width(of: $1) } }

    /// Returns the columns of a character: those of its widest part, since marks and joiners add none.
    static func width(of character: Character) -> Int {
        character.unicodeScalars.map(width(of:)).max() ?? 0
    }

    private static func width(of scalar: Unicode.Scalar) -> Int {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control: return 0
        default: break
        }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE4F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
            0x1FA70...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }

    /// Breaks a text into lines of at most `columns` columns, 2 at least: between words, and within a word that is
    /// longer than a line.
    static func wrap(_ text: String, _ columns: Int) -> [String] {
        let columns = max(2, columns)
        var lines: [String] = []
        var line = ""
        var used = 0
        func end() {
            lines.append(line)
            (line, used) = ("", 0)
        }
        for word in text.split(separator: " ") {
            let wide = width(String(word))
            if used > 0 {
                if used + 1 + wide <= columns {
                    line += " \(word)"
                    used += 1 + wide
                    continue
                }
                end()
            }
            for character in word {
                let own = width(of: character)
                if used + own > columns { end() }
                line.append(character)
                used += own
            }
        }
        if !line.isEmpty || lines.isEmpty { end() }
        return lines
    }
}
