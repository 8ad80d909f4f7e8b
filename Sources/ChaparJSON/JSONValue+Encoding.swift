package import Foundation

/// JSON values made from Swift values, for payloads that an app decodes with its own types.
extension JSONValue {
    /// Makes the value that `JSONEncoder` writes with its default settings, which `JSONDecoder` reads with its own:
    /// dates are seconds since 2001, keys stay as they are.
    ///
    /// Members of objects are sorted by name; a ``JSONValue`` stays unchanged.
    ///
    /// Throws the error of the value's `encode(to:)`, and `EncodingError` for values that JSON cannot represent (an
    /// infinite number).
    public init(encoding value: some Encodable) throws {
        if let value = value as? JSONValue {
            self = value
            return
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        self = try JSONValue(parsing: Array(encoder.encode(value)))
    }

    /// Returns a number, as an integer if it is whole.
    package static func number(_ value: Double) -> JSONValue {
        Int64(exactly: value).map { .integer($0) } ?? .double(value)
    }

    /// Returns whole seconds since 1970.
    ///
    /// Times too far away for a `Date` to be exact to the second are limited to that range.
    package static func seconds(_ date: Date) -> JSONValue {
        let limit: Double = 9_000_000_000_000_000
        let seconds = date.timeIntervalSince1970.rounded(.down)
        return .integer(seconds.isNaN ? 0 : Int64(clamping: min(max(seconds, -limit), limit)))
    }

    /// Returns an array of texts.
    package static func texts(_ values: [String]) -> JSONValue { .array(values.map { .string($0) }) }

    /// Returns a map of texts, sorted by name.
    package static func texts(_ values: [String: String]) -> JSONValue {
        var object = JSONObject()
        for (name, value) in values.sorted(by: { $0.key < $1.key }) { object[name] = .string(value) }
        return .object(object)
    }

    /// Returns a span in the form of Google and Huawei: `3600s`, `0.5s`.
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
