import Foundation
import ChaparCore

/// An answer of Chabok: one of the four shapes of a success, or the error of the LoopBack server behind it.
///
/// Reading never fails: a body that cannot be read leaves only the status.
struct ChabokAnswer: Sendable {
    /// A LoopBack error, as far as it can be read.
    struct Fault: Sendable, Hashable {
        var name: String?
        var code: String?
        var text: String?
    }

    /// One entry of a success.
    struct Entry: Sendable, Hashable {
        var id: String?
        /// The number of devices that were addressed.
        var count: Int?
    }

    /// `error.statusCode`, else `error.status`, else that of HTTP.
    let status: Int
    let json: JSONValue?
    let fault: Fault?
    let retryAfter: Duration?

    init(_ answer: HTTPAnswer, retryAfter: Duration?) {
        json = try? JSONValue(parsing: answer.body)
        self.retryAfter = retryAfter
        guard !(200..<300).contains(answer.status) else {
            status = answer.status
            fault = nil
            return
        }
        let error = json?["error"]
        let own = error?["statusCode"]?.integerValue ?? error?["status"]?.integerValue
        status = own.flatMap { (400...599).contains($0) ? Int($0) : nil } ?? answer.status
        var text = error?["message"]?.stringValue ?? error?.stringValue
        let codes = error?["details"]?["codes"]?.objectValue?.members.map(\.name) ?? []
        if !codes.isEmpty { text = "\(text ?? "invalid") (\(codes.joined(separator: ", ")))" }
        fault = Fault(
            name: error?["name"]?.stringValue,
            code: error?["code"]?.stringValue,
            text: text.map { String($0.prefix(300)) }
        )
    }

    var isSuccess: Bool { (200..<300).contains(status) && fault == nil }

    /// The entries of a success: `{count}`, `{id,count}`, an array of these, `{ids}`; nil when the body is no JSON.
    var entries: [Entry]? {
        guard let json else { return nil }
        if let list = json.arrayValue { return list.map(Self.entry) }
        if let ids = json["ids"]?.arrayValue {
            return ids.map { Entry(id: Self.text($0), count: nil) }
        }
        return [Self.entry(json)]
    }

    /// The number of devices that were addressed, over all entries; nil when no entry has it.
    var count: Int? {
        let counts = (entries ?? []).compactMap(\.count)
        return counts.isEmpty ? nil : counts.reduce(0) { $0.adding(clamping: $1) }
    }

    private static func entry(_ json: JSONValue) -> Entry {
        Entry(id: text(json["id"]), count: json["count"]?.integerValue.map { Int(count: $0) })
    }

    /// Returns a text, or a number as text; nil for an empty text or any other value.
    static func text(_ value: JSONValue?) -> String? {
        switch value {
        case .string(let text)?: text.isEmpty ? nil : text
        case .integer(let number)?: String(number)
        default: nil
        }
    }
}

/// Times as Chabok writes them: milliseconds since 1970, or ISO 8601.
enum ChabokTime {
    static func read(_ value: JSONValue?) -> Date? {
        switch value {
        case .integer(let milliseconds)?: Date(millisecondsSince1970: milliseconds)
        case .double(let milliseconds)? where abs(milliseconds) < 1e15:
            Date(millisecondsSince1970: Int64(clamping: milliseconds))
        case .string(let text)?: RFC3339.parse(text) ?? Int64(text).map { Date(millisecondsSince1970: $0) }
        default: nil
        }
    }
}
