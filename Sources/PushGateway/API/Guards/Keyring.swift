internal import Crypto
internal import HTTPTypes
internal import Hummingbird

/// The API keys of a configuration, ready to be compared with what a request brings.
struct Keyring: Sendable {
    private struct Key: Sendable {
        let name: String
        let hash: [UInt8]
        let scopes: Set<GatewayConfiguration.APIKey.Scope>
    }

    private let keys: [Key]

    /// Makes a keyring.
    ///
    /// A hash that is not 64 hexadecimal digits opens nothing.
    init(_ configured: [GatewayConfiguration.APIKey]) {
        keys = configured.map { Key(name: $0.name, hash: Self.bytes(hexadecimal: $0.sha256), scopes: $0.scopes) }
    }

    /// Whether no key is configured: then everybody who reaches the gateway may do everything.
    var isEmpty: Bool { keys.isEmpty }

    /// Lets a request through, or says why not.
    ///
    /// The result is the name of its key, empty without keys.
    func admit(_ authorization: String?, _ access: Endpoint.Access) throws(Problem) -> String {
        if keys.isEmpty || access == .open { return "" }
        guard let authorization else { throw Self.unauthorized("An API key is needed.", error: nil) }
        guard let presented = Self.bearer(authorization) else {
            throw Self.unauthorized("Write Authorization: Bearer, then the API key.", error: "invalid_request")
        }
        guard let key = find(presented) else {
            throw Self.unauthorized("The API key is not known.", error: "invalid_token")
        }
        if case .scope(let scope) = access, !key.scopes.contains(scope), !key.scopes.contains(.admin) {
            throw Self.forbidden(scope)
        }
        return key.name
    }

    /// Looks at every key, whether or not one was found: the time it takes tells nothing.
    private func find(_ presented: Substring) -> Key? {
        let hash = SHA256.hash(data: Array(presented.utf8))
        var found: Key?
        for key in keys where Self.isEqual(hash, key.hash) { found = key }
        return found
    }

    private static func isEqual(_ left: SHA256.Digest, _ right: [UInt8]) -> Bool {
        guard right.count == SHA256.Digest.byteCount else { return false }
        return left.withUnsafeBytes { left in
            var difference: UInt8 = 0
            for place in 0..<SHA256.Digest.byteCount { difference |= left[place] ^ right[place] }
            return difference == 0
        }
    }

    private static func bearer(_ field: String) -> Substring? {
        guard field.prefix(7).lowercased() == "bearer " else { return nil }
        let key = field.dropFirst(7).drop { $0 == " " }
        return key.isEmpty ? nil : key
    }

    private static func unauthorized(_ detail: String, error: String?) -> Problem {
        var problem = Problem(.unauthorized, "unauthorized", "Not authorised", detail: detail)
        problem.headers[.wwwAuthenticate] = "Bearer realm=\"chapar\"" + (error.map { ", error=\"\($0)\"" } ?? "")
        return problem
    }

    private static func forbidden(_ scope: GatewayConfiguration.APIKey.Scope) -> Problem {
        var problem = Problem(
            .forbidden,
            "forbidden",
            "The API key may not do this",
            detail: "It lacks the scope \"\(scope.rawValue)\"."
        )
        problem.headers[.wwwAuthenticate] =
            "Bearer realm=\"chapar\", error=\"insufficient_scope\", scope=\"\(scope.rawValue)\""
        return problem
    }

    private static func bytes(hexadecimal text: String) -> [UInt8] {
        let digits = text.compactMap { $0.hexDigitValue.map { UInt8($0) } }
        guard digits.count == text.count, digits.count == 2 * SHA256.Digest.byteCount else { return [] }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
