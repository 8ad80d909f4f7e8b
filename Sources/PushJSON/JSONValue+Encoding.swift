package import Foundation

/// JSON values made of Swift values, for payloads that an app decodes with its own types.
extension JSONValue {
    /// The value as `JSONEncoder` writes it with its default settings, which is what `JSONDecoder` reads with its own:
    /// dates are seconds since 2001, keys stay as they are.
    ///
    /// Members of objects are in the order of their names; a ``JSONValue`` stays as it is.
    ///
    /// Throws what the value's `encode(to:)` throws, and `EncodingError` for what JSON cannot hold (an infinite
    /// number).
    public init(encoding value: some Encodable) throws {
        if let value = value as? JSONValue {
            self = value
            return
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        self = try JSONValue(parsing: Array(encoder.encode(value)))
    }

    /// A number, whole where it is.
    package static func number(_ value: Double) -> JSONValue {
        Int64(exactly: value).map { .integer($0) } ?? .double(value)
    }

    /// Whole seconds since 1970.
    ///
    /// Times beyond what a `Date` can tell apart to the second are brought into that range.
    package static func seconds(_ date: Date) -> JSONValue {
        let limit: Double = 9_000_000_000_000_000
        let seconds = date.timeIntervalSince1970.rounded(.down)
        return .integer(seconds.isNaN ? 0 : Int64(clamping: min(max(seconds, -limit), limit)))
    }

    /// Texts.
    package static func texts(_ values: [String]) -> JSONValue { .array(values.map { .string($0) }) }

    /// A map of texts, in the order of its names.
    package static func texts(_ values: [String: String]) -> JSONValue {
        var object = JSONObject()
        for (name, value) in values.sorted(by: { $0.key < $1.key }) { object[name] = .string(value) }
        return .object(object)
    }

    /// A span as Google and Huawei write it: `3600s`, `0.5s`.
    package static func span(_ duration: Duration) -> JSONValue {
        let (seconds, attoseconds) = duration.components
        let nanoseconds = attoseconds.magnitude / 1_000_000_000
        guard nanoseconds > 0 else { return .string("\(seconds)s") }
        var fraction = String(nanoseconds + 1_000_000_000).dropFirst()
        while fraction.last == "0" { fraction.removeLast() }
        let sign = duration < .zero && seconds == 0 ? "-" : ""
        return .string("\(sign)\(seconds).\(fraction)s")
    }
}
