import Foundation
import ChaparCore

/// The conversion of a configuration of gorush.
struct GorushConversion {
    /// A backend with the values of its keys.
    private struct Backend {
        var name: String
        var kind: String
        var values: [(key: String, value: String)]
    }

    /// Files with secrets that stood in the old file, to be written before the new one is checked.
    private(set) var secrets: [(path: String, text: String)] = []
    /// The keys without a counterpart, each with its line; the rest works without them.
    private(set) var remarks: [ConfigIssue] = []
    /// The mistakes that end the conversion, such as a credential that cannot be used as it is.
    private(set) var stops: [ConfigIssue] = []
    private var backends: [Backend] = []
    /// Sections of the new file besides `server`, `store` and `backends`, a line each.
    private var sections: [String] = []
    /// The files of the certificate and its key, where gorush serves HTTPS.
    private var tls: (certificate: String, key: String)?
    private let file: GorushFile
    /// Whether the program has the module that answers gorush's requests.
    private let hasDoor: Bool
    /// The folder of the new file.
    private let folder: URL

    /// Converts a file for a new configuration at `target`.
    ///
    /// With `hasKey` the new configuration gets an API key; without one it listens on this machine only.
    ///
    /// With `hasDoor` the program answers gorush's requests, and its callers go on as they are.
    init(_ file: GorushFile, target: String, hasKey: Bool, hasDoor: Bool, environment: [String: String]) {
        self.file = file
        self.hasDoor = hasDoor
        folder = URL(filePath: target).deletingLastPathComponent()
        host = "127.0.0.1"
        convertServer(hasKey: hasKey)
        convertApple()
        convertGoogle(environment)
        convertHuawei()
        convertProxy()
        convertLog()
        convertQueue()
        if hasDoor { convertDoor() }
        nameTheRest(environment)
        if backends.isEmpty, stops.isEmpty {
            stop("ios.enabled", "no platform is enabled", "Set enabled: true for ios, android or huawei.")
        }
        let order = { (left: ConfigIssue, right: ConfigIssue) in left.origin.line < right.origin.line }
        remarks.sort(by: order)
        stops.sort(by: order)
    }

    /// The address to listen on.
    private(set) var host: String
    /// The port to listen on.
    private(set) var port = 8088

    /// Whether a backend still needs the app's topic, which gorush takes from each request.
    var needsTopic: Bool { backends.contains { $0.kind == "apns" && $0.values.contains { $0.key == "key_file" } } }

    /// Puts the backends and sections into a draft.
    func fill(_ draft: inout ConfigurationDraft) {
        for backend in backends where draft.add(backend.name, kind: backend.kind) {
            for (key, value) in backend.values { draft.put(value, backend.name, [key]) }
        }
        draft.sections = sections
        draft.tls = tls
    }

    // MARK: Sections

    private mutating func convertServer(hasKey: Bool) {
        let address = file["core.address"] ?? "0.0.0.0"
        if Loopback.contains(host: address) || hasKey {
            host = address
        } else {
            remark(
                "core.address",
                "gorush listens for other machines and asks for no key; the new file has 127.0.0.1",
                "With --key-file admin.key the gateway gets an API key and the same address as before."
            )
        }
        if let text = file["core.port"] {
            if let number = Int(text), (1...65535).contains(number) {
                port = number
            } else {
                stop("core.port", "is not a port", "Write 1 to 65535.")
            }
        }
        guard file.isOn("core.ssl"), !file.isOn("core.auto_tls.enabled") else { return }
        let certificate = secret("core.cert_base64", file: "server.pem") ?? path("core.cert_path", or: "cert.pem")
        let key = secret("core.key_base64", file: "server.key") ?? path("core.key_path", or: "key.pem")
        tls = (certificate, key)
    }

    private mutating func convertApple() {
        guard file.isOn("ios.enabled") else { return }
        var values: [(key: String, value: String)] = []
        let named = file["ios.key_path"]
        let ending = named.map { ($0 as NSString).pathExtension }
        let form = (ending ?? file["ios.key_type"] ?? "pem").lowercased()
        let place = named == nil ? "ios.key_base64" : "ios.key_path"
        guard named != nil || file["ios.key_base64"] != nil else {
            return stop("ios.enabled", "has neither key_path nor key_base64", "Name the .p8 key in ios.key_path.")
        }
        guard ["p8", "pem", "p12"].contains(form) else {
            return stop(place, "is neither .p8 nor .pem nor .p12", "Name a key file that gorush can read.")
        }
        if form == "p12" {
            return stop(
                place,
                "is a PKCS#12 file",
                "Convert it, then name the result: openssl pkcs12 -legacy -in FILE.p12 -nodes -out FILE.pem"
            )
        }
        if file["ios.password"] != nil {
            return stop(
                "ios.password",
                "a key with a password cannot be read",
                "Write it without one: openssl pkey -in FILE.pem -out KEY.pem, beside the certificate, and leave password empty."
            )
        }
        let key = named == nil ? secret("ios.key_base64", file: "ios.\(form)") : path("ios.key_path", or: "")
        guard let key else { return }
        if form == "p8" {
            if let team = file["ios.team_id"] { values.append(("team_id", team)) }
            if let id = file["ios.key_id"] { values.append(("key_id", id)) }
            values.append(("key_file", key))
        } else {
            values.append(("certificate_file", key))
        }
        if let most = file["ios.max_concurrent_pushes"], most != "100" { values.append(("max_in_flight", most)) }
        // A request of gorush may name either host; the one that it takes by itself goes first.
        let isProduction = file.isOn("ios.production")
        let production = Backend(name: "ios", kind: "apns", values: values + [("environment", "production")])
        let development = Backend(name: "ios-dev", kind: "apns", values: values + [("environment", "development")])
        backends += isProduction ? [production, development] : [development, production]
    }

    private mutating func convertGoogle(_ environment: [String: String]) {
        guard file.isOn("android.enabled", default: true) else { return }
        let variable = environment["GOOGLE_APPLICATION_CREDENTIALS"].flatMap { $0.isEmpty ? nil : $0 }
        guard variable != nil || file.keys.contains(where: { $0.hasPrefix("android.") }) else {
            return remark(
                "android.enabled",
                "android is on where nothing is said of it, and has no credential, so it gets no backend",
                "Add one of kind fcm, with a service account's key file."
            )
        }
        let account: String
        if file["android.key_path"] != nil {
            account = path("android.key_path", or: "")
        } else if let text = file["android.credential"] {
            account = write(text, to: "android.json")
        } else if let variable {
            account = URL(filePath: variable).standardizedFileURL.path
        } else {
            let isLegacy = file["android.apikey"] != nil
            return stop(
                isLegacy ? "android.apikey" : "android.enabled",
                isLegacy ? "is a legacy key, which Google has ended" : "there is neither key_path nor credential",
                "Name a service account's key file in android.key_path (Firebase console, Project settings, Service accounts), "
                    + "or set android.enabled: false."
            )
        }
        backends.append(Backend(name: "android", kind: "fcm", values: [("service_account_file", account)]))
    }

    private mutating func convertHuawei() {
        guard file.isOn("huawei.enabled") else { return }
        var values: [(key: String, value: String)] = []
        if let app = file["huawei.appid"] { values.append(("app_id", app)) }
        if let secret = file["huawei.appsecret"] {
            values.append(("client_secret", "${file:\(write(secret + "\n", to: "huawei.client_secret.secret"))}"))
        }
        backends.append(Backend(name: "huawei", kind: "hms", values: values))
    }

    private mutating func convertProxy() {
        guard let proxy = file["core.http_proxy"] else { return }
        guard proxy.lowercased().hasPrefix("http://") else {
            return remark("core.http_proxy", "only http:// proxies can be used", "Set the key proxy of each backend.")
        }
        // The address may hold a password.
        let value = proxy.contains("@") ? "${file:\(write(proxy + "\n", to: "proxy.secret"))}" : proxy
        for place in backends.indices where backends[place].kind != "hms" {
            backends[place].values.append(("proxy", value))
        }
    }

    private mutating func convertLog() {
        var values: [String] = []
        if file["log.format"]?.lowercased() == "json" { values.append("format: json") }
        if let level = file["log.error_level"]?.lowercased(), ["debug", "info", "warn", "warning"].contains(level) {
            values.append("level: \(level == "warn" ? "warning" : level)")
        }
        if !values.isEmpty { sections.append("log: { \(values.joined(separator: ", ")) }") }
        if let log = file["log.access_log"], log != "stdout", log != "stderr" {
            let target = ConfigurationDraft.scalar(path("log.access_log", or: log))
            sections.append("access_log: { path: \(target) }")
        }
        if let log = file["log.error_log"], log != "stderr", log != "stdout" {
            remark(
                "log.error_log",
                "the log goes to standard error",
                "Let the service manager keep it, such as journald."
            )
        }
    }

    private mutating func convertQueue() {
        guard let text = file["core.shutdown_timeout"] else { return }
        guard let seconds = Int(text), (0...3600).contains(seconds) else {
            return remark("core.shutdown_timeout", "is not 0 to 3600 seconds", "Set queue.drain.")
        }
        sections.append("queue: { drain: \(seconds) }")
    }

    /// Keys of the module, each with the one of gorush's that it takes the place of.
    private static let paths = [
        ("push", "push_uri"), ("stat_app", "stat_app_uri"), ("config", "config_uri"), ("sys_stat", "sys_stat_uri"),
        ("metric", "metric_uri"), ("health", "health_uri"),
    ]

    /// Lets the gateway answer the requests of gorush's callers.
    private mutating func convertDoor() {
        var parts: [String] = []
        if backends.contains(where: { $0.kind == "apns" }) {
            let word = file.isOn("ios.production") ? "production" : "development"
            parts.append("ios: { production: ios, development: ios-dev, default: \(word) }")
        }
        for (platform, kind) in [("android", "fcm"), ("huawei", "hms")]
        where backends.contains(where: { $0.kind == kind }) {
            parts.append("\(platform): \(platform)")
        }
        guard !parts.isEmpty else { return }
        if let text = file["core.max_notification"] {
            if let number = Int(text), (1...500).contains(number) {
                if number != 100 { parts.append("max_notification: \(number)") }
            } else {
                remark("core.max_notification", "is not 1 to 500", "Set gorush.max_notification.")
            }
        }
        if file.isOn("core.sync") { parts.append("sync: true") }
        if file["log.hide_token"] != nil, file.isOn("log.hide_token") { parts.append("hide_tokens: true") }
        var paths: [String] = []
        for (key, name) in Self.paths {
            guard let path = file["api.\(name)"], path != Self.lost.first(where: { $0.key == "api.\(name)" })?.standard
            else { continue }
            paths.append("\(key): \(ConfigurationDraft.scalar(path))")
        }
        if !paths.isEmpty { parts.append("paths: { \(paths.joined(separator: ", ")) }") }
        sections.append("gorush: { \(parts.joined(separator: ", ")) }")
    }

    /// Whether the module has a counterpart of a key.
    private func isAtDoor(_ key: String) -> Bool {
        hasDoor
            && (["core.max_notification", "core.sync", "log.hide_token"].contains(key)
                || Self.paths.contains { "api.\($0.1)" == key })
    }

    // MARK: Keys without a counterpart

    /// Keys without a counterpart: the value that needs none, and what is said of any other.
    private static let lost: [(key: String, standard: String, problem: String, fix: String)] = [
        ("core.enabled", "true", "the gateway always serves its API", "Bind it to 127.0.0.1."),
        ("core.mode", "release", "has no counterpart", "Set log.level."),
        ("core.worker_num", "0", "has no counterpart", "Workers follow the platforms' limits: see max_in_flight."),
        ("core.queue_num", "0", "has no counterpart", "The queue is on disk: see queue.max_waiting."),
        ("core.max_notification", "100", "has no counterpart", "A batch takes up to 1,000 notifications."),
        (
            "core.sync", "false", "an answer comes when the message is on disk, before the platform's",
            "Read GET /v1/notifications/ID/deliveries, or the stream GET /v1/events."
        ),
        (
            "core.feedback_hook_url", "", "what is posted to an address has another form, and is signed",
            "Write webhooks.feedback_url with the address: docs/Webhooks.md."
        ),
        ("core.pid.enabled", "false", "no file with the process number is written", "The service manager keeps it."),
        (
            "core.auto_tls.enabled", "false", "no certificate is fetched from Let's Encrypt",
            "Put a proxy before the gateway that does: docs/Security.md has one for Caddy."
        ),
        ("grpc.enabled", "false", "there is no gRPC", "Send the same requests over HTTP: docs/FromGorush.md."),
        ("api.push_uri", "/api/push", moved, see), ("api.stat_go_uri", "/api/stat/go", moved, see),
        ("api.stat_app_uri", "/api/stat/app", moved, see), ("api.config_uri", "/api/config", moved, see),
        ("api.sys_stat_uri", "/sys/stats", moved, see), ("api.metric_uri", "/metrics", moved, see),
        ("api.health_uri", "/healthz", moved, see),
        ("ios.max_retry", "0", retried, "See options.ttl."), ("android.max_retry", "0", retried, "See options.ttl."),
        ("huawei.max_retry", "0", retried, "See options.ttl."),
        (
            "queue.engine", "local", "the queue is a part of the store",
            "Let gorush empty its queue before you stop it. Several gateways share a store of kind postgres."
        ),
        ("stat.engine", "memory", "counters begin at 0", "Prometheus keeps what /metrics says."),
        ("log.hide_token", "true", "logs never hold a token", "Read GET /v1/notifications/ID/deliveries."),
        ("log.hide_messages", "false", "logs never hold a message", "Leave it out."),
    ]
    private static let moved = "paths of the API are fixed"
    private static let see = "See docs/FromGorush.md."
    private static let retried = "a message is tried until its time to live ends"

    /// Keys that were converted, or that say nothing without another one.
    private static let settled: Set<String> = [
        "core.address", "core.port", "core.shutdown_timeout", "core.ssl", "core.cert_path", "core.key_path",
        "core.cert_base64", "core.key_base64", "core.http_proxy", "core.feedback_timeout", "core.feedback_header",
        "core.pid.path", "core.pid.override", "core.auto_tls.folder", "core.auto_tls.host", "grpc.port", "ios.enabled",
        "ios.key_path", "ios.key_base64", "ios.key_type", "ios.password", "ios.production", "ios.key_id", "ios.team_id",
        "ios.max_concurrent_pushes", "android.enabled", "android.key_path", "android.credential", "android.apikey",
        "huawei.enabled", "huawei.appid", "huawei.appsecret", "log.format", "log.access_log", "log.access_level",
        "log.error_log", "log.error_level",
    ]
    /// Sections of engines, of which the engine is named.
    private static let engines = [
        "queue.nsq.", "queue.nats.", "queue.redis.", "stat.redis.", "stat.boltdb.", "stat.buntdb.", "stat.leveldb.",
        "stat.badgerdb.",
    ]

    private mutating func nameTheRest(_ environment: [String: String]) {
        for (key, standard, problem, fix) in Self.lost {
            guard let value = file[key] else { continue }
            let isSwitch = ["true", "false"].contains(standard)
            let isUsual = isSwitch ? file.isOn(key) == (standard == "true") : value.lowercased() == standard
            if !isUsual, !isAtDoor(key) { remark(key, problem, fix) }
        }
        let known = Self.settled.union(Self.lost.map(\.key))
        for key in file.keys where !known.contains(key) && !Self.engines.contains(where: { key.hasPrefix($0) }) {
            let isSection = known.contains { $0.hasPrefix(key + ".") }
            if !isSection { remark(key, "gorush does not know this key either, and reads over it", "Leave it out.") }
        }
        let variables = environment.keys.filter { $0.hasPrefix("GORUSH_") }.sorted()
        if !variables.isEmpty {
            remarks.append(
                ConfigIssue(
                    path: "",
                    origin: ConfigOrigin(file: file.path),
                    problem: "gorush reads these before the file's keys: \(variables.joined(separator: ", "))",
                    fix: "Write them into the file and convert again."
                )
            )
        }
    }

    // MARK: Values

    private mutating func remark(_ key: String, _ problem: String, _ fix: String) {
        remarks.append(ConfigIssue(path: key, origin: file.origin(of: key), problem: problem, fix: fix))
    }

    private mutating func stop(_ key: String, _ problem: String, _ fix: String) {
        stops.append(ConfigIssue(path: key, origin: file.origin(of: key), problem: problem, fix: fix))
    }

    /// Returns the full path of a file that a key names; a relative one is looked for beside the old file first.
    private func path(_ key: String, or standard: String) -> String {
        let named = file[key] ?? standard
        guard !named.hasPrefix("/") else { return named }
        let old = URL(filePath: file.path).deletingLastPathComponent()
        let beside = old.appending(path: named).standardizedFileURL.path
        return FileManager.default.fileExists(atPath: beside) ? beside : URL(filePath: named).standardizedFileURL.path
    }

    /// Plans a file beside the new configuration and returns its path.
    private mutating func write(_ text: String, to name: String) -> String {
        let path = folder.appending(path: name).standardizedFileURL.path
        secrets.append((path, text))
        return path
    }

    /// Plans a file of a key in base64 and returns its path; nil without the key, or with one that is no base64.
    private mutating func secret(_ key: String, file name: String) -> String? {
        guard let text = file[key] else { return nil }
        guard let data = Data(base64Encoded: text, options: .ignoreUnknownCharacters),
            let decoded = String(validating: data, as: UTF8.self)
        else {
            stop(key, "is not the base64 of a text in PEM", "Name a file in its place.")
            return nil
        }
        return write(decoded, to: name)
    }
}
