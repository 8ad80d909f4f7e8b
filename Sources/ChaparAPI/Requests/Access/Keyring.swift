internal import Crypto
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparCore

/// The API keys of a configuration, prepared for comparison with those of requests.
///
/// Made with each ``APISnapshot``, which uses it to admit requests. It holds hashes, never keys, and compares them in
/// constant time.
package struct Keyring: Sendable {
    private struct Key: Sendable {
        let caller: Caller
        let hashes: [[UInt8]]
        let notAfter: Date?
    }

    private let keys: [Key]
    /// Whether every caller may do everything: `auth.keyless`, and no key.
    package let isKeyless: Bool
    /// The caller with the dashboard's token; nil unless the only key is the first one.
    private let watcher: Caller?
    private let dashboard: DashboardAccess

    /// Makes a keyring.
    ///
    /// A hash that is not 64 hexadecimal digits is never matched.
    init(_ gateway: GatewaySnapshot, uses: KeyUses, dashboard: DashboardAccess, at steady: Date) {
        self.dashboard = dashboard
        let configuration = gateway.configuration
        let share = configuration.queueShare
        keys = configuration.apiKeys.map { key in
            let use = uses.use(of: key.name)
            use.limit(perSecond: key.requestsPerSecond ?? configuration.limits.requestsPerSecond, at: steady)
            return Key(
                caller: Caller(
                    name: key.name,
                    scopes: key.scopes,
                    view: gateway.seen(by: key),
                    queueShare: key.queueShare ?? share,
                    maximumAudience: key.maximumAudience,
                    use: use
                ),
                hashes: key.hashes.map { Self.bytes(hexadecimal: $0) },
                notAfter: key.notAfter
            )
        }
        isKeyless = configuration.isKeyless && keys.isEmpty
        watcher = configuration.apiKeys.first { $0.isFirst }.map { key in
            Caller(name: key.name, scopes: [.read], queueShare: share, use: uses.use(of: key.name))
        }
    }

    /// Admits a request, or throws the reason why not; with an address, only keys that were used successfully from
    /// there lately are compared.
    func admit(
        _ authorization: String?,
        _ access: Route.Access,
        onlyKnownFrom peer: PeerAddress? = nil,
        at now: (wall: Date, steady: Date)
    ) throws(Problem) -> Caller {
        if access == .open { return .stranger }
        if isKeyless { return .everybody }
        guard let authorization else { throw .unauthorized("An API key is needed." + whereItIs, error: nil) }
        guard let presented = Self.bearer(authorization) else {
            throw .unauthorized("Write Authorization: Bearer, then the API key.", error: "invalid_request")
        }
        let candidates = peer.map { peer in
            keys.filter { $0.caller.use?.peers.contains(peer, at: now.steady) ?? false }
        }
        guard let key = Self.find(presented, among: candidates ?? keys) else {
            if let watcher = watcher(presented, onlyKnownFrom: peer, at: now.steady) {
                return try Self.permit(watcher, access)
            }
            throw .unauthorized("The API key is not known.", error: "invalid_token")
        }
        if let notAfter = key.notAfter, now.wall > notAfter {
            var problem = Problem.unauthorized("The API key has expired.", error: "invalid_token")
            problem.keyName = key.caller.name
            throw problem
        }
        key.caller.use?.markUsed(second: Int(clamping: now.wall.timeIntervalSince1970))
        return try Self.permit(key.caller, access)
    }

    /// Returns the caller, unless its key lacks the scope.
    private static func permit(_ caller: Caller, _ access: Route.Access) throws(Problem) -> Caller {
        // No list of scopes is made here: this runs for each request.
        let lacking: GatewayConfiguration.APIKey.Scope? =
            switch access {
            case .open, .anyKey: nil
            case .scope(let scope): caller.has(scope) ? nil : scope
            case .either(let first, let second): caller.has(first) || caller.has(second) ? nil : first
            }
        if let scope = lacking {
            var problem = Problem.lacks(scope)
            problem.keyName = caller.name
            throw problem
        }
        return caller
    }

    /// Returns the caller of the dashboard's token; nil for any other text.
    private func watcher(_ presented: Substring, onlyKnownFrom peer: PeerAddress?, at steady: Date) -> Caller? {
        guard let watcher, peer.map({ watcher.use?.peers.contains($0, at: steady) ?? false }) ?? true,
            dashboard.opens(presented, at: steady)
        else { return nil }
        return watcher
    }

    /// Whether the only key is the one that the program made.
    var hasFirstKey: Bool { watcher != nil }

    /// A hint where to find the missing key, without the path of a file, which a stranger need not know.
    private var whereItIs: String {
        if watcher != nil { return " The gateway made a first one: its log names the file." }
        return keys.isEmpty ? " None is configured: see auth.api_keys." : ""
    }

    /// Compares with every key, even after a match, so that the duration reveals nothing.
    private static func find(_ presented: Substring, among keys: [Key]) -> Key? {
        let hash = SHA256.hash(data: Array(presented.utf8))
        var found: Key?
        for key in keys {
            for own in key.hashes where isEqual(hash, own) { found = key }
        }
        return found
    }

    /// Compares in constant time.
    static func isEqual(_ left: SHA256.Digest, _ right: [UInt8]) -> Bool {
        guard right.count == SHA256.Digest.byteCount else { return false }
        return left.withUnsafeBytes { left in
            var difference: UInt8 = 0
            for position in 0..<SHA256.Digest.byteCount { difference |= left[position] ^ right[position] }
            return difference == 0
        }
    }

    private static func bearer(_ field: String) -> Substring? {
        guard field.prefix(7).lowercased() == "bearer " else { return nil }
        let key = field.dropFirst(7).drop { $0 == " " }
        return key.isEmpty ? nil : key
    }

    private static func bytes(hexadecimal text: String) -> [UInt8] {
        let digits = text.compactMap { $0.hexDigitValue.map { UInt8(clamping: $0) } }
        guard digits.count == text.count, digits.count == 2 * SHA256.Digest.byteCount else { return [] }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}

extension GatewayConfiguration {
    /// The part of the queue that a key without a share of its own may fill: half, if another key may send as well.
    var queueShare: Double {
        apiKeys.count { key in key.scopes.contains { $0 == .send || $0.includes(.send) } } > 1 ? 0.5 : 1
    }
}
