import Foundation
import ChaparCore

/// An answer of APNs.
///
/// It may come from a proxy on the way, so reading never fails.
///
/// An error carries `{"reason": "…", "timestamp": 1767220000123}`; the time, in milliseconds, comes with 410 only.
struct APNsAnswer {
    /// Apple's reason, without spaces (one of Apple's tables has `Service Unavailable`); nil when there is none.
    let reason: String?
    /// The time from which the token is dead.
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
                // A truncated body is still Apple's.
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
            case ("reason", .string): reason = try scanner.string().filter { $0 != " " }.asReasonLabel
            case ("timestamp", .number):
                if case .integer(let milliseconds) = try scanner.number() {
                    timestamp = Date(millisecondsSince1970: milliseconds)
                }
            default: _ = try scanner.value()
            }
        }
        return (reason, timestamp)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
}
