import ChaparCore

/// The settings of the module: its paths, and the backends of gorush's platforms.
public struct GorushOptions: Sendable {
    /// The environment of Apple's that an entry is sent to.
    enum Environment: String, CaseIterable, Sendable {
        case production
        case development
    }

    /// The backends of one of Apple's apps, by environment.
    struct Apple: Sendable, Equatable {
        var production: String?
        var development: String?

        func backend(_ environment: Environment) -> String? {
            environment == .production ? production : development
        }
    }

    /// A path of gorush's that a configuration may change.
    enum Path: String, CaseIterable, Sendable {
        case push
        case appStatistics = "stat_app"
        case configuration = "config"
        case systemStatistics = "sys_stat"
        case metrics = "metric"
        case health

        var standard: String {
            switch self {
            case .push: "/api/push"
            case .appStatistics: "/api/stat/app"
            case .configuration: "/api/config"
            case .systemStatistics: "/sys/stats"
            case .metrics: "/metrics"
            case .health: "/healthz"
            }
        }
    }

    /// The longest time to live of a message, in seconds: 28 days, FCM's limit.
    static let longestLife: Int64 = 2_419_200
    /// The time for which gorush asks Huawei to keep a message, in seconds: a day.
    static let huaweiLife: Int64 = 86_400

    /// The text before each path; empty, or with a slash at its beginning and none at its end.
    var prefix = ""
    /// The paths behind the prefix.
    var paths: [Path: String] = [:]
    /// The backends of platform 1; nil when it is not configured.
    var apple: Apple?
    /// The environment of entries that name none.
    var environment = Environment.development
    /// The backends of apps with other topics.
    var topics: [String: Apple] = [:]
    /// The backend of platform 2.
    var google: String?
    /// The backend of platform 3.
    var huawei: String?
    /// The backends of other apps of Huawei's, by their id.
    var huaweiApps: [String: String] = [:]
    /// The most entries of a request.
    var maximumNotifications = 100
    /// The largest body, in bytes.
    var maximumBody = 8 << 20
    /// Whether an answer waits for those of the platforms.
    var isSync = false
    /// How long it waits at most.
    var syncTimeout = Duration.seconds(30)
    /// The time to live of entries that name none, in seconds.
    var defaultLife = Self.longestLife
    /// Whether logs show tokens masked.
    var hidesTokens = false

    /// Makes options without any platform.
    init() {}

    /// Returns a path as callers write it.
    func path(_ path: Path) -> String { prefix + (paths[path] ?? path.standard) }

    /// Returns the backends of an app's topic, which may have the suffix of a push type.
    func apple(topic: String) -> Apple? {
        let fits = topics.keys.filter { topic == $0 || topic.hasPrefix($0 + ".") }
        return fits.max { $0.utf8.count < $1.utf8.count }.flatMap { topics[$0] } ?? apple
    }
}

extension GorushOptions {
    /// Reads the section `gorush`; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        self.init()
        readPaths(section)
        readApple(section)
        google = Self.backend(section, "android")
        huawei = Self.backend(section, "huawei")
        for app in section.sections("huawei_apps") {
            let id = app.requiredString("app_id", "the id that requests name, such as \"1002\"")
            let backend = Self.backend(app, "backend")
            if backend == nil, !app.has("backend") { app.missing("backend", "the backend of this app") }
            if let id { huaweiApps[id] = backend }
            app.finish()
        }
        maximumNotifications = section.integer("max_notification", in: 1...500, default: maximumNotifications)
        maximumBody = section.integer("max_body", in: 1024...(64 << 20), default: maximumBody)
        isSync = section.bool("sync", default: false)
        syncTimeout = section.seconds("sync_timeout", in: 0.1...300, default: syncTimeout)
        defaultLife = Int64(
            section.integer("default_ttl", in: 0...Int(Self.longestLife), default: Int(Self.longestLife))
        )
        hidesTokens = section.bool("hide_tokens", default: false)
        if apple == nil, topics.isEmpty, google == nil, huawei == nil, huaweiApps.isEmpty,
            section.report.issues.count == before
        {
            section.missing("android", "the backend of platform 2, or ios or huawei, whichever are used")
        }
        guard section.report.issues.count == before else { return nil }
    }

    private mutating func readPaths(_ section: ConfigSection) {
        if var prefix = section.string("prefix") {
            while prefix.hasSuffix("/") { prefix.removeLast() }
            if prefix.isEmpty || Self.isPath(prefix) {
                self.prefix = prefix
            } else {
                section.reject("prefix", "is not a path", fix: "Write one such as /gorush.")
            }
        }
        guard let own = section.section("paths") else { return }
        for path in Path.allCases {
            guard let text = own.string(path.rawValue) else { continue }
            if Self.isPath(text), text != "/" {
                paths[path] = text
            } else {
                own.reject(path.rawValue, "is not a path", fix: "Write one such as \(path.standard).")
            }
        }
        let all = Path.allCases.map(self.path)
        if Set(all).count < all.count { section.reject("paths", "has the same path twice") }
        own.finish()
    }

    private mutating func readApple(_ section: ConfigSection) {
        guard let own = section.section("ios") else { return }
        apple = Self.apple(own)
        environment =
            own.choice("default")
            ?? (apple?.development == nil && apple?.production != nil ? .production : .development)
        for app in own.sections("apps") {
            let topic = app.requiredString("topic", "the app's bundle ID, such as com.example.news")
            let backends = Self.apple(app)
            if backends == nil, !app.has("production"), !app.has("development") {
                app.missing("production", "the backend of kind apns for this app, or development")
            }
            if let topic { topics[topic] = backends }
            app.finish()
        }
        if apple == nil, topics.isEmpty {
            own.missing("production", "the backend of kind apns for Apple's production host, or development")
        }
        own.finish()
    }

    private static func apple(_ section: ConfigSection) -> Apple? {
        let apple = Apple(
            production: backend(section, "production"),
            development: backend(section, "development")
        )
        return apple == Apple() ? nil : apple
    }

    private static func backend(_ section: ConfigSection, _ key: String) -> String? {
        guard let name = section.string(key) else { return nil }
        guard BackendRegistry.isName(name) else {
            section.reject(key, "is not the name of a backend", fix: "Write a name that stands under backends.")
            return nil
        }
        return name
    }

    private static func isPath(_ text: String) -> Bool {
        text.hasPrefix("/") && !text.contains("//") && text.utf8.count <= 128
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                    UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}
