/// Any JSON value, for parts whose shape only the user knows (`data`, `overrides`).
///
/// Objects keep their order. Whole numbers that fit 64 bits are exact; every other number becomes a `Double`.
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A whole number that fits 64 bits.
    case integer(Int64)
    /// Any other number.
    case double(Double)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object, in the order of its members; names are unique.
    case object(JSONObject)
}

/// The members of a JSON object, in order.
///
/// A look-up costs the same however many members there are: few are compared one by one, more are found by their
/// hashes.
public struct JSONObject: Hashable, Sendable, ExpressibleByDictionaryLiteral, Sequence {
    /// The most members that are compared one by one.
    static let mostCompared = 16

    /// The members, in order; names are unique.
    public private(set) var members: [(name: String, value: JSONValue)]
    /// The index of more than ``mostCompared`` members; empty for fewer.
    private var index = JSONNameIndex()

    /// Makes an empty object.
    public init() { members = [] }

    /// Makes an object of members in the given order; of a repeated name the last value stays.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        members = []
        for (name, value) in elements { self[name] = value }
    }

    /// Makes an object of members as they were read; the names of the first ``mostCompared`` must be unique.
    ///
    /// Also returns the index of a later member whose name is repeated.
    static func make(_ members: [(name: String, value: JSONValue)]) -> (object: JSONObject, repeated: Int?) {
        var object = JSONObject()
        object.members = members
        let repeated = object.indexMembers()
        return (object, repeated)
    }

    /// The number of members.
    public var count: Int { members.count }
    /// Whether there is no member.
    public var isEmpty: Bool { members.isEmpty }

    /// The value of a member; setting nil removes it, setting a new name appends it.
    ///
    /// Removing a member takes time that grows with the number of members.
    public subscript(name: String) -> JSONValue? {
        get { place(of: name).map { members[$0].value } }
        set {
            switch (place(of: name), newValue) {
            case (let place?, let value?): members[place].value = value
            case (let place?, nil):
                members.remove(at: place)
                _ = indexMembers()
            case (nil, let value?):
                members.append((name, value))
                if index.isEmpty { _ = indexMembers() } else { index.addLast(of: members) }
            case (nil, nil): break
            }
        }
    }

    /// Whether there is a member of this name.
    public func contains(_ name: String) -> Bool { place(of: name) != nil }

    private func place(of name: String) -> Int? {
        index.isEmpty ? members.firstIndex { $0.name == name } : index.place(of: name, in: members)
    }

    private mutating func indexMembers() -> Int? {
        guard members.count > Self.mostCompared else {
            index = JSONNameIndex()
            return nil
        }
        return index.build(members)
    }

    /// Iterates over the members in order.
    public func makeIterator() -> IndexingIterator<[(name: String, value: JSONValue)]> { members.makeIterator() }

    /// Compares the members in any order.
    public static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.count == right.count && left.members.allSatisfy { right[$0.name] == $0.value }
    }

    /// Hashes names only, in no order, which equality allows.
    public func hash(into hasher: inout Hasher) {
        var sum = 0
        for member in members { sum &+= member.name.hashValue }
        hasher.combine(sum)
    }

    /// Returns this object merged with another one, whose fields replace equal ones; objects within objects are merged
    /// in the same way (RFC 7396 without removal).
    public func merging(_ other: JSONObject) -> JSONObject {
        var result = self
        for (name, value) in other {
            if case .object(let mine)? = result[name], case .object(let theirs) = value {
                result[name] = .object(mine.merging(theirs))
            } else {
                result[name] = value
            }
        }
        return result
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByNilLiteral
{
    /// Makes a string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Makes a number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// Makes a Boolean.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// Makes a number.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// Makes an array.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// Makes an object.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var object = JSONObject()
        for (name, value) in elements { object[name] = value }
        self = .object(object)
    }
    /// Makes `null`.
    public init(nilLiteral: ()) { self = .null }

    /// The string; nil for any other value.
    public var stringValue: String? { if case .string(let value) = self { value } else { nil } }
    /// The whole number; nil for any other value.
    public var integerValue: Int64? { if case .integer(let value) = self { value } else { nil } }
    /// The Boolean; nil for any other value.
    public var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The object; nil for any other value.
    public var objectValue: JSONObject? { if case .object(let value) = self { value } else { nil } }
    /// The array; nil for any other value.
    public var arrayValue: [JSONValue]? { if case .array(let value) = self { value } else { nil } }

    /// The value of an object's member; nil for any other value.
    public subscript(name: String) -> JSONValue? { objectValue?[name] }

    /// Parses a whole document.
    public init(parsing bytes: [UInt8]) throws(JSONSyntaxError) {
        self = try JSONScanner.scan(bytes) { (scanner) throws(JSONSyntaxError) in try scanner.value() }
    }

    /// The value as compact JSON text.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// The value as compact JSON in UTF-8.
    public var bytes: [UInt8] {
        var writer = JSONWriter()
        writer.value(self)
        return writer.bytes
    }
}
