import Foundation
import ChaparCore
import ChaparOneSignalDevices

/// The division of a request: the recipients that are refused at once, and the requests to OneSignal for the others.
struct OneSignalBatch: Sendable {
    /// The reason of the refusal after which a chunk is halved.
    static let tooMany = "too_many_entries"

    /// Outcomes that need no request.
    private(set) var resolved: [(index: Int, outcome: DeliveryOutcome)] = []
    /// The requests.
    private(set) var chunks: [OneSignalBatchRequest] = []
    /// The recipients' places, by their delivery.
    private(set) var indices: [MessageID: [Int]] = [:]

    init(_ request: PushRequest, _ backend: OneSignalBackend, _ ledger: OneSignalLedger) async {
        let name = backend.backendName
        var groups: [OneSignalBatchRequest.Form: [OneSignalBatchRequest.Member]] = [:]
        var order: [OneSignalBatchRequest.Form] = []
        let open = request.notification.isDryRun ? [:] : await ledger.find(request.recipients.map(\.messageID))
        var repeated: [String: OneSignalBatchRequest] = [:]
        for (index, addressee) in request.recipients.enumerated() {
            if let chunk = open[addressee.messageID] {
                repeated[chunk.key] = chunk
                indices[addressee.messageID, default: []].append(index)
                continue
            }
            switch await Self.resolve(addressee.recipient, backend) {
            case .refused(let refusal): resolved.append((index, .refused(refusal)))
            case .target(let form, let target):
                if indices[addressee.messageID] == nil {
                    if groups[form] == nil { order.append(form) }
                    groups[form, default: []].append(.init(message: addressee.messageID, target: target))
                }
                indices[addressee.messageID, default: []].append(index)
            }
        }
        chunks = repeated.values.sorted { $0.key < $1.key }
        for form in order {
            chunks += Self.cut(groups[form] ?? [], form, Self.size(form, backend), name)
        }
    }

    /// Cuts members into chunks of at most `size` different targets; a repeated target joins the chunk of the first.
    static func cut(
        _ members: [OneSignalBatchRequest.Member],
        _ form: OneSignalBatchRequest.Form,
        _ size: Int,
        _ backend: String
    ) -> [OneSignalBatchRequest] {
        var chunks: [OneSignalBatchRequest] = []
        var current: [OneSignalBatchRequest.Member] = []
        var targets: Set<String> = []
        var chunkOf: [String: Int] = [:]
        var late: [Int: [OneSignalBatchRequest.Member]] = [:]
        for member in members {
            // Two devices with one id share a slot, also when the first stands in an earlier chunk.
            if let earlier = chunkOf[member.target], earlier < chunks.count {
                late[earlier, default: []].append(member)
                continue
            }
            if targets.count == size, !targets.contains(member.target) {
                chunks.append(OneSignalBatchRequest(form, current, backend: backend))
                (current, targets) = ([], [])
            }
            targets.insert(member.target)
            chunkOf[member.target] = chunks.count
            current.append(member)
        }
        if !current.isEmpty { chunks.append(OneSignalBatchRequest(form, current, backend: backend)) }
        for (index, members) in late {
            chunks[index] = OneSignalBatchRequest(form, chunks[index].members + members, backend: backend)
        }
        return chunks
    }

    private static func size(_ form: OneSignalBatchRequest.Form, _ backend: OneSignalBackend) -> Int {
        switch form {
        case .subscriptions, .users: backend.currentChunkSize
        case .tokens: min(2_000, backend.currentChunkSize)
        case .audience: 1
        }
    }

    /// External ids that OneSignal refuses, since they come from bugs.
    static let impossibleUsers: Set<String> = ["", "null", "NA", "undefined", "0", "-1", "none", "all", "1"]

    private enum Resolution {
        case target(OneSignalBatchRequest.Form, String)
        case refused(Refusal)
    }

    private static func resolve(_ recipient: Recipient, _ backend: OneSignalBackend) async -> Resolution {
        let found = await target(of: recipient, backend)
        guard case .target = found, let refusal = backend.audience.broadcast.refusal(of: recipient) else {
            return found
        }
        return .refused(refusal)
    }

    private static func target(of recipient: Recipient, _ backend: OneSignalBackend) async -> Resolution {
        func refuse(_ kind: Refusal.Kind, _ reason: String, _ detail: String) -> Resolution {
            .refused(Refusal(kind, reason: reason, detail: detail, advice: .never))
        }
        switch recipient {
        case .platformID(let id):
            guard let uuid = UUID(uuidString: id) else {
                return refuse(
                    .token,
                    "malformed_platform_id",
                    "OneSignal's ids are UUIDs: one that is not would make OneSignal refuse the whole request."
                )
            }
            return .target(.subscriptions, uuid.uuidString.lowercased())
        case .device(let id):
            do throws(PushError) {
                guard let record = try await backend.players.load(device: id) else {
                    return refuse(.token, Refusal.notRegistered, "The device was never registered with OneSignal.")
                }
                guard record.subscription != .unsubscribed, record.subscription != .declined else {
                    return refuse(.token, "unsubscribed", "The device does not want messages.")
                }
                return .target(.subscriptions, record.platformID)
            } catch {
                let refusal = Refusal(
                    .platform,
                    reason: "store_failed",
                    detail: error.message,
                    advice: .retry(after: nil)
                )
                return .refused(refusal)
            }
        case .user(let id):
            guard !impossibleUsers.contains(id) else {
                return refuse(.message, "bad_user", "OneSignal takes no such external id.")
            }
            return .target(.users, id)
        case .topic(let name):
            guard !name.allSatisfy(\.isWhitespace) else {
                return refuse(.message, "bad_topic", "The topic is empty: it names a segment.")
            }
            return .target(.audience(.segments([name])), "segment:\(name)")
        case .everyone:
            let name = backend.options.everyoneSegment
            return .target(.audience(.segments([name])), "segment:\(name)")
        case .tags(let filter):
            guard let filters = OneSignalFilter.filters(filter) else {
                return refuse(.message, "audience_empty", "The tags are empty, so they address no one.")
            }
            guard filters.count <= OneSignalFilter.limit else {
                return refuse(.message, "too_many_filters", "OneSignal takes \(OneSignalFilter.limit) filters.")
            }
            return .target(.audience(.filters(filters)), recipient.storedForm)
        case .token(let token):
            guard backend.audience.services.contains(token.service) else {
                return refuse(
                    .token,
                    "wrong_token_service",
                    "Send to the device's OneSignal id, or set allow_raw_tokens."
                )
            }
            return .target(.tokens(token.service), token.value)
        }
    }
}

extension OneSignalOutcomes {
    /// Reads an answer to a create.
    ///
    /// A success status is not enough: the id decides whether a message was made.
    init(_ answer: OneSignalAnswer, for chunk: OneSignalBatchRequest) {
        let isForAudience = if case .audience = chunk.form { true } else { false }
        guard (200..<300).contains(answer.status) else {
            var refusal = OneSignalRejections.refusal(answer)
            if OneSignalRejections.isTooMany(answer) { refusal.reason = OneSignalBatch.tooMany }
            self.init(outcome: .refused(refusal), isOpen: refusal.advice != .never)
            return
        }
        guard let body = answer.body, answer.id != nil || body["id"] == "" || !answer.faults.isEmpty else {
            let detail = "OneSignal's answer has neither an id nor errors."
            let unknown = UnknownOutcome(reason: "bad_answer", detail: detail)
            self.init(outcome: .unknown(unknown), isOpen: true)
            return
        }
        guard let id = answer.id else {
            self.init(outcome: .refused(Self.nobody(answer, isForAudience: isForAudience)))
            return
        }
        let yes = Acceptance(platformID: id, isForAudience: isForAudience, status: answer.status)
        self.init(outcome: .accepted(yes))
        if chunk.form == .subscriptions {
            for target in answer.entries("invalid_player_ids") + answer.entries("invalid_subscription_ids") {
                exceptions[target.lowercased()] = .refused(
                    Refusal(
                        .token,
                        reason: "unsubscribed",
                        detail: "OneSignal says that the device is not subscribed.",
                        status: answer.status,
                        advice: .never
                    )
                )
            }
        }
    }

    /// Returns the refusal for an answer that made no message although its status is a success.
    private static func nobody(_ answer: OneSignalAnswer, isForAudience: Bool) -> Refusal {
        if isForAudience {
            return Refusal(
                .message,
                reason: "nobody_matched",
                detail: answer.text ?? "The audience is empty.",
                status: answer.status,
                advice: .never
            )
        }
        return Refusal(
            .token,
            reason: "unsubscribed_or_unknown",
            detail: "OneSignal made no message: \(answer.text ?? "none of the recipients is subscribed").",
            status: answer.status,
            advice: .never
        )
    }
}
