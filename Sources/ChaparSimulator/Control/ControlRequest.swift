internal import Foundation
package import ChaparCore

/// A call to the control API.
package struct ControlRequest: Sendable {
    package var method: String
    package var path: String
    package var query: [String: String] = [:]
    package var body: [UInt8] = []

    package init(method: String, target: String, body: [UInt8] = []) {
        self.method = method
        self.body = body
        let parts = target.split(separator: "?", maxSplits: 1)
        path = parts.first.map(String.init) ?? "/"
        guard parts.count == 2 else { return }
        for pair in parts[1].split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            query[String(sides[0])] = sides.count == 2 ? sides[1].removingPercentEncoding ?? String(sides[1]) : ""
        }
    }
}

extension ControlRequest {
    /// Returns the call without its first path component; nil when that is another one.
    package func under(_ component: String) -> ControlRequest? {
        guard path == "/" + component || path.hasPrefix("/" + component + "/") else { return nil }
        var call = self
        call.path = String(path.dropFirst(component.count + 1))
        if call.path.isEmpty { call.path = "/" }
        return call
    }

    /// Returns the body as JSON; an empty body is an empty object.
    package func json() throws(ControlError) -> JSONValue {
        if body.isEmpty { return [:] }
        do {
            return try JSONValue(parsing: body)
        } catch {
            throw ControlError("\(error)")
        }
    }
}

/// The error of a call that the control API cannot carry out.
package struct ControlError: Error {
    package let status: Int
    package let message: String

    package init(_ message: String, status: Int = 400) {
        self.status = status
        self.message = message
    }
}

/// The members of a JSON object, removed one by one, so that a misspelt name is found and reported.
package struct ControlFields {
    private var rest: JSONObject
    private let place: String

    /// The largest absolute value of a number; a larger one is clamped, so that sums of requested values fit an `Int`.
    private static let largest: Int64 = 1 << 48

    package init(_ value: JSONValue, in place: String) throws(ControlError) {
        guard let object = value.objectValue else { throw ControlError("\(place): expected an object") }
        rest = object
        self.place = place
    }

    package mutating func remove(_ name: String) -> JSONValue? {
        defer { rest[name] = nil }
        return rest[name] == .null ? nil : rest[name]
    }

    package mutating func string(_ name: String) throws(ControlError) -> String? {
        try remove(name).map { (value) throws(ControlError) in
            guard let text = value.stringValue else { throw wrong(name, "a string") }
            return text
        }
    }

    package mutating func integer(_ name: String) throws(ControlError) -> Int? {
        try remove(name).map { (value) throws(ControlError) in
            guard let number = value.integerValue else { throw wrong(name, "a whole number") }
            return Int(min(max(number, -Self.largest), Self.largest))
        }
    }

    package mutating func number(_ name: String) throws(ControlError) -> Double? {
        try remove(name).map { (value) throws(ControlError) in
            switch value {
            case .integer(let number): return Double(number)
            case .double(let number): return number
            default: throw wrong(name, "a number")
            }
        }
    }

    package mutating func bool(_ name: String) throws(ControlError) -> Bool? {
        try remove(name).map { (value) throws(ControlError) in
            guard let flag = value.boolValue else { throw wrong(name, "true or false") }
            return flag
        }
    }

    package mutating func seconds(_ name: String) throws(ControlError) -> Duration? {
        try number(name).map { .seconds(clamping: $0) }
    }

    package mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ name: String,
        _ type: Choice.Type
    ) throws(ControlError) -> Choice? where Choice.RawValue == String {
        try string(name).map { (text) throws(ControlError) in
            guard let choice = Choice(rawValue: text) else {
                throw wrong(name, "one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "))
            }
            return choice
        }
    }

    package func require<Value>(_ value: Value?, _ name: String) throws(ControlError) -> Value {
        guard let value else { throw ControlError("\(place).\(name): missing") }
        return value
    }

    /// Throws when a member is left.
    package func finish() throws(ControlError) {
        if let name = rest.members.first?.name { throw ControlError("\(place).\(name): unknown") }
    }

    package func wrong(_ name: String, _ expected: String) -> ControlError {
        ControlError("\(place).\(name): expected \(expected)")
    }
}
