internal import Foundation
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
internal import ChaparCore
internal import ChaparModules
internal import ChaparQueue

/// The reader of a configuration's sections, which makes settings and backends: every key of the file is read here, in
/// ``APIKeyReader`` or in ``RouteReader``.
///
/// Called by ``ConfigurationLoader``. It collects every mistake and opens no connection.
struct ConfigurationReader {
    let root: ConfigSection
    let files: FolderFiles
    let registry: BackendRegistry
    let factories: [ModuleFactory]
    /// The check of ``ConfigurationLoader/databaseMistake``.
    var databaseMistake: (GatewayConfiguration.Store.Postgres) -> String? = { _ in nil }
    /// The path of the file; empty where there is none.
    var file = ""

    /// Whether the file is gorush's: it has the section `core` and a platform or the paths of the API, and no backends.
    ///
    /// Source: gorush v1.22, package config.
    static func isGorush(_ root: ConfigSection) -> Bool {
        let keys = Set(root.keys)
        return keys.contains("core") && !keys.contains("backends")
            && !keys.isDisjoint(with: ["ios", "android", "huawei", "api"])
    }

    /// Reads everything; mistakes are added to the report.
    func read(
        context: (String) -> BackendContext
    ) -> (GatewayConfiguration, [BackendRegistry.ConfiguredBackend], [any GatewayModule]) {
        var configuration = GatewayConfiguration()
        _ = root.integer("version", in: 1...1, default: 1)
        configuration.log = log(section("log"))
        configuration.audit = root.section("audit").flatMap(audit)
        configuration.accessLog = root.section("access_log").flatMap(accessLog)
        if let path = configuration.accessLog?.path, let audit = configuration.audit,
            path == audit.path || path == audit.refusedPath
        {
            section("access_log").reject("path", "is that of audit", fix: "Write another file.")
        }
        configuration.limits = limits(section("limits"))
        configuration.webhooks = webhooks(section("webhooks"))
        configuration.tracing = root.section("tracing").flatMap(tracing)
        configuration.store = store(section("store"))
        // The lock and the first key stand beside the file: two names of one store must give the same path.
        configuration.store.path = FileLink.target(
            of: FolderFiles.resolve(configuration.store.path, in: files.folder)
        )
        checkPlaces(of: configuration)
        checkFolders(of: configuration)
        configuration.queue = queue(section("queue"))
        configuration.invalidationGuard = GatewayConfiguration.InvalidationGuard(section("invalidation_guard"))
        let apps = apps(&configuration.receipts)
        let backends = backends(apps, context)
        configuration.apps = Set(apps + backends.map(\.app)).sorted()
        checkTimeouts(lease: configuration.queue.lease)
        // A route may name a backend that has a mistake.
        let names = root.section("backends")?.keys ?? []
        let mute = backends.filter { $0.backend.audience == BackendAudience() }.map(\.name)
        let appOf = Dictionary(backends.map { ($0.name, $0.app) }) { first, _ in first }
        var routes = RouteReader(names: names, apps: appOf, mute: Set(mute), retry: configuration.queue.retry)
        for backend in backends { routes.reports[backend.name] = reports(of: backend, configuration.receipts) }
        configuration.routes = routes.read(root.sections("routes"))
        configuration.tokenPriority = tokenPriority()
        configuration.lists = lists()
        let auth = section("auth")
        configuration.isKeyless = auth.bool("keyless", default: false)
        configuration.apiKeys = APIKeyReader(backends: names, appOf: appOf, apps: configuration.apps).read(auth)
        // Keys with a mistake are not missing: their mistakes are reported.
        let hasKeys = !configuration.apiKeys.isEmpty || root.report.issues.contains { $0.path.hasPrefix("auth") }
        let server = section("server")
        configuration.tls = server.section("tls").flatMap(tls)
        configuration.server = self.server(server, hasKeys: hasKeys || configuration.isKeyless)
        checkFolder(ofSocket: configuration.server.unixSocket)
        if configuration.isKeyless { checkKeyless(auth, configuration) }
        let modules = factories.compactMap { factory -> (any GatewayModule)? in
            guard let own = root.section(factory.key) else { return nil }
            defer { own.finish() }
            return factory.make(own, context(factory.key))
        }
        root.finish()
        return (configuration, backends, modules)
    }

    /// Reads the server, the store and whether the gateway would make a first key, regardless of mistakes elsewhere.
    func readAccess() -> GatewayAccess {
        let auth = section("auth")
        let isKeyless = auth.bool("keyless", default: false)
        var store = store(section("store"))
        store.path = FileLink.target(of: FolderFiles.resolve(store.path, in: files.folder))
        return GatewayAccess(
            server: server(section("server"), hasKeys: true),
            store: store,
            hasAuth: root.keys.contains("auth"),
            needsFirstKey: !isKeyless && auth.sections("api_keys").isEmpty
        )
    }

    /// Returns a section; an absent one reads as an empty one, so that its defaults are recorded.
    private func section(_ key: String) -> ConfigSection {
        root.section(key)
            ?? ConfigSection(ConfigNode(.null, origin: .builtIn), path: key, report: root.report, files: files)
    }

    /// Returns which reports of single deliveries a backend has.
    private func reports(
        of backend: BackendRegistry.ConfiguredBackend,
        _ receipts: [AppName: GatewayConfiguration.Receipts]
    ) -> RouteReader.Reports {
        let isShared = backend.backend.batching.map { !$0.isMixed } ?? false
        if receipts[backend.app] != nil, !isShared { return .app }
        if backend.backend.receipts != nil { return .platform }
        return receipts[backend.app] != nil ? .shared : .nothing
    }

    /// Returns the lists that the file names, and whether users who chose nothing are in.
    private func lists() -> [String: Bool] {
        guard let section = root.section("lists") else { return [:] }
        var lists: [String: Bool] = [:]
        for name in section.keys {
            if !BackendRegistry.isName(name) {
                section.reject(name, "is not a name", fix: "Use letters, digits, - and _, at most 64.")
            }
            guard let word = section.string(name) else { continue }
            switch word {
            case "in": lists[name] = true
            case "out": lists[name] = false
            default: section.rejectWord(name, word, ["in", "out"])
            }
        }
        section.finish()
        return lists
    }

    /// Returns the apps that the file names, and adds those whose apps send reports to `receipts`.
    private func apps(_ receipts: inout [AppName: GatewayConfiguration.Receipts]) -> [AppName] {
        guard let section = root.section("apps") else { return [] }
        for name in section.keys {
            if !BackendRegistry.isName(name) {
                section.reject(name, "is not a name", fix: "Use letters, digits, - and _, at most 64.")
            }
            guard let own = section.section(name) else { continue }
            var settings = GatewayConfiguration.Receipts()
            let isWanted = own.bool("receipts", default: false)
            settings.perSecond = own.integer("receipts_per_second", in: 1...100_000, default: settings.perSecond)
            if isWanted { receipts[AppName(rawValue: name)] = settings }
            own.finish()
        }
        section.finish()
        return section.keys.map { AppName(rawValue: $0) }
    }

    private func backends(
        _ apps: [AppName],
        _ context: (String) -> BackendContext
    ) -> [BackendRegistry.ConfiguredBackend] {
        let kinds = registry.factories.map(\.kind.rawValue).joined(separator: ", ")
        guard let section = root.section("backends") else {
            root.missing("backends", "a map of names, each with its kind (\(kinds)) and keys")
            return []
        }
        return registry.backends(in: section, apps: apps, context: context)
    }

    /// Refuses a backend's timeout that is not shorter than the lease: a worker would lose its lease during a send that
    /// is still in time.
    private func checkTimeouts(lease: Duration) {
        guard let section = root.section("backends") else { return }
        for name in section.keys {
            let path = "backends.\(name).timeout"
            guard let setting = root.report.settings.last(where: { $0.path == path }),
                let seconds = setting.value.flatMap({ Double($0) }), seconds >= lease.inSeconds
            else { continue }
            root.report.add(
                ConfigIssue(
                    path: path,
                    origin: setting.origin,
                    problem:
                        "\(setting.value ?? "") s is not shorter than queue.lease, \(Int(clamping: lease.inSeconds)) s",
                    fix: "A batch of which nothing is heard for queue.lease counts as unknown: "
                        + "make queue.lease longer than the timeout, or the timeout shorter."
                )
            )
        }
    }

    private func tokenPriority() -> [TokenService] {
        guard let values = root.strings("token_priority") else { return TokenService.priority }
        var services: [TokenService] = []
        for value in values {
            guard let service = TokenService.named(value) ?? TokenService.named(value.lowercased()) else {
                root.rejectWord("token_priority", value, TokenService.known.map(\.rawValue))
                continue
            }
            if services.contains(service) {
                root.reject("token_priority", "names \"\(value)\" twice", fix: "Each service has one place.")
            } else {
                services.append(service)
            }
        }
        return services + TokenService.priority.filter { !services.contains($0) }
    }

    private func server(_ section: ConfigSection, hasKeys: Bool) -> GatewayConfiguration.Server {
        var server = GatewayConfiguration.Server()
        server.host = Self.plainHost(section.string("host", default: server.host))
        if let meant = Self.meantHost(server.host) {
            section.reject("host", "\"\(server.host)\" is not an address alone", fix: meant.fix)
            server.host = meant.host  // Later checks judge the host, not its form.
        }
        server.port = section.integer("port", in: 0...65535, default: server.port)
        server.maximumBodyBytes = section.integer(
            "max_body_bytes",
            in: 1024...256 << 20,
            default: server.maximumBodyBytes
        )
        server.maximumRequests = section.integer("max_requests", in: 1...1_000_000, default: server.maximumRequests)
        server.unixSocket = section.string("unix_socket").map { FolderFiles.resolve($0, in: files.folder) }
        if let path = server.unixSocket {
            if path.utf8.count > Self.longestSocketPath {
                section.reject("unix_socket", "is longer than \(Self.longestSocketPath) bytes with its folder")
            }
            for key in ["host", "port"] where section.has(key) {
                section.reject(key, "means nothing beside unix_socket", fix: "Leave one of them out.")
            }
        }
        server.trustedProxies = section.strings("trusted_proxies") ?? []
        for text in server.trustedProxies where PeerNetwork(text) == nil {
            section.reject(
                "trusted_proxies",
                "\"\(text)\" is no address",
                fix: "Write addresses or networks, such as 10.0.0.5 or 10.0.0.0/8."
            )
        }
        if server.host.isEmpty {
            section.reject("host", "is empty", fix: "Write 127.0.0.1, or 0.0.0.0 to listen on every address.")
        } else if !Loopback.contains(host: server.host), !hasKeys {
            section.reject(
                "host",
                "listening beyond this machine needs API keys",
                fix: "Make one with \"chapar keys create\" and write it under auth.api_keys, or use 127.0.0.1."
            )
        }
        section.finish()
        return server
    }

    /// Returns a host without the brackets of IPv6.
    private static func plainHost(_ text: String) -> String {
        text.hasPrefix("[") && text.hasSuffix("]") ? String(text.dropFirst().dropLast()) : text
    }

    /// Returns the host that is meant by one with a scheme, a port or a path, and the fix; nil for a host alone.
    private static func meantHost(_ text: String) -> (host: String, fix: String)? {
        let all = "0.0.0.0"
        if text == "*" { return (all, "Write \(all) to listen on every address.") }
        if text.hasPrefix("unix:") {
            return ("127.0.0.1", "Write unix_socket: \(text.dropFirst(5)), and leave out host and port.")
        }
        if text.contains(where: \.isWhitespace) {
            return (text.filter { !$0.isWhitespace }, "Write it without blanks.")
        }
        if !text.isEmpty, text.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), !isIPv4(text) {
            return ("127.0.0.1", "An address of IPv4 has four numbers from 0 to 255, such as 127.0.0.1.")
        }
        var rest = text[...]
        if let scheme = rest.firstRange(of: "://") { rest = rest[scheme.upperBound...] }
        rest = rest.prefix { $0 != "/" }
        let colons = rest.count { $0 == ":" }
        guard rest.endIndex < text.endIndex || rest.startIndex > text.startIndex || colons == 1 || rest.hasPrefix("[")
        else { return nil }
        // An address of IPv6 without brackets has no port behind it.
        guard colons == 1 || rest.hasPrefix("["), let colon = rest.lastIndex(of: ":") else {
            let host = rest.isEmpty ? "127.0.0.1" : String(rest)
            return (host, "Write host: \(host), and the port under port.")
        }
        let (written, port) = (plainHost(String(rest[..<colon])), rest[rest.index(after: colon)...])
        let host = written.isEmpty ? all : written
        return (host, "Write host: \"\(host)\" and port: \(port.isEmpty ? "8080" : port).")
    }

    /// Whether a text is an address of IPv4 in its usual form.
    private static func isIPv4(_ text: String) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil && $0.first != "+" }
    }

    /// Refuses `keyless` beside API keys, and on an address that other machines reach.
    private func checkKeyless(_ auth: ConfigSection, _ configuration: GatewayConfiguration) {
        if auth.has("api_keys") {
            auth.reject("keyless", "stands beside api_keys", fix: "Leave out keyless, or api_keys.")
        }
        if !Loopback.contains(host: configuration.server.host) {
            auth.reject(
                "keyless",
                "means a loopback address or server.unix_socket only, and server.host is \(configuration.server.host)",
                fix: "Write server.host: 127.0.0.1; or leave out keyless and make a key: \"chapar keys create\"."
            )
        }
    }

    /// The longest path of a Unix socket, in bytes, without the closing zero (unix(7)).
    private static let longestSocketPath = 107

    private func tls(_ section: ConfigSection) -> GatewayConfiguration.TLS? {
        if !section.has("certificate_file") {
            section.missing("certificate_file", "the server's certificate, a PEM file")
        }
        if !section.has("key_file") { section.missing("key_file", "the certificate's private key, a PEM file") }
        let names = ["certificate_file", "key_file"].map { section.pathAsWritten($0) ?? $0 }
        let certificates = section.certificates("certificate_file")
        let key = section.privateKey("key_file")
        let authorities = section.certificates("client_ca_file")
        section.finish()
        guard let certificates, let key else { return nil }
        let tls = GatewayConfiguration.TLS(
            certificates: Array(certificates.utf8),
            key: Array(key.reveal().utf8),
            clientAuthorities: authorities.map { Array($0.utf8) }
        )
        do {
            _ = try tls.context()
        } catch is ForeignKey {
            section.reject(
                "key_file",
                "is the key of another certificate: \(names[1]) does not belong to \(names[0])",
                fix: "Give the key with which the certificate was asked for; the file begins with the server's own."
            )
        } catch {
            section.reject(
                "certificate_file",
                "cannot be used with key_file: \(error)",
                fix:
                    "Both are PEM, the chain begins with the server's own certificate, and the key is that certificate's."
            )
        }
        return tls
    }

    private func limits(_ section: ConfigSection) -> GatewayConfiguration.Limits {
        var limits = GatewayConfiguration.Limits()
        limits.contentBytes = section.integer("content_bytes", in: 4096...1 << 20, default: limits.contentBytes)
        limits.requestsPerSecond = section.integer(
            "requests_per_second",
            in: 0...1_000_000,
            default: limits.requestsPerSecond
        )
        limits.connectionsPerPeer = section.integer(
            "connections_per_peer",
            in: 1...1_000_000,
            default: limits.connectionsPerPeer
        )
        limits.streamsPerKey = section.integer("streams_per_key", in: 1...100, default: limits.streamsPerKey)
        section.finish()
        return limits
    }

    private func store(_ section: ConfigSection) -> GatewayConfiguration.Store {
        var store = GatewayConfiguration.Store()
        store.kind = section.choice("kind", default: store.kind)
        store.path = section.string("path", default: store.path)
        if store.path.isEmpty {
            section.reject("path", "is empty", fix: "Write the database file, such as ./chapar.db.")
        }
        store.durability = section.choice("durability", default: store.durability)
        store.minimumFreeBytes = Int64(
            section.integer("min_free_bytes", in: 0...1 << 50, default: Int(store.minimumFreeBytes))
        )
        store.postgres = postgres(section, isMeant: store.kind == .postgres)
        store.maximumWaiting = section.integer("max_waiting", in: 1...1_000_000_000, default: store.maximumWaiting)
        store.retention = section.seconds("retention", in: 60...366 * 86400, default: store.retention)
        store.eventRetention = section.seconds("event_retention", in: 60...366 * 86400, default: store.eventRetention)
        store.maximumBytes = Int64(section.integer("max_bytes", in: 0...1 << 50, default: Int(store.maximumBytes)))
        if let own = section.section("encryption") { store.encryption = GatewayConfiguration.Encryption(own) }
        section.finish()
        return store
    }

    /// Reads the keys of `kind: postgres`, and refuses keys that belong to the other kind.
    private func postgres(_ section: ConfigSection, isMeant: Bool) -> GatewayConfiguration.Store.Postgres {
        var postgres = GatewayConfiguration.Store.Postgres()
        postgres.url = section.secret("url")
        postgres.password = section.secret("password")
        postgres.schema = section.string("schema", default: postgres.schema)
        if !SchemaName.isPlain(postgres.schema) {
            section.reject(
                "schema",
                "\"\(postgres.schema)\" is not a name that needs no quotes",
                fix: "Begin with a letter a to z, and use a to z, 0 to 9 and _ only, 63 at most."
            )
        }
        postgres.node = section.string("node")
        postgres.nodeLease = section.seconds("node_lease", in: 3...3600, default: postgres.nodeLease)
        postgres.isPooled = section.bool("pooled", default: postgres.isPooled)
        postgres.pollsOnly = section.bool("poll_only", default: postgres.pollsOnly)
        let own = ["url", "password", "schema", "node", "node_lease", "pooled", "poll_only"]
        for key in isMeant ? ["path", "durability", "min_free_bytes", "max_bytes"] : own where section.has(key) {
            section.reject(
                key,
                "is of no use with kind: \(isMeant ? "postgres" : "sqlite")",
                fix: isMeant ? "Remove it." : "Remove it, or write kind: postgres."
            )
        }
        if isMeant, !section.has("url") {
            section.missing("url", "the database, as in postgres://chapar@db.example.org/chapar")
        }
        if isMeant, postgres.url != nil, let mistake = databaseMistake(postgres) { section.reject("url", mistake) }
        return postgres
    }

    /// Refuses a log path that is the same file as another one, by any name, which it would damage.
    private func checkPlaces(of configuration: GatewayConfiguration) {
        var taken = [(FileLink.canonical(file), "the configuration")]
        if configuration.store.kind == .sqlite {
            taken += ["", "-wal", "-shm", "-journal", ".lock", ".first-key"]
                .map { (FileLink.canonical(configuration.store.path + $0), "a file of the store") }
        }
        let audit = configuration.audit
        for (key, path) in [
            ("audit", audit?.path), ("audit", audit?.refusedPath), ("access_log", configuration.accessLog?.path),
        ] {
            guard let path, let other = taken.first(where: { $0.0 == FileLink.canonical(path) }) else { continue }
            section(key).reject("path", "is that of \(other.1)", fix: "Write another file.")
        }
    }

    /// Warns of paths of files that are folders, and of files in folders that do not exist or are files.
    ///
    /// These are only warnings, since the paths may change between the check and the start.
    private func checkFolders(of configuration: GatewayConfiguration) {
        let store = configuration.store.kind == .sqlite ? configuration.store.path : nil
        let paths = [
            ("store", store), ("audit", configuration.audit?.path), ("access_log", configuration.accessLog?.path),
        ]
        for (key, path) in paths {
            guard let path, let (problem, fix) = Self.faultOfPlace(path) else { continue }
            let origin = section(key).origin
            root.report.warn(ConfigIssue(path: "\(key).path", origin: origin, problem: problem, fix: fix))
        }
    }

    /// Warns of a socket in a folder that does not exist.
    private func checkFolder(ofSocket path: String?) {
        guard let path, FolderPath.isFolder(FolderPath.folder(of: path)) == nil,
            let (problem, fix) = Self.faultOfPlace(path)
        else { return }
        let origin = section("server").origin
        root.report.warn(ConfigIssue(path: "server.unix_socket", origin: origin, problem: problem, fix: fix))
    }

    /// Returns why no file can be written at a path, and what to do; nil where one can.
    private static func faultOfPlace(_ path: String) -> (problem: String, fix: String)? {
        if FolderPath.isFolder(path) == true { return ("is a folder", "Name a file in it.") }
        if path.hasSuffix("/:memory:") || path == ":memory:" {
            return ("is a file of this name: there is no store in memory", "Write a path, such as ./chapar.db.")
        }
        let folder = FolderPath.folder(of: path)
        guard !folder.isEmpty, FolderPath.isFolder(folder) != true else { return nil }
        guard FolderPath.isFolder(folder) == nil else {
            return ("is in \(folder), which is a file and no folder", "Write another path.")
        }
        return (
            "is in the folder \(folder), which is not there",
            "Make it, writable for the account that runs the gateway: serve does not."
        )
    }

    private func queue(_ section: ConfigSection) -> GatewayConfiguration.Queue {
        var queue = GatewayConfiguration.Queue()
        queue.defaultTimeToLive = section.seconds("default_ttl", in: 0...28 * 86400, default: queue.defaultTimeToLive)
        queue.firstRetry = section.seconds("first_retry", in: 0.01...86400, default: queue.firstRetry)
        queue.maximumRetry = section.seconds("max_retry", in: 0.01...86400, default: queue.maximumRetry)
        queue.maximumAttempts = section.integer("max_attempts", in: 1...10000, default: queue.maximumAttempts)
        queue.lease = section.seconds("lease", in: 5...86400, default: queue.lease)
        queue.drain = section.seconds("drain", in: 0...3600, default: queue.drain)
        queue.idempotencyWindow = section.seconds(
            "idempotency_window",
            in: 60...30 * 86400,
            default: queue.idempotencyWindow
        )
        queue.payloadCheck = section.choice("payload_check", default: queue.payloadCheck)
        section.accept(.fallbackAfter)
        queue.fallbackAfter = section.optionalSeconds("fallback_after", in: 0...28 * 86400)
        if queue.maximumRetry < queue.firstRetry {
            section.reject("max_retry", "is shorter than first_retry", fix: "Write at least as many seconds.")
        }
        section.finish()
        return queue
    }

    private func audit(_ section: ConfigSection) -> GatewayConfiguration.Audit? {
        let path = section.requiredString("path", "the file, such as ./audit.jsonl")
        var audit = GatewayConfiguration.Audit(path: FolderFiles.resolve(path ?? "", in: files.folder))
        audit.maximumBytes = section.integer("max_bytes", in: 64 << 10...1 << 40, default: audit.maximumBytes)
        audit.files = section.integer("files", in: 1...1000, default: audit.files)
        section.finish()
        return path == nil ? nil : audit
    }

    private func accessLog(_ section: ConfigSection) -> GatewayConfiguration.AccessLog? {
        let path = section.requiredString("path", "the file, such as ./access.jsonl")
        var log = GatewayConfiguration.AccessLog(path: FolderFiles.resolve(path ?? "", in: files.folder))
        log.requests = section.choice("requests", default: log.requests)
        log.maximumBytes = section.integer("max_bytes", in: 64 << 10...1 << 40, default: log.maximumBytes)
        log.files = section.integer("files", in: 1...1000, default: log.files)
        section.finish()
        return path == nil ? nil : log
    }

    private func log(_ section: ConfigSection) -> GatewayConfiguration.Log {
        var log = GatewayConfiguration.Log()
        log.level = section.choice("level", default: LogLevel.info).rawValue
        log.format = section.choice("format", default: log.format)
        section.finish()
        return log
    }

    /// The levels of swift-log, the most verbose first.
    private enum LogLevel: String, CaseIterable {
        case trace, debug, info, notice, warning, error, critical
    }
}
