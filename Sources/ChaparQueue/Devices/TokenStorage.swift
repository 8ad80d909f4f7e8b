internal import Foundation
package import ChaparCore

extension TokenHash {
    /// Returns the number of a token.
    package static func of(_ token: DeviceToken) -> Int64 { of(token.service.rawValue, token.value) }
}

extension BackendRefusal {
    /// Returns a list in the form that stores keep: backend, reason and time of each; nil for an empty one.
    package static func stored(_ list: [BackendRefusal]) -> String? {
        guard !list.isEmpty else { return nil }
        return JSONValue.array(
            list.map { [.string($0.backend), .string($0.reason), .integer($0.asOf.millisecondsSince1970)] }
        ).text
    }

    /// Reads ``stored(_:)``, and skips malformed items.
    package static func list(stored: [UInt8]) -> [BackendRefusal] {
        guard case .array(let list)? = try? JSONValue(parsing: stored) else { return [] }
        return list.compactMap { item in
            guard case .array(let parts) = item, parts.count == 3, let backend = parts[0].stringValue,
                let reason = parts[1].stringValue, let asOf = parts[2].integerValue
            else { return nil }
            return BackendRefusal(backend: backend, reason: reason, asOf: Date(millisecondsSince1970: asOf))
        }
    }
}
