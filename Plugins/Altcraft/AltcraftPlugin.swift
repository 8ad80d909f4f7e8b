internal import Foundation
internal import Logging
public import ChaparCore
import ChaparOAuth

extension BackendFactory {
    /// Altcraft: push subscriptions and their events, and trigger campaigns.
    ///
    /// ## Configuration keys
    /// - `api_url` (address, required): the pixel host of the account.
    /// - `auth` (map, required): `{ kind: rtoken, rtoken }`, or `{ kind: jwt, provider }` with one of
    ///   - `provider: url`: `url`, `secret`, `cache_seconds` (300);
    ///   - `provider: file`: `path` with `{user}` or `{device}`, `cache_seconds` (60);
    ///   - `provider: command`: `command` (a list whose arguments may hold `{user}` and `{device}`), `cache_seconds`
    ///     (300);
    ///   - `provider: sign`: `alg` (`RS256`, `ES256`), `key` or `key_file`, `key_id`, `db_id`, `matching`,
    ///     `field_name`, `ttl_seconds` (3600), `anonymous: { db_id, matching, field_name }` for devices without a user;
    ///     and with each `check_subject` (`false`): whether a JWT whose `sub` is another user's is refused (542).
    /// - `app_info` (map): `app_id`, `app_iid`, `app_ver`.
    /// - `provider_priority` (list of token services), `sync` (`true`), `event_codes` (`seed`, `current`).
    /// - `retry` (map): `schedule` (`sdk`, `gateway`), `max_attempts` (16), `sweep_seconds` (10800), `also` (of 408,
    ///   429).
    /// - `on_remove` (`suspend`, `unsubscribe`, `nothing`), `profile_update` (`false`), `pixel` (text).
    /// - `campaign` (map): `url`, `api_token`, `trigger_id`, `call` (`start`, `import_and_start`), `matching`
    ///   (`profile_id`, `email`, `email_profile`, `phone`, `custom`), `field_name`, `resource_id`, `db_id`; without it
    ///   nothing can be sent.
    /// - and those of ``CommonBackendOptions`` but `base_url`.
    public static let altcraft = BackendFactory(
        AltcraftBackend.kind,
        summary: "Altcraft: subscriptions, events, trigger campaigns",
        reasons: AltcraftRejections.outcomes
    ) { section, context in
        let before = section.report.issues.count
        let options = AltcraftOptions(section)
        let auth = AltcraftAuth.read(
            section,
            common: options?.common ?? CommonBackendOptions(),
            context: context
        )
        guard let options, let auth, section.report.issues.count == before else { return nil }
        if options.campaign == nil {
            context.logger.warning("the backend keeps subscriptions and cannot send: it has no campaign section")
        }
        if let campaign = options.campaign, campaign.call == .start, campaign.databaseID != nil {
            context.logger.warning("campaign.db_id is not used: call: start knows the campaign's own database only")
        }
        do throws(HTTPPoolError) {
            return try AltcraftBackend(options: options, auth: auth, context: context)
        } catch {
            section.reject("kind", "altcraft cannot be set up: \(error)")
            return nil
        }
    }
}

extension AltcraftOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let common = CommonBackendOptions(section, readsBase: false, connections: 8, timeout: .seconds(60))
        if !section.has("api_url") {
            section.missing("api_url", "the pixel host of the account, as https://pxl-name.altcraft.com")
        }
        let base = section.baseURL("api_url") ?? HTTPBaseURL(HTTPEndpoint(host: "altcraft.invalid"))
        self.init(base: base, common: common)
        appInfo = Self.appInfo(section.section("app_info"))
        if let names = section.strings("provider_priority") {
            do throws(AltcraftFault) {
                providerPriority = try AltcraftProviders.order(names)
            } catch {
                section.reject("provider_priority", "\(error.message) (473)")
            }
        }
        sync = section.bool("sync", default: true)
        eventCodes = section.choice("event_codes", default: .seed)
        removal = section.choice("on_remove", default: .suspend)
        updatesProfiles = section.bool("profile_update", default: false)
        pixel = section.string("pixel")
        if pixel?.allSatisfy(\.isWhitespace) ?? false {
            section.reject("pixel", "is empty", fix: "Write the pixel's id, or remove the key.")
        }
        if let retry = section.section("retry") {
            schedule = retry.choice("schedule", default: .sdk)
            maximumAttempts = retry.integer("max_attempts", in: 1...1_000, default: 16)
            sweep = retry.seconds("sweep_seconds", in: 1...86_400, default: .seconds(10_800))
            for text in retry.strings("also") ?? [] {
                if let status = Int(text), status == 408 || status == 429 {
                    alsoRetried.insert(status)
                } else {
                    retry.reject("also", "\"\(text)\" cannot be retried", fix: "Allowed: 408, 429.")
                }
            }
            retry.finish()
        }
        campaign = section.section("campaign").flatMap { AltcraftCampaignOptions($0) }
        guard section.report.issues.count == before else { return nil }
    }

    private static func appInfo(_ section: ConfigSection?) -> AppInfo? {
        guard let section else { return nil }
        let id = section.requiredString("app_id", "the app's id")
        let installation = section.requiredString("app_iid", "the installation's id")
        let version = section.requiredString("app_ver", "the app's version")
        section.finish()
        guard let id, let installation, let version else { return nil }
        return AppInfo(appID: id, appIID: installation, appVer: version)
    }
}

extension AltcraftCampaignOptions {
    /// Reads the section `campaign`.
    fileprivate init?(_ section: ConfigSection) {
        if !section.has("url") { section.missing("url", "the platform's address, as https://name.altcraft.com") }
        let base = section.baseURL("url")
        let token = section.secret("api_token")
        if token == nil, !section.has("api_token") {
            section.missing("api_token", "the account's API token, as \"${ALTCRAFT_API}\"")
        }
        let trigger = section.integer("trigger_id", in: 1...Int.max)
        if trigger == nil, !section.has("trigger_id") { section.missing("trigger_id", "the campaign's number") }
        let call = section.choice("call", default: Call.start)
        let matching = section.choice("matching", default: Matching.profileID)
        let field = section.string("field_name")
        if matching == .custom, field == nil { section.missing("field_name", "the field that holds the user") }
        let resource = section.integer("resource_id", in: 1...Int.max)
        let database = section.integer("db_id", in: 1...Int.max)
        section.finish()
        guard let base, let token, let trigger else { return nil }
        self.init(
            base: base,
            apiToken: token,
            triggerID: Int64(trigger),
            call: call,
            matching: matching,
            fieldName: field,
            resourceID: resource.map { Int64($0) },
            databaseID: database.map { Int64($0) }
        )
    }
}

extension AltcraftAuth {
    private enum Kind: String, CaseIterable { case rtoken, jwt }
    private enum Provider: String, CaseIterable { case url, file, command, sign }

    /// Reads the section `auth`; nil after reporting what is wrong with it.
    static func read(_ section: ConfigSection, common: CommonBackendOptions, context: BackendContext) -> AltcraftAuth? {
        guard let own = section.section("auth") else {
            if !section.has("auth") { section.missing("auth", "{ kind: rtoken, … } or { kind: jwt, … }") }
            return nil
        }
        defer { own.finish() }
        guard let written = own.requiredString("kind", "rtoken or jwt") else { return nil }
        let kindName = Suggestion.same(as: written, among: Kind.allCases.map(\.rawValue)) ?? written
        switch Kind(rawValue: kindName) {
        case .rtoken?:
            guard let token = own.secret("rtoken") else {
                if !own.has("rtoken") { own.missing("rtoken", "the resource's role token, as \"${ALTCRAFT_RTOKEN}\"") }
                return nil
            }
            return AltcraftAuth(rToken: token, time: context.time)
        case .jwt?:
            guard let name = own.requiredString("provider", "url, file, command or sign") else { return nil }
            let words = Provider.allCases.map(\.rawValue)
            guard let provider = Suggestion.same(as: name, among: words).flatMap(Provider.init) else {
                own.rejectWord("provider", name, words)
                return nil
            }
            let checksSubject = own.bool("check_subject", default: false)
            return source(provider, own, common, context).map {
                AltcraftAuth(source: $0, checksSubject: checksSubject, time: context.time)
            }
        case nil where kindName == AuthKind.oauth2Refresh.name:
            own.reject(
                "kind",
                "\(kindName) cannot be used with Altcraft: each request's credential names a profile, a refreshed token none",
                fix: "Write rtoken or jwt; a service that gives JWTs is asked with provider: url."
            )
            for key in own.keys { own.allow(key) }
            return nil
        case nil:
            own.rejectWord("kind", kindName, Kind.allCases.map(\.rawValue))
            return nil
        }
    }

    private static func source(
        _ provider: Provider,
        _ section: ConfigSection,
        _ common: CommonBackendOptions,
        _ context: BackendContext
    ) -> (any AltcraftTokenSource)? {
        func span(_ fallback: Int) -> Duration {
            .seconds(section.integer("cache_seconds", in: 1...86_400, default: fallback))
        }
        switch provider {
        case .url:
            if !section.has("url") { section.missing("url", "the address of the service that gives JWTs") }
            let secret = section.secret("secret")
            let cacheSpan = span(300)
            guard let url = section.baseURL("url") else { return nil }
            do throws(HTTPPoolError) {
                return try AltcraftURLTokens(
                    url: url,
                    secret: secret,
                    cacheSpan: cacheSpan,
                    common: common,
                    http: context.http
                )
            } catch {
                section.reject("url", "cannot be used: \(error)")
                return nil
            }
        case .file:
            let cacheSpan = span(60)
            guard let path = section.requiredString("path", "a path with {user} or {device} in it") else { return nil }
            guard path.contains("{user}") || path.contains("{device}"), path.hasPrefix("/") else {
                section.reject("path", "must begin with / and hold {user} or {device}: a JWT names one profile")
                return nil
            }
            return AltcraftFileTokens(path: path, cacheSpan: cacheSpan)
        case .command:
            let cacheSpan = span(300)
            let variables = section.strings("environment") ?? []
            guard let words = section.strings("command"), let program = words.first else {
                section.missing("command", "a list: the program's path and its arguments")
                return nil
            }
            guard program.hasPrefix("/"), words.contains(where: { $0.contains("{user}") || $0.contains("{device}") })
            else {
                section.reject("command", "must begin with a path from / and have an argument with {user} or {device}")
                return nil
            }
            return AltcraftCommandTokens(
                program: program,
                arguments: Array(words.dropFirst()),
                variables: variables,
                cacheSpan: cacheSpan,
                deadline: min(common.timeout, .seconds(30))
            )
        case .sign: return AltcraftSigner.read(section, context)
        }
    }
}

extension AltcraftSigner {
    fileprivate static func read(_ section: ConfigSection, _ context: BackendContext) -> AltcraftSigner? {
        let algorithm = section.choice("alg", default: Algorithm.rs256)
        let fromFile = section.credentialFile("key_file")
        if section.has("key"), section.has("key_file") {
            section.reject("key_file", "cannot stand beside key", fix: "Keep one of the two.")
        }
        let place = section.has("key") ? "key" : "key_file"
        let key = section.secret("key") ?? fromFile
        if !section.has("key"), !section.has("key_file") { section.missing("key_file", "the private key, a PEM file") }
        let keyID = section.string("key_id")
        let users = target(section)
        var anonymous: Target?
        if let own = section.section("anonymous") {
            anonymous = target(own)
            own.finish()
        }
        let lifetime = section.integer("ttl_seconds", in: 60...86_400, default: 3_600)
        guard let key, let users else { return nil }
        do throws(Mistake) {
            return try AltcraftSigner(
                algorithm,
                keyPEM: key,
                keyID: keyID,
                users: users,
                anonymous: anonymous,
                lifetime: .seconds(lifetime),
                time: context.time
            )
        } catch {
            section.reject(place, error.problem, fix: error.fix)
            return nil
        }
    }

    private static func target(_ section: ConfigSection) -> Target? {
        let database = section.integer("db_id", in: 1...Int.max)
        if database == nil, !section.has("db_id") { section.missing("db_id", "the number of the database") }
        let matching = section.requiredString(
            "matching",
            "how a profile is found, as profile_id, email, phone or custom"
        )
        let field = section.string("field_name")
        if matching == "custom", field == nil { section.missing("field_name", "the field that holds the identifier") }
        guard let database, let matching else { return nil }
        return Target(databaseID: Int64(database), matching: matching, fieldName: field)
    }
}
