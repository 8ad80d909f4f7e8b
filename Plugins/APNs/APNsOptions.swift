public import Foundation
public import ChaparCore

/// The options of an ``APNsBackend``, read from its section of a configuration file or set in code.
public struct APNsOptions: Sendable {
    /// The two environments of Apple's tokens: builds run from Xcode have development tokens, all others production
    /// tokens.
    @nonexhaustive
    public enum Environment: String, Sendable, CaseIterable {
        /// App Store, TestFlight, enterprise and ad hoc builds.
        case production
        /// Builds run from Xcode.
        case development

        /// The environment of the tokens that the host takes.
        var ofTokens: TokenEnvironment { self == .production ? .production : .development }
    }

    /// The kinds of credential that a backend can send with.
    @nonexhaustive
    public enum Credential: Sendable {
        /// A team's key, which signs provider tokens; key id and team id have 10 characters each.
        case key(APNsAuthKey, keyID: String, teamID: String)
        /// A client certificate.
        case certificate(APNsCertificate)
        /// The strategy of a relay before Apple, instead of Apple's own credentials.
        case strategy(any AuthStrategy)
    }

    /// The credential that the backend sends with.
    public var credential: Credential
    /// The app's bundle id.
    public var topic: String
    /// The environment, which decides Apple's host.
    public var environment: Environment
    /// The port: 443, or 2197 where a firewall blocks 443; both take the same requests.
    public var port: Int
    /// The address of broadcasts; nil is the address of all other sends.
    public var broadcastEndpoint: HTTPEndpoint?
    /// The address where broadcast channels are managed; nil when it is not known, as with a `base_url` that has no
    /// `manage_url` beside it.
    public var managementEndpoint: HTTPEndpoint?
    /// The options that every backend has: address, trust, deadline, proxy, connections.
    public var common = CommonBackendOptions()

    /// Makes options in code, for Apple's own hosts.
    public init(
        credential: Credential,
        topic: String,
        environment: Environment = .production,
        port: Int = 443
    ) {
        self.credential = credential
        self.topic = topic
        self.environment = environment
        self.port = port
        managementEndpoint = Self.management(environment)
    }

    /// Whether requests carry a provider token: this backend's, or that of the relay that they go through.
    var hasProviderToken: Bool { if case .certificate = credential { false } else { true } }

    /// The strategy that authorizes requests to a relay; nil where Apple's own credentials are used.
    var strategy: (any AuthStrategy)? { if case .strategy(let strategy) = credential { strategy } else { nil } }

    /// Where pushes go.
    var endpoint: HTTPEndpoint { common.address.endpoint(platform: Self.host(environment, port)) }

    static func host(_ environment: Environment, _ port: Int) -> HTTPEndpoint {
        HTTPEndpoint(
            host: environment == .production ? "api.push.apple.com" : "api.sandbox.push.apple.com",
            port: port
        )
    }

    static func management(_ environment: Environment) -> HTTPEndpoint {
        environment == .production
            ? HTTPEndpoint(host: "api-manage-broadcast.push.apple.com", port: 2196)
            : HTTPEndpoint(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
    }

    /// Returns the configuration of the pool for one of the endpoints.
    func pool(_ endpoint: HTTPEndpoint, policy: any HTTPConnectionPolicy) -> HTTPPoolConfiguration {
        var pool = HTTPPoolConfiguration(endpoint: endpoint, version: .http2)
        common.apply(to: &pool)
        pool.endpoint = endpoint
        pool.policy = policy
        if case .certificate(let certificate) = credential { pool.clientCertificate = certificate.pair }
        return pool
    }
}

extension APNsOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    ///
    /// `auth` makes the strategy that the key `auth` asks for instead of Apple's credentials, from the options that
    /// every backend has.
    public init?(
        _ section: ConfigSection,
        auth: (ConfigSection, CommonBackendOptions) -> (any AuthStrategy)? = { _, _ in nil }
    ) {
        let before = section.report.issues.count
        let environment = Self.environment(section)
        let port = section.integer("port", in: 1...65535, default: 443)
        if port != 443, port != 2197 {
            section.reject("port", "APNs listens on 443 and 2197 only", fix: "For another server set base_url.")
        }
        let common = CommonBackendOptions(section)
        let broadcast = section.endpoint("broadcast_url")
        let management = section.endpoint("manage_url")
        let schemes = [
            ("base_url", common.address.scheme), ("broadcast_url", broadcast?.scheme),
            ("manage_url", management?.scheme),
        ]
        for (key, scheme) in schemes where scheme == .http {
            section.reject(key, "APNs speaks TLS only", fix: "Write https://…")
        }
        let credential = Self.credential(section) { auth(section, common) }
        if section.has("auth"), common.address.isPlatform {
            section.reject(
                "auth",
                "is for a relay: Apple takes no other access tokens than its own",
                fix: "Set base_url."
            )
        }
        let topic = Self.topic(section, credential)
        if case .certificate(let certificate)? = credential, !certificate.fits(environment) {
            section.reject(
                "certificate_file",
                "is not good for \(environment.rawValue)",
                fix: "Change environment, or use a certificate made for \(environment.rawValue)."
            )
        }
        guard let credential, let topic, section.report.issues.count == before else { return nil }
        self.init(credential: credential, topic: topic, environment: environment, port: port)
        self.common = common
        broadcastEndpoint = broadcast
        // A simulator's user must not manage channels at Apple by accident.
        managementEndpoint = management ?? (common.address.isPlatform ? Self.management(environment) : nil)
    }

    private enum Word: String, CaseIterable {
        case production
        case development
        case sandbox
    }

    private static func environment(_ section: ConfigSection) -> Environment {
        switch section.choice("environment", default: Word.production) {
        case .production: .production
        case .development, .sandbox: .development
        }
    }

    // MARK: Credentials

    private static func credential(
        _ section: ConfigSection,
        auth: () -> (any AuthStrategy)?
    ) -> Credential? {
        let tokenKeys = ["key_file", "key", "key_id", "team_id"].filter(section.has)
        let certificateKeys = ["certificate_file", "certificate_key_file"].filter(section.has)
        if section.has("auth") {
            for key in tokenKeys + certificateKeys {
                section.reject(key, "stands beside auth", fix: "Keep one of the two.")
                section.allow(key)
            }
            return auth().map { .strategy($0) }
        }
        // Both are read in any case: otherwise the keys of the other kind would be reported as unknown as well.
        let wantsCertificate = !certificateKeys.isEmpty && tokenKeys.isEmpty
        if let first = certificateKeys.first, !tokenKeys.isEmpty {
            section.reject(
                first,
                "cannot be used together with \(tokenKeys.joined(separator: ", "))",
                fix: "Apple ignores the token when there is a certificate: keep one of the two."
            )
        }
        let certificate = certificate(section, isWanted: wantsCertificate)
        let key = key(section, isWanted: !wantsCertificate)
        return wantsCertificate ? certificate : key
    }

    private static func key(_ section: ConfigSection, isWanted: Bool) -> Credential? {
        let pem = section.secret("key")
        let file = section.credentialFile("key_file")
        guard isWanted else {
            _ = section.string("key_id")
            _ = section.string("team_id")
            return nil
        }
        if pem != nil, file != nil { section.reject("key", "stands beside key_file", fix: "Keep one of the two.") }
        if !section.has("key"), !section.has("key_file") {
            section.missing("key_file", "the path of the AuthKey_….p8 file, or certificate_file for a certificate")
        }
        let keyID = id(section, "key_id", "the key's 10-character id: it stands in the name of the AuthKey_….p8 file")
        let teamID = id(section, "team_id", "the team's 10-character id: developer.apple.com, Membership details")
        guard let text = file ?? pem else { return nil }
        do throws(APNsAuthKey.Mistake) {
            let key = try APNsAuthKey(pem: text)
            guard let keyID, let teamID else { return nil }
            return .key(key, keyID: keyID, teamID: teamID)
        } catch {
            section.reject(file == nil ? "key" : "key_file", error.problem, fix: error.fix)
            return nil
        }
    }

    private static func id(_ section: ConfigSection, _ key: String, _ meaning: String) -> String? {
        guard let id = section.requiredString(key, meaning) else { return nil }
        let isAlphanumeric = id.utf8.allSatisfy {
            switch $0 {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
            default: false
            }
        }
        guard id.utf8.count == 10, isAlphanumeric else {
            let problem =
                id.utf8.count == 10
                ? "\"\(id)\" must hold capital letters and digits only" : "\"\(id)\" has \(id.count) characters, not 10"
            section.reject(key, problem, fix: "Write \(meaning).")
            return nil
        }
        return id
    }

    private static func certificate(_ section: ConfigSection, isWanted: Bool) -> Credential? {
        let chain = section.credentialFile("certificate_file")
        let keyFile = section.credentialFile("certificate_key_file")
        guard isWanted else { return nil }
        guard section.has("certificate_file") else {
            section.missing("certificate_file", "the path of the certificate that belongs to certificate_key_file, PEM")
            return nil
        }
        guard let chain else { return nil }
        // One file may hold both.
        let key = keyFile ?? (PEMReader.holdsKey(chain) ? chain : nil)
        if key == nil, !section.has("certificate_key_file") {
            section.missing("certificate_key_file", "the path of the certificate's private key, PEM")
        }
        guard let key else { return nil }
        do throws(APNsCertificate.Mistake) {
            return .certificate(try APNsCertificate(chainPEM: chain.reveal(), keyPEM: key))
        } catch {
            let isKey = error.part == .key && keyFile != nil
            section.reject(isKey ? "certificate_key_file" : "certificate_file", error.problem, fix: error.fix)
            return nil
        }
    }

    // MARK: Topic

    private static func topic(_ section: ConfigSection, _ credential: Credential?) -> String? {
        let meaning = "the app's bundle id, such as com.example.app"
        var certificate: APNsCertificate?
        if case .certificate(let own)? = credential { certificate = own }
        if let certificate, !section.has("topic"), certificate.topics.count == 1 {
            _ = section.string("topic")
            return certificate.topics.first
        }
        guard let topic = section.requiredString("topic", meaning) else { return nil }
        if let suffix = APNsPushType.suffix(of: topic) {
            section.reject(
                "topic",
                "\"\(topic)\" ends with \(suffix)",
                fix: "Write the bundle id alone: Chapar adds what a push type needs."
            )
            return nil
        }
        guard APNsHeaders.isTopic(topic) else {
            section.reject("topic", "\"\(topic)\" is not a bundle id", fix: "Write \(meaning).")
            return nil
        }
        if let certificate, !certificate.allows(topic) {
            let topics = certificate.topics
            let nearest = Suggestion.nearest(to: topic, among: topics).map { "Did you mean \"\($0)\"? " } ?? ""
            section.reject(
                "topic",
                "\"\(topic)\" is not in the certificate",
                fix: "\(nearest)It holds: \(topics.joined(separator: ", "))."
            )
            return nil
        }
        return topic
    }
}

extension APNsCertificate {
    /// Whether the certificate is valid for the host of an environment.
    func fits(_ environment: APNsOptions.Environment) -> Bool {
        environment == .production ? isForProduction : isForDevelopment
    }
}
