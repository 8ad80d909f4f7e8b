import Foundation
import PushCore
import PushQueue

extension FuzzTarget {
    /// JSON text: a value survives being written and read, and skipping accepts what reading accepts.
    static let json = FuzzTarget("json") { bytes in
        guard let value = try? JSONValue(parsing: bytes) else { return }
        let written = value.bytes
        try require(String(validating: written, as: UTF8.self) != nil, "what is written is UTF-8")
        let again = try JSONValue(parsing: written)
        try require(again == value, "a value that was written and read is the same")
        try require(again.bytes == written, "it is written the same again")
        try JSONScanner.scan(bytes) { (scanner) throws(JSONSyntaxError) in try scanner.skip() }
        // A second reader, to which no text must be foreign that the first takes. It refuses numbers beyond a Double.
        guard !String(decoding: bytes, as: UTF8.self).contains(where: { $0 == "e" || $0 == "E" }) else { return }
        try require(
            (try? JSONSerialization.jsonObject(with: Data(written), options: .fragmentsAllowed)) != nil,
            "what is written is JSON to others"
        )
    }

    /// Cursors and ids of the API: every number survives, and so does every text but for its case.
    static let cursor = FuzzTarget("cursor") { bytes in
        let number = bytes.prefix(8).reduce(Int64(0)) { $0 << 8 | Int64($1) } & .max
        let id = NotificationID(rawValue: number)
        try require(NotificationID(id.description) == id, "an id that was written and read is the same")
        try require(id.description.utf8.count == 13, "an id has 13 characters")
        let cursor = DeviceCursor(rawValue: number)
        try require(DeviceCursor(cursor.description) == cursor, "a cursor that was written and read is the same")
        let text = String(decoding: bytes, as: UTF8.self)
        guard let read = DeviceCursor(text) else { return }
        try require(read.rawValue >= 0, "a cursor is not negative")
        try require(read.description == text.uppercased(), "a cursor is written as it was read")
        try require(NotificationID(text)?.rawValue == read.rawValue, "cursors have the form of ids")
    }

    /// Times of day: RFC 3339 in what callers write, HTTP dates in what platforms answer.
    static let time = FuzzTarget("time") { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let time = RFC3339.parse(text) {
            let again = RFC3339.parse(RFC3339.string(time))
            try require(again.map { abs($0.timeIntervalSince(time)) < 0.001 } == true, "a time survives: \(text)")
        }
        if let time = HTTPDate.parse(text) {
            try require(HTTPDate.parse(HTTPDate.text(time)) == time, "an HTTP date survives: \(text)")
        }
    }
}
