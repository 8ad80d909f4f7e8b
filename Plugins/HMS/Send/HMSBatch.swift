import Foundation
import ChaparCore

/// Gathers the recipients of one `send` into as few requests as Huawei's rules allow.
///
/// The delivery worker hands over hundreds of requests at once, often with one recipient each. Those with the same
/// content and the same end go out together, and a message is encoded once for all of them. Messages that can be found
/// faulty without Huawei are refused here and never sent.
struct HMSBatch {
    /// The properties that recipients share when they go out together.
    private struct Key: Hashable {
        var notification: PushNotification
        var expiration: PushRequest.Expiration?
        var language: String?
        var form: HMSPayload.Form

        func hash(into hasher: inout Hasher) {
            hasher.combine(form)
            hasher.combine(language)
            hasher.combine(notification.title)
            hasher.combine(notification.body)
            hasher.combine(notification.collapseID)
            // Personal messages often differ in their data alone, so its values are part of the hash.
            var sum = 0
            for (name, value) in notification.data {
                var member = Hasher()
                member.combine(name)
                member.combine(value)
                sum &+= member.finalize()
            }
            hasher.combine(sum)
        }
    }

    /// Recipients that get one message, before they are cut into requests.
    private final class Group {
        let message: Result<HMSPayload, MessageFault>
        var tokens: [String] = []
        var indices: [String: Int32] = [:]
        var slots: [HMSBatchRequest.Slot] = []

        init(_ message: Result<HMSPayload, MessageFault>) { self.message = message }
    }

    let started: Date
    /// The reports of recipients that are refused without a request to Huawei.
    private(set) var refused: [DeliveryReport] = []
    private var groups: [Key: Group] = [:]
    private var order: [Group] = []
    private var audiences: [HMSBatchRequest] = []
    private let options: HMSOptions
    private let pauses: HMSTokenPauses
    private let isDemoted: Bool

    init(started: Date, options: HMSOptions, pauses: HMSTokenPauses, isDemoted: Bool) {
        self.started = started
        self.options = options
        self.pauses = pauses
        self.isDemoted = isDemoted
    }

    /// The requests to send.
    var batchRequests: [HMSBatchRequest] {
        var batchRequests = audiences
        for group in order {
            guard case .success(let message) = group.message, !group.tokens.isEmpty else { continue }
            let whole = HMSBatchRequest(
                message,
                to: .tokens(group.tokens),
                slots: group.slots,
                awaitsReceipts: options.receipts != nil
            )
            batchRequests += whole.split(options.batchSize)
        }
        return batchRequests
    }

    /// Adds the recipients of a request.
    mutating func add(_ request: PushRequest, at index: Int) {
        let isLocalized = request.notification.isLocalized
        let isOver = request.remaining(now: started) == .over
        // The recipients of a request share its group, unless they differ in language or platform.
        var last: (form: HMSPayload.Form, language: String?, group: Group)?
        for (position, addressee) in request.recipients.enumerated() {
            let slot = HMSBatchRequest.Slot(
                request: Int32(clamping: index),
                recipient: Int32(clamping: position),
                token: 0,
                isReplay: addressee.isReplay
            )
            guard !isOver else {
                refuse(slot, .expired)
                continue
            }
            let language = isLocalized ? addressee.language : nil
            switch addressee.recipient {
            case .token(let token) where form(of: token.service) != nil:
                let form = form(of: token.service) ?? .android
                let group: Group
                if let last, last.form == form, last.language == language {
                    group = last.group
                } else {
                    group = self.group(request, form, language)
                    last = (form, language, group)
                }
                add(token.value, slot, to: group, isSilent: request.notification.isSilent)
            case .topic(let name) where !options.isHarmony:
                let target = HMSTarget.topics(name)
                if target != nil, let refusal = options.broadcast.refusal(of: addressee.recipient) {
                    refuse(slot, refusal)
                } else {
                    addAudience(target, slot, request, language)
                }
            default:
                refuse(slot, unsupported(addressee.recipient))
            }
        }
    }

    /// Returns the form of a message to a token of a service; nil when this generation of the API does not take it.
    private func form(of service: TokenService) -> HMSPayload.Form? {
        HMSPayload.Form(service, isHarmony: options.isHarmony)
    }

    private mutating func add(_ token: String, _ slot: HMSBatchRequest.Slot, to group: Group, isSilent: Bool) {
        if case .failure(let fault) = group.message { return refuse(slot, fault.refusal) }
        guard HMSToken.problem(in: token) == nil else { return refuse(slot, malformed) }
        if let refusal = pauses.refusal(of: token, isSilent: isSilent, at: started) { return refuse(slot, refusal) }
        var slot = slot
        let next = Int32(clamping: group.tokens.count)
        // A repeated token is sent once; all recipients that have it get the same outcome.
        let index = group.indices[token] ?? next
        if index == next {
            group.indices[token] = next
            group.tokens.append(token)
        }
        slot.token = index
        group.slots.append(slot)
    }

    /// Adds a topic or a condition; a nil target is refused as malformed.
    private mutating func addAudience(
        _ target: HMSTarget?,
        _ slot: HMSBatchRequest.Slot,
        _ request: PushRequest,
        _ language: String?
    ) {
        let group = group(request, .audience, language)
        switch group.message {
        case .failure(let fault): refuse(slot, fault.refusal)
        case .success(let message):
            guard let target else { return refuse(slot, Self.badTopic) }
            audiences.append(HMSBatchRequest(message, to: target, slots: [slot], awaitsReceipts: false))
        }
    }

    private mutating func group(_ request: PushRequest, _ form: HMSPayload.Form, _ language: String?) -> Group {
        let key = Key(
            notification: request.notification,
            expiration: request.expiration,
            language: language,
            form: form
        )
        if let group = groups[key] { return group }
        let message = HMSPayload.make(
            request,
            form: form,
            language: language,
            options: options,
            now: started,
            isDemoted: isDemoted
        )
        let group = Group(message)
        groups[key] = group
        order.append(group)
        return group
    }

    // MARK: Refusals without a request

    private mutating func refuse(_ slot: HMSBatchRequest.Slot, _ refusal: Refusal) {
        refused.append(
            DeliveryReport(request: Int(slot.request), recipient: Int(slot.recipient), outcome: .refused(refusal))
        )
    }

    private var malformed: Refusal {
        Refusal(
            .token,
            reason: "malformed_token",
            detail: "Not a Huawei token: it must be 1 to 1024 printable characters without blanks.",
            advice: .never,
            invalidation: .init(asOf: started, isCertain: false)
        )
    }

    private static let badTopic = Refusal(
        .message,
        reason: "bad_topic",
        detail: HMSTarget.badTopic,
        advice: .never
    )

    private func unsupported(_ recipient: Recipient) -> Refusal {
        let taken = options.isHarmony ? "harmony-huawei" : "android-huawei and ios-huawei, and topics"
        return Refusal(
            .message,
            reason: "unsupported_recipient",
            detail: "Huawei takes tokens of \(taken): not \(recipient.form.rawValue)"
                + (recipient.form == .token ? " of another service." : "."),
            advice: .never
        )
    }
}

/// The form of Huawei's device tokens: opaque, with no fixed length.
enum HMSToken {
    /// Returns the problem of a text as a token; nil when there is none.
    static func problem(in token: String) -> String? {
        let count = token.utf8.count
        if count == 0 { return "it is empty" }
        if count > 1024 { return "it has \(count) characters; 1024 is the most" }
        for byte in token.utf8 where byte <= 0x20 || byte >= 0x7F {
            return "it holds a blank or something that is not printable ASCII"
        }
        return nil
    }
}
