import Foundation
import ChaparCore
public import ChaparIDPush

extension IDPushAction {
    /// Makes ``setTags(tags:)`` of a dictionary of any values, as the seed does.
    ///
    /// A value without a form in JSON is sent as the text that describes it.
    @_disfavoredOverload
    public static func setTags(tags: [String: Any]) -> IDPushAction { .setTags(tags: JSONObject(plain: tags)) }

    /// Makes ``editDevice(parameters:)`` of a dictionary of any values, as the seed does.
    ///
    /// A value without a form in JSON is sent as the text that describes it.
    @_disfavoredOverload
    public static func editDevice(parameters: [String: Any]) -> IDPushAction {
        .editDevice(parameters: JSONObject(plain: parameters))
    }
}

extension JSONObject {
    /// Makes an object of a dictionary of anything, in the order of the names.
    init(plain dictionary: [String: Any]) {
        self.init()
        for (name, value) in dictionary.sorted(by: { $0.key < $1.key }) { self[name] = JSONValue(plain: value) }
    }
}

extension JSONValue {
    /// Makes a JSON value of any value; one without a form in JSON becomes the text that describes it.
    init(plain value: Any) {
        switch value {
        case let value as JSONValue: self = value
        case let value as JSONObject: self = .object(value)
        case let value as Bool: self = .bool(value)
        case let value as any BinaryInteger: self = Int64(exactly: value).map { .integer($0) } ?? .string("\(value)")
        case let value as Double: self = .double(value)
        case let value as Float: self = .double(Double(value))
        case let value as any StringProtocol: self = .string(String(value))
        case let value as [Any]: self = .array(value.map { JSONValue(plain: $0) })
        case let value as [String: Any]: self = .object(JSONObject(plain: value))
        case is NSNull: self = .null
        default:
            // A nil in a dictionary of anything is an optional in disguise.
            let mirror = Mirror(reflecting: value)
            guard mirror.displayStyle == .optional else {
                self = .string(String(describing: value))
                return
            }
            self = mirror.children.first.map { JSONValue(plain: $0.value) } ?? .null
        }
    }

    /// The value in Swift's own types: `[String: Any]`, `[Any]`, `String`, `Int`, `Double`, `Bool`, `NSNull`.
    var plain: Any {
        switch self {
        case .null: return NSNull()
        case .bool(let value): return value
        case .integer(let value): return Int(value)
        case .double(let value): return value
        case .string(let value): return value
        case .array(let values): return values.map(\.plain)
        case .object(let object):
            var dictionary: [String: Any] = [:]
            for (name, value) in object { dictionary[name] = value.plain }
            return dictionary
        }
    }
}
