public import ChaparCore

/// The result of looking a device up: its live tokens, and the language of its user.
///
/// An array literal of tokens makes a device whose language is not known.
public struct ResolvedDevice: Sendable, ExpressibleByArrayLiteral {
    /// The language tag, such as `fa` or `pt-BR`, by which localized texts are chosen; nil for their default.
    public let language: String?
    let tokens: [RecipientResolver.KindToken]

    /// Makes a device; the preferred tokens come first.
    public init(_ tokens: [DeviceToken], language: String? = nil) {
        self.init(kindTokens: tokens.map { .init(token: $0) }, language: language)
    }

    /// Makes a device whose language is not known.
    public init(arrayLiteral tokens: DeviceToken...) { self.init(tokens) }

    /// Makes a device with tokens of several kinds.
    package init(kindTokens: [RecipientResolver.KindToken], language: String?) {
        tokens = kindTokens
        self.language = language
    }
}

/// Turns a device into its tokens and its language.
///
/// So each backend of a group gets the token of its own service, and users get localized texts in their language. A raw
/// token is not looked up: it goes only to backends of its service, in the language that the caller gives.
public struct RecipientResolver: Sendable {
    private let deadline: Duration
    private let time: any TimeSource
    private let devices: @Sendable ([String]) async throws -> [String: ResolvedDevice]

    /// A live token of a device, and its kind.
    package struct KindToken: Sendable {
        var token: DeviceToken
        var kind = TokenKind.device

        package init(token: DeviceToken, kind: TokenKind = .device) {
            self.token = token
            self.kind = kind
        }
    }

    /// Makes a resolver.
    ///
    /// - Parameters:
    ///   - deadline: The longest time a look-up may take.
    ///   - devices: Returns the devices by their ids, with their live tokens; devices that do not exist are left out.
    ///     At most 1,000 ids at a time.
    public init(
        deadline: Duration = .seconds(5),
        devices: @escaping @Sendable ([String]) async throws -> [String: ResolvedDevice]
    ) {
        self.init(
            deadline: deadline,
            time: SystemTime(),
            devices: devices
        )
    }

    /// Does the same with a clock of its own, for tests.
    package init(
        deadline: Duration = .seconds(5),
        time: any TimeSource,
        devices: @escaping @Sendable ([String]) async throws -> [String: ResolvedDevice]
    ) {
        self.deadline = deadline
        self.time = time
        self.devices = devices
    }

    /// The most devices of one look-up.
    static let largestLookup = 1_000

    /// Returns the devices that exist; nil when they could not be looked up.
    func resolve(_ ids: [String]) async -> [String: ResolvedDevice]? {
        var all: [String: ResolvedDevice] = [:]
        var rest = ids[...]
        while !rest.isEmpty {
            let ids = Array(rest.prefix(Self.largestLookup))
            rest = rest.dropFirst(ids.count)
            guard let found = try? await Deadline.run(deadline, time: time, { try await devices(ids) }) else {
                return nil
            }
            all.merge(found) { first, _ in first }
        }
        return all
    }
}

/// The recipients of a batch in the form that each member of a group can address.
struct ResolvedBatch: Sendable {
    /// The devices of the batch; nil when the look-up failed.
    private let devices: [String: ResolvedDevice]?

    init(_ requests: [PushRequest], resolver: RecipientResolver?) async {
        var ids: Set<String> = []
        if resolver != nil {
            for request in requests {
                for case .device(let id) in request.recipients.lazy.map(\.recipient) { ids.insert(id) }
            }
        }
        guard let resolver, !ids.isEmpty else {
            devices = [:]
            return
        }
        devices = await resolver.resolve(ids.sorted())
    }

    /// Returns the recipient in the form that a backend takes; nil when the backend cannot address it.
    ///
    /// - Parameters:
    ///   - recipient: The recipient.
    ///   - audience: The recipients that the backend can address.
    ///   - use: Which of a device's tokens the notification goes to (``PushBackend/tokenUse(of:)``).
    /// - Returns: The recipient, or a token in its place.
    func address(_ recipient: Recipient, for audience: BackendAudience, _ use: TokenUse?) -> Recipient? {
        if audience.contains(recipient) { return recipient }
        guard case .device(let id) = recipient, let use else { return nil }
        let token = devices?[id]?.tokens.first { $0.kind == use.kind && audience.services.contains($0.token.service) }
        return token.map { .token($0.token) }
    }

    /// Returns an addressee with the language of its device, unless it has one of its own.
    func localized(_ addressee: Addressee) -> Addressee {
        guard addressee.language == nil, case .device(let id) = addressee.recipient,
            let language = devices?[id]?.language
        else { return addressee }
        var localized = addressee
        localized.language = language
        return localized
    }

    /// Returns the refusal of a recipient that no backend can address.
    func refusal(of recipient: Recipient) -> Refusal {
        guard case .device = recipient else {
            return Refusal(
                .message,
                reason: GatewayReason.notAddressable,
                detail: "none of the backends can address a recipient of this form or token service",
                advice: .never
            )
        }
        if devices == nil {
            return Refusal(
                .platform,
                reason: GatewayReason.resolverFailed,
                detail: "the device's tokens could not be looked up",
                advice: .retry(after: nil)
            )
        }
        return Refusal(
            .token,
            reason: GatewayReason.noToken,
            detail: "the device has no live token of a service and kind that one of the backends takes",
            advice: .never
        )
    }
}
