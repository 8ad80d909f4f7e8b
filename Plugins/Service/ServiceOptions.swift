public import ChaparCore
import ChaparOAuth

/// The address of a service, the secrets that sign requests to it, and its audience.
public struct ServiceOptions: Sendable {
    /// The address that batches are posted to.
    public var url: HTTPBaseURL
    /// The secret that signs requests.
    public var secret: Secret
    /// The secret that signs requests as well, while the service changes over from one secret to the other.
    public var previousSecret: Secret?
    /// Whom the service can reach.
    public var audience: BackendAudience
    /// The most recipients in one request, 1 to 1,000.
    public var batchSize: Int
    /// The largest message that the service takes, in bytes of its JSON, 256 to 1,048,576.
    public var maximumMessageBytes: Int
    /// Whether a second copy of a message does harm: false where the service drops repeats of an id, as the contract
    /// requires.
    public var isRepeatHarmful: Bool
    /// How to connect.
    public var common: CommonBackendOptions

    /// Makes options; a hundred recipients a request and messages of 64 KiB.
    public init(
        url: HTTPBaseURL,
        secret: Secret,
        previousSecret: Secret? = nil,
        audience: BackendAudience,
        batchSize: Int = 100,
        maximumMessageBytes: Int = 65_536,
        isRepeatHarmful: Bool = false,
        common: CommonBackendOptions = CommonBackendOptions(maximumConnections: 8)
    ) {
        self.url = url
        self.secret = secret
        self.previousSecret = previousSecret
        self.audience = audience
        self.batchSize = min(max(batchSize, 1), 1_000)
        self.maximumMessageBytes = min(max(maximumMessageBytes, 256), 1_048_576)
        self.isRepeatHarmful = isRepeatHarmful
        self.common = common
    }
}

extension ServiceOptions {
    /// The forms of recipients other than tokens; tokens are chosen by their services.
    private static let forms: [Recipient.Form] = [.device, .user, .platformID, .topic, .tags, .everyone]

    /// Reads a section; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let common = CommonBackendOptions(section, readsBase: false, connections: 8)
        if !section.has("url") { section.missing("url", "where batches are posted to, as https://host/path") }
        let url = section.baseURL("url")
        if !section.has("secret") { section.missing("secret", "24 bytes or more, as \"${SERVICE_SECRET}\"") }
        let (secret, previous) = (section.secret("secret"), section.secret("previous_secret"))
        for (key, secret) in [("secret", secret), ("previous_secret", previous)] {
            guard let secret else { continue }
            do throws(ServiceAuth.Mistake) {
                _ = try ServiceAuth([secret])
            } catch {
                section.reject(key, error.problem, fix: error.fix)
            }
        }
        let audience = Self.audience(section)
        let batchSize = section.integer("batch_size", in: 1...1_000, default: 100)
        let bytes = section.integer("max_message_bytes", in: 256...1_048_576, default: 65_536)
        let isHarmful = section.bool("repeats_harm", default: false)
        guard let url, let secret, section.report.issues.count == before else { return nil }
        self.init(
            url: url,
            secret: secret,
            previousSecret: previous,
            audience: audience,
            batchSize: batchSize,
            maximumMessageBytes: bytes,
            isRepeatHarmful: isHarmful,
            common: common
        )
    }

    private static func audience(_ section: ConfigSection) -> BackendAudience {
        var audience = BackendAudience()
        for word in section.strings("services") ?? [] {
            if let service = TokenService.named(word) ?? TokenService.named(word.lowercased()) {
                audience.services.insert(service)
            } else {
                section.rejectWord("services", word, TokenService.known.map(\.rawValue) + ["x-name"])
            }
        }
        for word in section.strings("recipients") ?? [] {
            let name = Suggestion.same(as: word, among: forms.map(\.rawValue))
            if let form = forms.first(where: { $0.rawValue == name }) {
                audience.forms.insert(form)
            } else {
                section.rejectWord("recipients", word, forms.map(\.rawValue))
            }
        }
        audience.broadcast = BroadcastRule(section)
        if !section.has("services"), !section.has("recipients") {
            section.missing("services", "the token services whose tokens it takes, or recipients: [user, …]")
        }
        return audience
    }
}
