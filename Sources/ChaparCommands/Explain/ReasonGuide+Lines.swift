import ChaparComposition

extension ReasonGuide {
    /// The guide as lines, for people.
    var lines: [String] {
        [
            "\(Shell.paint(reason, .bold))  \(source), \(outcome)", "  meaning      \(meaning)",
            "  the gateway  \(gateway)", "  you          \(action)",
        ]
    }
}
