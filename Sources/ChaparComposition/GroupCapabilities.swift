import ChaparCore

/// Calls `body` for every member, even after failures, and throws the first failure at the end.
func atEach<Member>(
    _ members: [Member],
    _ body: (Member) async throws(PushError) -> Void
) async throws(PushError) {
    var failure: PushError?
    for member in members {
        do throws(PushError) { try await body(member) } catch { failure = failure ?? error }
    }
    if let failure { throw failure }
}

/// Returns the first answer that is not nil; a failure counts only when no member answered.
private func firstAnswer<Member, Answer>(
    _ members: [Member],
    _ body: (Member) async throws(PushError) -> Answer?
) async throws(PushError) -> Answer? {
    var failure: PushError?
    for member in members {
        do throws(PushError) {
            if let answer = try await body(member) { return answer }
        } catch {
            failure = failure ?? error
        }
    }
    if let failure { throw failure }
    return nil
}

/// Returns the services of several members, each once, in their order.
private func union(of services: [[TokenService]]) -> [TokenService] {
    services.joined().reduce(into: []) { all, service in
        if !all.contains(service) { all.append(service) }
    }
}

/// Registers devices at every member.
struct GroupRegistrar: DeviceRegistrar {
    private let members: [any DeviceRegistrar]

    init?(_ members: [any DeviceRegistrar]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func accepts(_ device: DeviceRecord) -> Bool { members.contains { $0.accepts(device) } }
    func awaits(_ device: DeviceRecord) -> Bool { members.contains { $0.awaits(device) } }

    var stamp: String { members.map(\.stamp).joined(separator: "\n") }

    func register(_ device: DeviceRecord) async throws(PushError) -> String {
        var id: String?
        try await atEach(members.filter { $0.accepts(device) }) { member throws(PushError) in
            let own = try await member.register(device)
            id = id ?? own
        }
        guard let id else { throw PushError(.unsupported, "no backend of the group takes the device") }
        return id
    }

    func remove(_ device: DeviceRecord) async throws(PushError) {
        try await atEach(members) { member throws(PushError) in try await member.remove(device) }
    }
}

/// Manages subscriptions at every member.
///
/// ``BackendGroup`` makes it from the members that have the ability; without such members the group does not have the
/// ability. A write goes to all of these members, even after failures, and throws the first failure at the end. A read
/// asks one member after the other until one answers.
struct GroupSubscriptions: SubscriptionManager {
    private let members: [any SubscriptionManager]

    init?(_ members: [any SubscriptionManager]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func setStatus(_ status: SubscriptionStatus, of device: DeviceRecord) async throws(PushError) {
        try await atEach(members) { member throws(PushError) in try await member.setStatus(status, of: device) }
    }

    func status(of device: DeviceRecord) async throws(PushError) -> SubscriptionStatus? {
        try await firstAnswer(members) { member throws(PushError) in try await member.status(of: device) }
    }

    func issues(in change: SubscriptionChange, of device: DeviceRecord) -> [Finding] {
        members.flatMap { $0.issues(in: change, of: device) }
    }

    func change(
        _ change: SubscriptionChange,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        var answer = JSONObject()
        try await atEach(members) { member throws(PushError) in
            let own = try await member.change(change, of: device, as: attempt)
            answer = own.merging(answer)
        }
        return answer
    }

    func report(_ query: SubscriptionQuery, of device: DeviceRecord) async throws(PushError) -> SubscriptionReport {
        try await firstAnswer(members) { member throws(PushError) in
            let report = try await member.report(query, of: device)
            return report.status == nil ? nil : report
        } ?? SubscriptionReport(nil)
    }

    func resume(_ device: DeviceRecord) async throws(PushError) -> SubscriptionReport? {
        var report: SubscriptionReport?
        try await atEach(members) { member throws(PushError) in
            let own = try await member.resume(device)
            report = report ?? own
        }
        return report
    }
}

/// Edits tags at every member.
struct GroupTags: TagEditor {
    private let members: [any TagEditor]

    init?(_ members: [any TagEditor]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError) {
        try await atEach(members) { member throws(PushError) in try await member.setTags(tags, of: device) }
    }

    func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] {
        members.flatMap { $0.issues(in: tags, of: device) }
    }

    func edit(_ tags: JSONObject, of device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
    {
        var answer = JSONObject()
        try await atEach(members) { member throws(PushError) in
            let own = try await member.edit(tags, of: device, as: attempt)
            answer = own.merging(answer)
        }
        return answer
    }
}

/// Reports events to the first member that takes the report, which is the one that sent the message.
struct GroupEvents: EventReporter {
    private let members: [any EventReporter]

    init?(_ members: [any EventReporter]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func report(_ event: PushEvent, platformID: String, device: DeviceRecord) async throws(PushError) {
        _ = try await firstAnswer(members) { member throws(PushError) -> Bool? in
            try await member.report(event, platformID: platformID, device: device)
            return true
        }
    }

    func platformID(in payload: JSONObject) throws(PushError) -> String? {
        for member in members {
            if let id = try member.platformID(in: payload) { return id }
        }
        return nil
    }

    func report(
        _ event: PushEvent,
        platformID: String,
        device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        try await firstAnswer(members) { member throws(PushError) in
            try await member.report(event, platformID: platformID, device: device, as: attempt)
        } ?? JSONObject()
    }
}

/// Reports events of the app's own to every member.
struct GroupCustomEvents: CustomEventReporter {
    private let members: [any CustomEventReporter]

    init?(_ members: [any CustomEventReporter]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func issues(in event: CustomEvent, of device: DeviceRecord) -> [Finding] {
        members.flatMap { $0.issues(in: event, of: device) }
    }

    func report(
        _ event: CustomEvent,
        of device: DeviceRecord,
        as attempt: OutboxAttempt
    ) async throws(PushError) -> JSONObject {
        var answer = JSONObject()
        try await atEach(members) { member throws(PushError) in
            answer = answer.merging(try await member.report(event, of: device, as: attempt))
        }
        return answer
    }
}

/// Cancels at the member that sent the message.
struct GroupCanceller: MessageCanceller {
    private let members: [any MessageCanceller]

    init?(_ members: [any MessageCanceller]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func cancel(platformID: String) async throws(PushError) -> Bool {
        try await firstAnswer(members) { member throws(PushError) -> Bool? in
            try await member.cancel(platformID: platformID) ? true : nil
        } ?? false
    }
}

/// Takes a message back at each member, from the tokens whose services it takes.
struct GroupRevoker: MessageRevoker {
    private let members: [any MessageRevoker]

    init?(_ members: [any MessageRevoker]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    /// Those of all members, each once.
    var services: [TokenService] { union(of: members.map(\.services)) }

    /// The smallest limit of a member.
    var revocationLimit: Int { members.map(\.revocationLimit).min() ?? 1 }

    func revoke(_ trackingID: String, from tokens: [DeviceToken]) async throws(PushError) -> Bool {
        var isTaken = false
        for member in members {
            let own = tokens.filter { member.services.contains($0.service) }
            if !own.isEmpty, try await member.revoke(trackingID, from: own) { isTaken = true }
        }
        return isTaken
    }
}

/// Looks a message up at one member after the other until one knows it.
struct GroupTracker: MessageTracker {
    private let members: [any MessageTracker]

    init?(_ members: [any MessageTracker]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    func state(of platformID: String) async throws(PushError) -> DeliveryState? {
        try await firstAnswer(members) { member throws(PushError) in try await member.state(of: platformID) }
    }
}

/// Adds each token to topics at every member that takes its service.
///
/// ``BackendGroup`` makes it from the members that have topics. A member gets only tokens of services that it takes. A
/// token that no member takes is refused; a token at which a member failed has that failure as its outcome.
struct GroupTopics: TopicManager {
    private let members: [any TopicManager]

    init?(_ members: [any TopicManager]) {
        guard !members.isEmpty else { return nil }
        self.members = members
    }

    var services: [TokenService] { union(of: members.map(\.services)) }

    func subscribe(_ tokens: [DeviceToken], to topic: String) async throws(PushError) -> [TokenOutcome] {
        await atTakers(of: tokens) { member, tokens throws(PushError) in
            try await member.subscribe(tokens, to: topic)
        }
    }

    func unsubscribe(_ tokens: [DeviceToken], from topic: String) async throws(PushError) -> [TokenOutcome] {
        await atTakers(of: tokens) { member, tokens throws(PushError) in
            try await member.unsubscribe(tokens, from: topic)
        }
    }

    func topics(of token: DeviceToken) async throws(PushError) -> [TopicMembership]? {
        let takers = members.filter { $0.services.contains(token.service) }
        return try await firstAnswer(takers) { member throws(PushError) in try await member.topics(of: token) }
    }

    /// Passes each member the tokens that it takes; a token's outcome is the first that is not `done`.
    private func atTakers(
        of tokens: [DeviceToken],
        _ body: (any TopicManager, [DeviceToken]) async throws(PushError) -> [TokenOutcome]
    ) async -> [TokenOutcome] {
        var outcomes: [TokenOutcome?] = Array(repeating: nil, count: tokens.count)
        for member in members {
            let indices = tokens.indices.filter { member.services.contains(tokens[$0].service) }
            guard !indices.isEmpty else { continue }
            var own: [TokenOutcome]
            do throws(PushError) {
                own = try await body(member, indices.map { tokens[$0] })
            } catch {
                own = Array(repeating: .failed(error), count: indices.count)
            }
            for (index, outcome) in zip(indices, own) {
                switch outcomes[index] {
                case nil, .done?: outcomes[index] = outcome
                case .dead?, .refused?, .failed?: break
                }
            }
        }
        return outcomes.map { $0 ?? .refused("wrong_token_service") }
    }
}

/// Passes a callback to one member after the other until one accepts it.
struct GroupReceipts: ReceiptReader {
    private let first: any ReceiptReader
    private let others: [any ReceiptReader]

    init?(_ members: [any ReceiptReader]) {
        guard let first = members.first else { return nil }
        self.first = first
        others = Array(members.dropFirst())
    }

    /// The first member's, since the callback does not say which platform it answers.
    var acknowledgement: [UInt8] { first.acknowledgement }

    func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool {
        var needsBody = false
        for reader in others {
            switch try? reader.isAuthentic(head: callback) {
            case true?: return true
            case false?: needsBody = true
            case nil: break
            }
        }
        do throws(ReceiptRefusal) {
            return try first.isAuthentic(head: callback)
        } catch {
            if needsBody { return false }
            throw error
        }
    }

    func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
        for reader in others {
            if let receipts = try? reader.receipts(in: callback) { return receipts }
        }
        return try first.receipts(in: callback)
    }
}
