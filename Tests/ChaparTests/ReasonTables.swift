import ChaparComposition
@testable import ChaparCommands

/// The tables of docs/Troubleshooting.md about the reasons of failed attempts.
///
/// A text that many reasons share stands once, in a table of its own, and the rows have its name.
struct ReasonTables {
    /// A text that many reasons share: its name in the tables, and the words that it begins with.
    private typealias Name = (name: String, beginning: String)

    private static let reactions: [Name] = [
        ("not repeated", "Does not repeat it here:"),
        ("parks the backend", "Parks the backend:"),
        ("tries again", "Tries this delivery again, while"),
        ("tries again after 10 s", "Tries this delivery again after 10 s"),
        ("spares the recipient", "Tries again after 60 s or more, and sends nothing else"),
        ("slows down", "Sends one message at a time"),
        ("unknown", "Follows on_unknown of the route. Without one"),
        ("marks the token invalid", "Marks the token invalid: it gets nothing more"),
        ("leaves the backend out", "Leaves this backend out for the token"),
        ("stops the backend", "Believes none of it"),
    ]
    private static let actions: [Name] = [
        ("mend the section", "Mend the backend's section, or the account"),
        ("change the request", "Change the request as the attempt's detail says"),
        ("send less", "Send less:"),
        ("wait", "Nothing; if it lasts, see backends"),
        ("lower rate_limit", "Nothing; if it lasts, set rate_limit"),
        ("look at the device", "Nothing for one device; send it less"),
        ("doctor, if it lasts", "Nothing for one message. If it lasts, run doctor"),
        ("compare the environment", "Compare the backend's environment, app and project"),
        ("nothing, unless many", "Nothing: the app registers again at its next start. For many"),
        ("decide", "Compare environment, topic and project"),
    ]
    /// The number of rows from which on a text must have a name.
    private static let shared = 3

    private let guides: [ReasonGuide]

    init(_ guides: [ReasonGuide]) { self.guides = guides }

    /// The lines of the table of a source's reasons.
    func rows(of source: String) -> [String] {
        [
            "| reason | outcome | what it means | what the gateway does | what you do |",
            "| --- | --- | --- | --- | --- |",
        ]
            + guides.filter { $0.source == source }.map { guide in
                let cells = [
                    guide.outcome, guide.meaning,
                    Self.short(guide.gateway, Self.reactions), Self.short(guide.action, Self.actions),
                ]
                return "| `\(guide.reason)` | \(cells.map(Self.cell).joined(separator: " | ")) |"
            }
    }

    /// The lines of the table of the reactions that many reasons share.
    var reactionRows: [String] {
        ["| the gateway | this is |", "| --- | --- |"] + texts(\.gateway, Self.reactions)
    }

    /// The lines of the table of the actions that many reasons share.
    var actionRows: [String] { ["| you | this is |", "| --- | --- |"] + texts(\.action, Self.actions) }

    /// The texts that stand in several rows and have no name, and the names of no text or of two.
    var faults: [String] {
        func faults(_ text: KeyPath<ReasonGuide, String>, _ names: [Name]) -> [String] {
            let counts = Dictionary(grouping: guides.map { $0[keyPath: text] }, by: { $0 }).mapValues(\.count)
            let long = counts.filter { text, count in
                count >= Self.shared && text.count > 40 && Self.short(text, names) == text
            }
            return long.keys.map { "no name: \($0)" }
                + names.filter { name in counts.keys.filter { $0.hasPrefix(name.beginning) }.count != 1 }
                .map { "not one text: \($0.beginning)" }
        }
        return faults(\.gateway, Self.reactions) + faults(\.action, Self.actions)
    }

    private func texts(_ text: KeyPath<ReasonGuide, String>, _ names: [Name]) -> [String] {
        names.compactMap { name in
            guides.map { $0[keyPath: text] }.first { $0.hasPrefix(name.beginning) }
                .map { "| *\(name.name)* | \(Self.cell($0)) |" }
        }
    }

    private static func short(_ text: String, _ names: [Name]) -> String {
        names.first { text.hasPrefix($0.beginning) }.map { "*\($0.name)*" } ?? text
    }

    /// Returns a text as it stands in a cell of a table.
    private static func cell(_ text: String) -> String { text.replacing("|", with: "\\|").replacing("\n", with: " ") }
}
