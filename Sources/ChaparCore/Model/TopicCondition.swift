/// A condition about topics, which FCM and HMS take in the place of a topic: `'news' in topics && !('de' in topics)`.
///
/// This type reads a condition to find out whether it addresses every user. Whether the platform accepts the condition,
/// its plugin checks.
package struct TopicCondition: Sendable, Hashable {
    /// The longest text, in bytes.
    package static let maximumBytes = 5_000
    private static let maximumDepth = 32

    private indirect enum Node: Sendable, Hashable {
        case topic(String)
        case not(Node)
        /// Operands with the operator before each but the first; true is `&&`.
        case row(Node, [Term])
    }

    private struct Term: Sendable, Hashable {
        var isAnd: Bool
        var operand: Node
    }

    private let root: Node
    /// The topics that it names, in order and with repetitions.
    package let topics: [String]

    /// Whether a text given as a topic is meant as a condition: no topic name contains quotes and `in topics`.
    package static func isMeant(by text: String) -> Bool {
        text.contains { $0 == "'" || $0 == "\"" } && text.filter { !$0.isWhitespace }.contains("intopics")
    }

    /// Reads a condition; nil for anything else, and for one that is too long or too deep.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        var reader = Reader(text)
        guard let root = reader.row(depth: 0), reader.isAtEnd else { return nil }
        self.root = root
        topics = reader.topics
    }

    /// Whether the condition holds for a user who has joined the given topics.
    ///
    /// FCM documents that parentheses are evaluated first and everything else from left to right. Other platforms may
    /// evaluate `&&` before `||`. This function returns true if the condition holds in at least one of these two ways.
    package func holds(_ isJoined: (String) -> Bool) -> Bool {
        [false, true].contains { Self.value(of: root, bindsAnd: $0, isJoined) }
    }

    private static func value(of node: Node, bindsAnd: Bool, _ isJoined: (String) -> Bool) -> Bool {
        switch node {
        case .topic(let name): return isJoined(name)
        case .not(let operand): return !value(of: operand, bindsAnd: bindsAnd, isJoined)
        case .row(let first, let terms):
            var (whole, group) = (false, value(of: first, bindsAnd: bindsAnd, isJoined))
            for term in terms {
                let next = value(of: term.operand, bindsAnd: bindsAnd, isJoined)
                if term.isAnd {
                    group = group && next
                } else if bindsAnd {
                    (whole, group) = (whole || group, next)
                } else {
                    group = group || next
                }
            }
            return whole || group
        }
    }

    /// Reads by recursive descent.
    private struct Reader {
        private let bytes: [UInt8]
        private var index = 0
        private(set) var topics: [String] = []

        init(_ text: String) { bytes = Array(text.utf8) }

        var isAtEnd: Bool { bytes[index...].allSatisfy { $0 == 0x20 } }

        mutating func row(depth: Int) -> Node? {
            guard depth < TopicCondition.maximumDepth, let first = operand(depth) else { return nil }
            var terms: [Term] = []
            while true {
                let isAnd = consume("&&")
                guard isAnd || consume("||") else { break }
                guard let operand = operand(depth) else { return nil }
                terms.append(Term(isAnd: isAnd, operand: operand))
            }
            return terms.isEmpty ? first : .row(first, terms)
        }

        private mutating func operand(_ depth: Int) -> Node? {
            var isNegated = false
            while consume("!") { isNegated.toggle() }
            let operand: Node?
            if consume("(") {
                let row = row(depth: depth + 1)
                operand = consume(")") ? row : nil
            } else {
                operand = topic()
            }
            return isNegated ? operand.map { .not($0) } : operand
        }

        private mutating func topic() -> Node? {
            skipBlanks()
            guard index < bytes.count, bytes[index] == UInt8(ascii: "'") || bytes[index] == UInt8(ascii: "\"") else {
                return nil
            }
            let start = index + 1
            guard let end = bytes[start...].firstIndex(of: bytes[index]), end > start else { return nil }
            index = end + 1
            guard consume("in"), consume("topics") else { return nil }
            let name = String(decoding: bytes[start..<end], as: UTF8.self)
            topics.append(name)
            return .topic(name)
        }

        private mutating func consume(_ word: String) -> Bool {
            skipBlanks()
            guard bytes[index...].starts(with: word.utf8) else { return false }
            index += word.utf8.count
            return true
        }

        private mutating func skipBlanks() {
            while index < bytes.count, bytes[index] == 0x20 { index += 1 }
        }
    }
}
