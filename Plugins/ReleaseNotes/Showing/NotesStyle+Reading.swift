public import ChaparCore

extension NotesStyle {
    /// Everything that is wrong with a style.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// Each with the path of its key, such as `versionsDisplayConfiguration.currentVersion.titleColor`.
        public var problems: [(path: String, detail: String)]
        /// One line for each.
        public var description: String { problems.map { "\($0.path): \($0.detail)" }.joined(separator: "\n") }
    }

    /// Reads the JSON form, in which every key is optional; an unknown key is a mistake.
    ///
    /// Numbers and truth values may be written as texts, which configuration files in YAML cannot tell apart.
    public init(_ json: JSONValue) throws(Failure) {
        self.init()
        var reader = StyleReader()
        let root = reader.object(
            json,
            "",
            ["isRightToLeft", "submitReviewButtonStatus", "versionsDisplayConfiguration"]
        )
        if let value = root?["isRightToLeft"] {
            isRightToLeft = reader.truth(value, "isRightToLeft") ?? isRightToLeft
        }
        if let value = root?["submitReviewButtonStatus"] { reviewButton = reader.button(value) }
        let path = "versionsDisplayConfiguration"
        if let value = root?[path], let both = reader.object(value, path, ["currentVersion", "otherVersion"]) {
            if let value = both["currentVersion"] {
                let own = reader.object(value, "\(path).currentVersion", StyleReader.display + ["whatsNew"])
                reader.read(own, "\(path).currentVersion", into: &current)
                if let value = own?["whatsNew"], value != .null {
                    whatsNew = reader.whatsNew(value, "\(path).currentVersion.whatsNew")
                }
            }
            if let value = both["otherVersion"] {
                let own = reader.object(value, "\(path).otherVersion", StyleReader.display)
                reader.read(own, "\(path).otherVersion", into: &other)
            }
        }
        guard reader.problems.isEmpty else { throw Failure(problems: reader.problems) }
    }
}

/// Reads parts of a style and collects what is wrong with them.
///
/// One for each reading. A part that is wrong is left out and named with its path; it never ends the reading, so that
/// all mistakes come at once.
private struct StyleReader {
    static let display = ["titleColor", "titleFont", "changesColor", "changesFont"]

    var problems: [(path: String, detail: String)] = []

    mutating func object(_ json: JSONValue, _ path: String, _ names: [String]) -> JSONObject? {
        guard let object = json.objectValue else {
            problems.append((path.isEmpty ? "ui" : path, "must be an object"))
            return nil
        }
        for (name, _) in object where !names.contains(name) {
            let nearest = Suggestion.nearest(to: name, among: names).map { "did you mean \"\($0)\"?" }
            let own = path.isEmpty ? name : "\(path).\(name)"
            problems.append((own, "unknown key; " + (nearest ?? "known: \(names.joined(separator: ", "))")))
        }
        return object
    }

    mutating func truth(_ json: JSONValue, _ path: String) -> Bool? {
        switch json {
        case .bool(let value): return value
        case .string("true"): return true
        case .string("false"): return false
        default:
            problems.append((path, "must be true or false"))
            return nil
        }
    }

    mutating func text(_ json: JSONValue?, _ path: String) -> String? {
        guard let text = json?.stringValue, !text.allSatisfy(\.isWhitespace) else {
            problems.append((path, "must be a text that is not blank"))
            return nil
        }
        return text
    }

    mutating func color(_ json: JSONValue, _ path: String) -> NotesColor? {
        if let color = NotesColor(json) { return color }
        let names = NotesColor.named.keys.sorted()
        let nearest = json.stringValue.flatMap { Suggestion.nearest(to: $0, among: names) }
        let hint =
            nearest.map { "did you mean \"\($0)\"?" } ?? "write a name, #RGB, #RRGGBB, #RRGGBBAA, or light and dark"
        problems.append((path, "is no colour; \(hint)"))
        return nil
    }

    mutating func read(_ object: JSONObject?, _ path: String, into display: inout NotesStyle.Display) {
        guard let object else { return }
        if let value = object["titleColor"] {
            display.titleColor = color(value, "\(path).titleColor") ?? display.titleColor
        }
        if let value = object["changesColor"] {
            display.changesColor = color(value, "\(path).changesColor") ?? display.changesColor
        }
        if let value = object["titleFont"] { font(value, "\(path).titleFont", into: &display.titleFont) }
        if let value = object["changesFont"] { font(value, "\(path).changesFont", into: &display.changesFont) }
    }

    mutating func font(_ json: JSONValue, _ path: String, into font: inout NotesFont) {
        guard let object = object(json, path, ["family", "size", "weight"]) else { return }
        if let value = object["family"], let family = text(value, "\(path).family") {
            // Nothing that ends a declaration gets into a style sheet.
            let isPlain = family.unicodeScalars.allSatisfy {
                $0.properties.isAlphabetic || "0123456789 -_".unicodeScalars.contains($0)
            }
            if isPlain, family.count <= 64 {
                font.family = family
            } else {
                problems.append(("\(path).family", "is no family's name: letters, digits, spaces, - and _"))
            }
        }
        if let value = object["size"] {
            if let size = Self.number(value), size > 0, size <= 200 {
                font.size = size
            } else {
                problems.append(("\(path).size", "must be a number above 0, at most 200"))
            }
        }
        if let value = object["weight"] {
            if let weight = value.stringValue.flatMap(NotesFont.Weight.init) {
                font.weight = weight
            } else {
                let words = NotesFont.Weight.allCases.map(\.rawValue).joined(separator: ", ")
                problems.append(("\(path).weight", "must be one of \(words)"))
            }
        }
    }

    private static func number(_ json: JSONValue) -> Double? {
        switch json {
        case .integer(let number): Double(number)
        case .double(let number): number
        case .string(let text): Double(text)
        default: nil
        }
    }

    mutating func whatsNew(_ json: JSONValue, _ path: String) -> NotesStyle.WhatsNew? {
        guard let object = object(json, path, ["text", "textColor"]) else { return nil }
        let words = text(object["text"], "\(path).text")
        guard let value = object["textColor"] else {
            problems.append(("\(path).textColor", "is missing"))
            return nil
        }
        let color = color(value, "\(path).textColor")
        guard let words, let color else { return nil }
        return NotesStyle.WhatsNew(text: words, textColor: color)
    }

    mutating func button(_ json: JSONValue) -> NotesStyle.ReviewButton? {
        let path = "submitReviewButtonStatus"
        if json == "notExist" { return nil }
        guard let outer = json.objectValue, outer.count == 1, let inner = outer["exist"] else {
            problems.append((path, "must be \"notExist\", or an object with the single key exist"))
            return nil
        }
        let own = "\(path).exist"
        guard let object = object(inner, own, ["title", "font", "backgroundColor", "textColor"]) else { return nil }
        guard let title = text(object["title"], "\(own).title") else { return nil }
        var button = NotesStyle.ReviewButton(title: title)
        if let value = object["font"] { font(value, "\(own).font", into: &button.font) }
        if let value = object["backgroundColor"] {
            button.backgroundColor = color(value, "\(own).backgroundColor") ?? button.backgroundColor
        }
        if let value = object["textColor"] { button.textColor = color(value, "\(own).textColor") ?? button.textColor }
        return button
    }
}
