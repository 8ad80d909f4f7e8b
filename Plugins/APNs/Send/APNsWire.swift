import Foundation
import PushCore

/// An answer of APNs, read as defensively as a network with middleboxes asks for.
///
/// An error carries `{"reason": "…", "timestamp": 1767220000123}`; the time, in milliseconds, comes with 410 only.
struct APNsAnswer {
    /// Apple's word, without spaces (one of Apple's tables has `Service Unavailable`); nil when there is none.
    let reason: String?
    /// Since when the token is dead.
    let timestamp: Date?
    /// Whether there is a body that is not Apple's: an HTML page of some device on the way.
    let isForeign: Bool

    init(_ answer: HTTPAnswer) {
        var reason: String?
        var timestamp: Date?
        var isForeign = false
        if !answer.body.isEmpty {
            do throws(JSONSyntaxError) {
                (reason, timestamp) = try JSONScanner.scan(answer.body, Self.read)
            } catch {
                // A body that is cut off is Apple's none the less.
                isForeign = answer.body.first { !Self.isSpace($0) } != UInt8(ascii: "{")
            }
        }
        self.reason = reason
        self.timestamp = timestamp
        self.isForeign = isForeign
    }

    private static func read(_ scanner: inout JSONScanner) throws(JSONSyntaxError) -> (String?, Date?) {
        var reason: String?
        var timestamp: Date?
        try scanner.object { (scanner, name) throws(JSONSyntaxError) in
            switch (name, try scanner.peek()) {
            case ("reason", .string): reason = word(try scanner.string())
            case ("timestamp", .number):
                if case .integer(let milliseconds) = try scanner.number() {
                    timestamp = Date(millisecondsSince1970: milliseconds)
                }
            default: _ = try scanner.value()
            }
        }
        return (reason, timestamp)
    }

    /// A reason fit for a metric label; nil for anything that no platform would use as one.
    private static func word(_ text: String) -> String? {
        let word = text.filter { $0 != " " }
        let isWord =
            (1...64).contains(word.utf8.count)
            && word.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
        return isWord ? word : nil
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
}
