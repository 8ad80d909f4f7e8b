internal import Foundation
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
internal import ChaparCore

/// The reader of `auth.api_keys`: names, hashes, scopes, apps, backends and limits of the API keys.
///
/// ``ConfigurationReader`` calls it. The file has only the hashes of keys, so the reader never sees a key itself.
struct APIKeyReader {
    /// The most hashes of one key: its current one, and earlier ones while callers change over.
    private static let mostHashes = 4
    /// The valid values of `queue_share`.
    private static let shares = 0.01...1.0
    /// The largest value of `max_audience`.
    private static let largestAudience = 1_000_000_000

    /// The names of the configured backends.
    let backends: [String]
    /// The apps of the usable backends.
    let appOf: [String: AppName]
    /// The apps that a key may name.
    let apps: [AppName]

    func read(_ auth: ConfigSection) -> [GatewayConfiguration.APIKey] {
        var keys: [GatewayConfiguration.APIKey] = []
        var names: Set<String> = []
        var owners: [String: String] = [:]
        for section in auth.sections("api_keys") {
            let name = name(section)
            if let name, !names.insert(name).inserted {
                section.reject("name", "another key has the name \"\(name)\"", fix: "Give each key a name of its own.")
            }
            let hashes = hashes(section)
            checkOwners(of: hashes ?? [], name, &owners, section)
            let scopes = scopes(section)
            let app = app(section)
            if app != nil, scopes.contains(.admin) {
                section.reject("scopes", "admin is for the whole gateway", fix: "Leave out admin, or the key's app.")
            }
            let allowed = allowed(section, app)
            let rate = section.integer("requests_per_second", in: 0...1_000_000)
            let notAfter = notAfter(section)
            let share = section.number("queue_share", in: Self.shares)
            let audience = section.integer("max_audience", in: 1...Self.largestAudience)
            section.finish()
            if let name, let hashes {
                var key = GatewayConfiguration.APIKey(
                    name: name,
                    hashes: hashes,
                    scopes: scopes,
                    app: app,
                    backends: allowed,
                    requestsPerSecond: rate,
                    notAfter: notAfter,
                    queueShare: share
                )
                key.maximumAudience = audience
                keys.append(key)
            }
        }
        auth.finish()
        return keys
    }

    private func name(_ section: ConfigSection) -> String? {
        let name = section.requiredString("name", "a name for logs, such as shop")
        if let name, !BackendRegistry.isName(name) {
            section.reject("name", "is not a name", fix: "Use letters, digits, - and _, at most 64.")
        }
        return name
    }

    private func hashes(_ section: ConfigSection) -> [String]? {
        guard let values = section.strings("hash") else {
            if !section.has("hash") { section.missing("hash", "the line that \"chapar keys create\" prints") }
            return nil
        }
        let hashes = values.compactMap(Self.digits)
        guard hashes.count == values.count else {
            section.reject(
                "hash",
                "is not sha256: and 64 hexadecimal digits",
                fix: "Write the line that \"chapar keys create\" prints, never the key itself."
            )
            return nil
        }
        guard (1...Self.mostHashes).contains(hashes.count) else {
            section.reject(
                "hash",
                "has \(hashes.count) values",
                fix: "Write one, or the new one and up to 3 before it."
            )
            return nil
        }
        return hashes
    }

    /// Refuses a hash that two keys have, or that one key has twice: it would not be clear which key a caller uses.
    ///
    /// `owners` has the key of each hash that was read so far; the hashes of this key are added.
    private func checkOwners(
        of hashes: [String],
        _ name: String?,
        _ owners: inout [String: String],
        _ section: ConfigSection
    ) {
        if Set(hashes).count < hashes.count {
            section.reject("hash", "has the same value twice", fix: "Leave out one of them.")
        }
        if let owner = hashes.compactMap({ owners[$0] }).first {
            section.reject(
                "hash",
                "has a value that is also \(owner)",
                fix: "Give each key its own: \"chapar keys create\" makes one."
            )
        }
        for hash in hashes where owners[hash] == nil {
            owners[hash] = name.map { "that of the key \"\($0)\"" } ?? "that of another key"
        }
    }

    private func scopes(_ section: ConfigSection) -> Set<GatewayConfiguration.APIKey.Scope> {
        let allowed = GatewayConfiguration.APIKey.Scope.allCases.map(\.rawValue)
        guard let values = section.strings("scopes") else {
            if !section.has("scopes") { section.missing("scopes", "a list of \(allowed.joined(separator: ", "))") }
            return []
        }
        if values.isEmpty { section.reject("scopes", "is empty", fix: "Allowed: \(allowed.joined(separator: ", ")).") }
        return Set(
            values.compactMap { value in
                let scope = Suggestion.same(as: value, among: allowed).flatMap(GatewayConfiguration.APIKey.Scope.init)
                if scope == nil { section.rejectWord("scopes", value, allowed) }
                return scope
            }
        )
    }

    private func app(_ section: ConfigSection) -> AppName? {
        guard let value = section.string("app") else { return nil }
        if !apps.contains(AppName(rawValue: value)) { section.rejectWord("app", value, apps.map(\.rawValue)) }
        return AppName(rawValue: value)
    }

    /// Returns the backends of a key: those that it names, or those of its app; nil for all.
    private func allowed(_ section: ConfigSection, _ app: AppName?) -> Set<String>? {
        let ofApp = app.map { app in Set(backends.filter { appOf[$0] == app }) }
        guard let named = named(section) else { return ofApp }
        if let app, let other = named.first(where: { appOf[$0] != nil && appOf[$0] != app }) {
            section.reject("backends", "\(other) is not of the app \"\(app)\"", fix: "Leave it out, or the key's app.")
        }
        return named
    }

    private func named(_ section: ConfigSection) -> Set<String>? {
        guard let values = section.strings("backends") else { return nil }
        if values.isEmpty {
            section.reject("backends", "is empty", fix: "Name backends, or leave the key out for all of them.")
        }
        for value in values where !backends.contains(value) { section.rejectWord("backends", value, backends) }
        return Set(values)
    }

    private func notAfter(_ section: ConfigSection) -> Date? {
        guard let text = section.string("not_after") else { return nil }
        guard let time = RFC3339.parse(text) ?? RFC3339.parse(text + "T00:00:00Z") else {
            section.reject("not_after", "is no time", fix: "Write 2027-01-31, or 2027-01-31T12:00:00Z.")
            return nil
        }
        return time
    }

    private static func digits(_ hash: String) -> String? {
        guard hash.hasPrefix("sha256:") else { return nil }
        let digits = hash.dropFirst(7).lowercased()
        return digits.count == 64 && digits.allSatisfy { $0.isASCII && $0.isHexDigit } ? digits : nil
    }
}
