public import ChaparCore

/// A backend with the name that plans, attempt logs and health use for it.
public struct NamedBackend: Sendable {
    /// The name, as in a configuration file.
    public let name: String
    /// The backend.
    public let backend: any PushBackend

    /// Names a backend.
    public init(_ name: String, _ backend: any PushBackend) {
        self.name = name
        self.backend = backend
    }
}

/// Several backends that act as one: the common base of ``FallbackBackend`` and ``FanOutBackend``.
///
/// A group has the abilities of all its members: writes go to every member with the ability, reads are answered by the
/// first member that knows the answer.
public protocol BackendGroup: PushBackend {
    /// The backends inside, in order.
    var members: [NamedBackend] { get }
    /// The resolver that turns recipients into those that a member can address; nil for none.
    var resolver: RecipientResolver? { get }
}

extension BackendGroup {
    /// The recipients that any member can address, and the forms that the resolver knows.
    public var audience: BackendAudience {
        var all = BackendAudience()
        for member in members {
            all.services.formUnion(member.backend.audience.services)
            all.forms.formUnion(member.backend.audience.forms)
        }
        if resolver != nil { all.forms.insert(.device) }
        all.broadcast = broadcast
        return all
    }

    /// Messages to every user are allowed if each member that can address all its users allows them.
    ///
    /// A member that does not allow such a message also refuses it in `send`.
    private var broadcast: BroadcastRule {
        let rules = members.map(\.backend.audience)
            .filter { !$0.forms.isDisjoint(with: [.topic, .tags, .everyone]) }
            .map(\.broadcast)
        return BroadcastRule(
            isAllowed: !rules.isEmpty && rules.allSatisfy(\.isAllowed),
            topics: rules.reduce(into: []) { $0.formUnion($1.topics) }
        )
    }

    /// Whether a second copy does harm at any member.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool {
        members.contains { $0.backend.isRepeatHarmful(notification) }
    }

    /// Returns the token use of the first member that takes such a message, preferring a use other than the app's own
    /// token.
    ///
    /// Callers that look tokens up for the group use this; with a ``resolver`` the group asks each member instead.
    public func tokenUse(of notification: PushNotification) -> TokenUse? {
        let uses = members.compactMap { $0.backend.tokenUse(of: notification) }
        return uses.first { $0.kind != .device } ?? uses.first
    }

    /// Returns the size at the member with the least room among those that take the recipient.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        members.filter { $0.backend.audience.contains(addressee.recipient) }
            .compactMap { $0.backend.payloadSize(of: notification, for: addressee) }
            .min { $0.room < $1.room }
    }

    /// Returns the message of the first member that takes the recipient and shows it.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        members.lazy.filter { $0.backend.audience.contains(addressee.recipient) }
            .compactMap { $0.backend.payload(of: notification, for: addressee) }.first
    }

    /// Returns the token in the form of the first member that takes it.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        try members.map(\.backend).checked(token)
    }

    /// Returns the first problem that a member has with the topic, when no member can send to it.
    public func problem(withTopic topic: String) -> String? {
        let problems = members.filter { $0.backend.audience.forms.contains(.topic) }
            .map { $0.backend.problem(withTopic: topic) }
        return problems.contains(nil) ? nil : problems.first ?? nil
    }

    /// Whether every member's platform keeps messages, since a message may go to any of them.
    public var schedulesMessages: Bool { members.allSatisfy(\.backend.schedulesMessages) }

    /// The combined health of the members: down when all are down, degraded when any is not well.
    public var health: BackendHealth {
        let states = members.map { ($0.name, $0.backend.health) }
        var all = BackendHealth()
        if states.contains(where: { $0.1.status != .ok }) {
            all.status = states.allSatisfy { $0.1.status == .down } ? .down : .degraded
        }
        let details = states.compactMap { name, state in state.detail.map { "\(name): \($0)" } }
        all.detail = details.isEmpty ? nil : details.joined(separator: "; ")
        for (name, state) in states {
            all.connections += state.connections
            all.inFlight += state.inFlight
            for (credential, end) in state.credentialExpiries { all.credentialExpiries["\(name).\(credential)"] = end }
        }
        return all
    }

    /// Returns the findings of every member, with its name before each check.
    public func diagnose() async -> [Diagnosis] {
        var all: [Diagnosis] = []
        for member in members {
            all += await member.backend.diagnose().map { finding in
                Diagnosis("\(member.name).\(finding.check)", finding.verdict, finding.finding, fix: finding.fix)
            }
        }
        return all
    }

    /// Shuts all members down at the same time.
    public func shutdown(grace: Duration) async {
        await withDiscardingTaskGroup { tasks in
            for member in members { tasks.addTask { await member.backend.shutdown(grace: grace) } }
        }
    }

    /// Registers devices at every member that keeps them; the id is the first member's.
    public var devices: (any DeviceRegistrar)? { GroupRegistrar(members.compactMap(\.backend.devices)) }
    /// Sets the status at every member that keeps subscriptions; reads from the first that knows one.
    public var subscriptions: (any SubscriptionManager)? {
        GroupSubscriptions(members.compactMap(\.backend.subscriptions))
    }
    /// Sets tags at every member that keeps them.
    public var tags: (any TagEditor)? { GroupTags(members.compactMap(\.backend.tags)) }
    /// Reports to the first member that takes the report.
    public var events: (any EventReporter)? { GroupEvents(members.compactMap(\.backend.events)) }
    /// Reports to every member that takes events of the app's own.
    public var customEvents: (any CustomEventReporter)? {
        GroupCustomEvents(members.compactMap(\.backend.customEvents))
    }
    /// Cancels at the first member that still can.
    public var cancellation: (any MessageCanceller)? { GroupCanceller(members.compactMap(\.backend.cancellation)) }
    /// The recall of the first member that has one, since nothing tells which member's a message is.
    public var recall: (any MessageRecaller)? { members.lazy.compactMap(\.backend.recall).first }
    /// Asks each member that takes the tokens' services.
    public var revocation: (any MessageRevoker)? { GroupRevoker(members.compactMap(\.backend.revocation)) }
    /// Looks a message up at one member after the other until one knows it.
    public var tracking: (any MessageTracker)? { GroupTracker(members.compactMap(\.backend.tracking)) }
    /// Passes a callback to one member after the other until one accepts it.
    public var receipts: (any ReceiptReader)? { GroupReceipts(members.compactMap(\.backend.receipts)) }
    /// The click reader of the first member that has one, since nothing tells which member's a click is.
    public var clicks: (any ClickReader)? { members.lazy.compactMap(\.backend.clicks).first }
    /// Adds each token to topics at every member that takes its service.
    public var topics: (any TopicManager)? { GroupTopics(members.compactMap(\.backend.topics)) }
    /// The channels of the first member that has them, since nothing tells which member's a channel is.
    public var channels: (any ChannelManager)? { members.lazy.compactMap(\.backend.channels).first }
    /// The token directory of the first member that has one.
    public var tokenDirectory: (any TokenDirectory)? { members.lazy.compactMap(\.backend.tokenDirectory).first }

    /// Watches all members' platforms.
    public func watch() async {
        await withDiscardingTaskGroup { tasks in
            for member in members { tasks.addTask { await member.backend.watch() } }
        }
    }

    /// Deletes what every member stores.
    public func forget(device: String?) async throws(PushError) {
        try await atEach(members.map(\.backend)) { member throws(PushError) in try await member.forget(device: device) }
    }

    /// Returns the findings of each member that takes recipients of the form.
    func checks(_ notification: PushNotification, for recipient: Recipient.Form) -> [PayloadCheck] {
        let takers = members.filter { member in
            let audience = member.backend.audience
            switch recipient {
            case .token: return !audience.services.isEmpty
            case .device: return audience.forms.contains(.device) || resolver != nil && !audience.services.isEmpty
            default: return audience.forms.contains(recipient)
            }
        }
        return takers.map { member in
            let isDirect = member.backend.audience.forms.contains(recipient)
            return member.backend.check(notification, for: recipient == .device && !isDirect ? .token : recipient)
        }
    }
}
