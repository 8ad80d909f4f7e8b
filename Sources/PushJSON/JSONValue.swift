/// Any JSON value: what users may put where only they know the shape (`data`, `overrides`).
///
/// Objects keep their order; a number keeps the text it came with, so that nothing is rounded on the way through.
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number that fits 64 bits.
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
/// Looking a member up costs the same however many there are: few are compared one by one, more are found by their
/// hashes.
public struct JSONObject: Hashable, Sendable, ExpressibleByDictionaryLiteral, Sequence {
    /// The most members that are compared one by one.
    static let mostCompared = 16

    /// The members, in order; names are unique.
    public private(set) var members: [(name: String, value: JSONValue)]
    /// Finds more than ``mostCompared`` members; empty for fewer.
    private var index = JSONNameIndex()

    /// An empty object.
    public init() { members = [] }

    /// Members in the given order; of a repeated name the last value stays.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        members = []
        for (name, value) in elements { self[name] = value }
    }

    /// Members as they were read, of which the first ``mostCompared`` have names of their own.
    ///
    /// Gives the place of a later one whose name is repeated instead.
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
    /// Removing one costs as much as there are members.
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

    /// Equal members in any order.
    public static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.count == right.count && left.members.allSatisfy { right[$0.name] == $0.value }
    }

    /// Hashes names only, in no order, which equality allows.
    public func hash(into hasher: inout Hasher) {
        var sum = 0
        for member in members { sum &+= member.name.hashValue }
        hasher.combine(sum)
    }

    /// This object with the other's members laid over it, objects within objects likewise (RFC 7396 without removal).
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
    /// A string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A number.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A number.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// An array.
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        var object = JSONObject()
        for (name, value) in elements { object[name] = value }
        self = .object(object)
    }
    /// `null`.
    public init(nilLiteral: ()) { self = .null }

    /// The string, when it is one.
    public var stringValue: String? { if case .string(let value) = self { value } else { nil } }
    /// The number, when it is a whole one.
    public var integerValue: Int64? { if case .integer(let value) = self { value } else { nil } }
    /// The truth value, when it is one.
    public var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The object, when it is one.
    public var objectValue: JSONObject? { if case .object(let value) = self { value } else { nil } }
    /// The array, when it is one.
    public var arrayValue: [JSONValue]? { if case .array(let value) = self { value } else { nil } }

    /// A member of an object, nil for anything else.
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
