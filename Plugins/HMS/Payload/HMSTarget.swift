/// The recipients of a request.
enum HMSTarget: Sendable {
    /// Device tokens, each once.
    case tokens([String])
    /// The devices that joined a topic.
    case topic(String)
    /// The devices for which an expression over topics holds.
    case condition(String)

    /// Whether the number of recipients is unknown.
    var isAudience: Bool { if case .tokens = self { false } else { true } }

    /// Whether a text can be a topic's name: 1 to 900 of the characters that a URL leaves alone, `%`, and Chinese ones.
    static func isName(_ text: String) -> Bool {
        (1...900).contains(text.unicodeScalars.count)
            && text.unicodeScalars.allSatisfy {
                switch $0 {
                case "a"..."z", "A"..."Z", "0"..."9", "-", "_", ".", "~", "%": true
                default: $0.properties.isIdeographic
                }
            }
    }

    static let badTopic =
        "A topic's name has 1 to 900 letters, Latin or Chinese, digits and -_.~%; a condition is like 'news' in topics."

    /// Returns the target of a topic recipient, which is a name or an expression such as `'a' in topics || 'b' in
    /// topics`; nil for another text.
    static func topics(_ text: String) -> HMSTarget? {
        if isName(text) { return .topic(text) }
        guard text.contains("' in topics"), text.utf8.count <= 4096 else { return nil }
        let isBalanced = text.reduce(into: (depth: 0, isFine: true)) { state, character in
            if character == "(" { state.depth += 1 }
            if character == ")" { state.depth -= 1 }
            if state.depth < 0 { state.isFine = false }
        }
        return isBalanced.isFine && isBalanced.depth == 0 ? .condition(text) : nil
    }
}
