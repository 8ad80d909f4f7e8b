public import ChaparCore

/// The options of a ``RuStoreBackend``, read from its section of a configuration file or set in code.
public struct RuStoreOptions: Sendable {
    /// The API that a backend sends through, which follows from the SDK that the app is built with.
    ///
    /// Neither reaches the tokens of the other: RuStore would answer 200, and the app would throw the message away.
    @nonexhaustive
    public enum Mode: String, Sendable, CaseIterable {
        /// For apps with the SDK `pushclient`, whose tokens are of the service `android-rustore`.
        case direct
        /// For apps with the SDK `universalpush`, whose tokens are of the service `android-rustore-universal`; it has
        /// topics.
        case universal
    }

    /// The project's id in the RuStore console.
    public var projectID: String
    /// The project's service token; empty where a strategy authorizes the requests.
    public var serviceToken: Secret
    /// The API that messages go through.
    public var mode: Mode
    /// The protocol of the connections.
    public var version = HTTPPoolConfiguration.Version.http2
    /// Whether a message may go to every installation of the app, and which topics reach all of them.
    public var broadcast = BroadcastRule()
    /// The options that every backend has: address, trust, deadline, proxy, connections.
    public var common = CommonBackendOptions(timeout: .seconds(15))

    /// Makes options in code, for RuStore's own hosts.
    public init(projectID: String, serviceToken: Secret, mode: Mode = .direct) {
        self.projectID = projectID
        self.serviceToken = serviceToken
        self.mode = mode
    }

    static let directHost = HTTPEndpoint(host: "vkpns.rustore.ru")
    static let universalHost = HTTPEndpoint(host: "vkpns-universal.rustore.ru")

    /// Where messages go.
    var endpoint: HTTPEndpoint {
        common.address.endpoint(platform: mode == .direct ? Self.directHost : Self.universalHost)
    }

    /// The path of a message to a token.
    var sendPath: String { mode == .direct ? "/v1/projects/\(projectID)/messages:send" : "/v1/send" }
    /// The path of a message to a topic.
    static let topicPath = "/v1/send/topic"

    /// The service whose tokens it reaches.
    var service: TokenService { mode == .direct ? .androidRuStore : .androidRuStoreUniversal }

    /// The text around the messages of its API.
    var frame: RuStoreFrame {
        mode == .direct ? .direct : .universal(projectID: projectID, serviceToken: serviceToken)
    }

    var pool: HTTPPoolConfiguration {
        var pool = HTTPPoolConfiguration(endpoint: endpoint, version: version)
        common.apply(to: &pool)
        pool.endpoint = endpoint
        return pool
    }
}

extension RuStoreOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    public init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let common = CommonBackendOptions(section, timeout: .seconds(15))
        if common.address.scheme == .http {
            section.reject("base_url", "RuStore speaks TLS only", fix: "Write https://…")
        }
        let mode = section.choice("mode", default: Mode.direct)
        let project = section.requiredString("project_id", "the project's id: RuStore console, Push notifications")
        if let project, !Self.isProject(project) {
            section.reject("project_id", "\"\(project)\" is not a project's id", fix: "Copy it from RuStore's console.")
        }
        let token = Self.serviceToken(section, mode)
        let version = section.integer("http_version", in: 1...2, default: 2)
        var broadcast = BroadcastRule()
        if mode == .universal {
            broadcast = BroadcastRule(section)
        } else {
            for key in ["allow_broadcast", "everyone_topics"] where section.has(key) {
                section.allow(key)
                section.reject(key, "is about topics, which only mode: universal has", fix: "Leave it out.")
            }
        }
        guard let project, let token, section.report.issues.count == before else { return nil }
        self.init(projectID: project, serviceToken: token, mode: mode)
        self.version = version == 1 ? .http1 : .http2
        self.broadcast = broadcast
        self.common = common
    }

    /// Reads the service token; empty where `auth` stands in its place.
    private static func serviceToken(_ section: ConfigSection, _ mode: Mode) -> Secret? {
        let token = section.secret("service_token")
        if section.has("auth") {
            section.allow("auth")
            if mode == .universal {
                section.reject("auth", "does not go with mode: universal", fix: "Its service token is in the body.")
            } else if section.has("service_token") {
                section.reject("service_token", "stands beside auth", fix: "Keep one of the two.")
            }
            return Secret("")
        }
        guard let token else {
            if !section.has("service_token") {
                section.missing("service_token", "the project's service token, as \"${RUSTORE_TOKEN}\"")
            }
            return nil
        }
        let text = token.reveal()
        if !(1...4096).contains(text.utf8.count) || !text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
            section.reject("service_token", "is empty or holds characters that no token has")
        }
        return token
    }

    /// Whether a text can stand in the path.
    static func isProject(_ text: String) -> Bool {
        (1...100).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}
