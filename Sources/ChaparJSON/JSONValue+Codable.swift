/// JSON values in any coder, for code whose own values are `Codable`.
///
/// The order of an object's members is the coder's; a whole number that fits 64 bits stays whole.
extension JSONValue: Codable {
    /// The number as a `Double`; nil for any other value.
    public var numberValue: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    /// Reads a value; tries Booleans before numbers, since some coders confuse them.
    public init(from decoder: any Decoder) throws {
        let single = try decoder.singleValueContainer()
        if single.decodeNil() {
            self = .null
        } else if let value = try? single.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? single.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? single.decode(Double.self) {
            self = .double(value)
        } else if let value = try? single.decode(String.self) {
            self = .string(value)
        } else if let values = try? single.decode([JSONValue].self) {
            self = .array(values)
        } else {
            var object = JSONObject()
            for (name, value) in try single.decode([String: JSONValue].self).sorted(by: { $0.key < $1.key }) {
                object[name] = value
            }
            self = .object(object)
        }
    }

    /// Writes the value.
    public func encode(to encoder: any Encoder) throws {
        var single = encoder.singleValueContainer()
        switch self {
        case .null: try single.encodeNil()
        case .bool(let value): try single.encode(value)
        case .integer(let value): try single.encode(value)
        case .double(let value): try single.encode(value)
        case .string(let value): try single.encode(value)
        case .array(let values): try single.encode(values)
        case .object(let object):
            try single.encode(Dictionary(uniqueKeysWithValues: object.map { ($0.name, $0.value) }))
        }
    }
}
