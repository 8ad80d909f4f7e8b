public import ChaparCore

/// Turns a device into its tokens, so that each backend of a group gets the token of its own service.
///
/// A raw token has no alternatives: it only goes to backends of its service.
public struct RecipientResolver: Sendable {
    private let deadline: Duration
    private let time: any TimeSource
    private let tokens: @Sendable ([String]) async throws -> [String: [KindToken]]

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
    ///   - time: The clock of the deadline.
    ///   - tokens: Returns the live tokens of devices by the devices' ids, the preferred ones first; devices that do
    ///     not exist are left out. At most 1,000 ids at a time.
    public init(
        deadline: Duration = .seconds(5),
        time: any TimeSource = SystemTime(),
        tokens: @escaping @Sendable ([String]) async throws -> [String: [DeviceToken]]
    ) {
        self.deadline = deadline
        self.time = time
        self.tokens = { ids in try await tokens(ids).mapValues { $0.map { KindToken(token: $0) } } }
    }

    /// Makes a resolver that knows the kind of each token.
    package init(
        deadline: Duration,
        time: any TimeSource,
        kindTokens: @escaping @Sendable ([String]) async throws -> [String: [KindToken]]
    ) {
        self.deadline = deadline
        self.time = time
        tokens = kindTokens
    }

    /// The most devices of one look-up.
    static let largestLookup = 1_000

    /// Returns the tokens of devices; nil when they could not be looked up.
    func resolve(_ devices: [String]) async -> [String: [KindToken]]? {
        var all: [String: [KindToken]] = [:]
        var rest = devices[...]
        while !rest.isEmpty {
            let ids = Array(rest.prefix(Self.largestLookup))
            rest = rest.dropFirst(ids.count)
            guard let found = try? await Deadline.run(deadline, time: time, { try await tokens(ids) }) else {
                return nil
            }
            all.merge(found) { first, _ in first }
        }
        return all
    }
}

/// The recipients of a batch in the form that each member of a group can address.
struct ResolvedBatch: Sendable {
    /// The tokens of the devices in the batch; nil when the look-up failed.
    private let tokens: [String: [RecipientResolver.KindToken]]?

    init(_ requests: [PushRequest], resolver: RecipientResolver?) async {
        var ids: Set<String> = []
        if resolver != nil {
            for request in requests {
                for case .device(let id) in request.recipients.lazy.map(\.recipient) { ids.insert(id) }
            }
        }
        guard let resolver, !ids.isEmpty else {
            tokens = [:]
            return
        }
        tokens = await resolver.resolve(ids.sorted())
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
        let token = tokens?[id]?.first { $0.kind == use.kind && audience.services.contains($0.token.service) }
        return token.map { .token($0.token) }
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
        if tokens == nil {
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
