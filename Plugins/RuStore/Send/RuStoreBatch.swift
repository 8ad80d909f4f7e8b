internal import Foundation
internal import ChaparCore

/// Builds the calls of one `send`: encodes each request once for each language, and adds to each what is its own.
///
/// Messages that can be found faulty without RuStore are refused here and never sent. Dry runs end here too: RuStore
/// documents no way to check a message without sending it. Nothing here waits.
struct RuStoreBatch {
    /// Where a call's outcome belongs.
    struct Slot: Sendable {
        var request: Int32
        var recipient: Int32

        func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: Int(request), recipient: Int(recipient), outcome: outcome)
        }
    }

    let started: Date
    private(set) var calls: [HTTPCall] = []
    private(set) var slots: [Slot] = []
    /// The reports of recipients that need no request to RuStore.
    private(set) var done: [DeliveryReport] = []
    private let frame: RuStoreFrame
    private let service: TokenService
    private let broadcast: BroadcastRule
    private let template: HTTPCallTemplate
    private let paths: (token: String, topic: String)

    init(
        frame: RuStoreFrame,
        service: TokenService,
        broadcast: BroadcastRule,
        template: HTTPCallTemplate,
        paths: (token: String, topic: String),
        started: Date,
        room: Int
    ) {
        self.frame = frame
        self.service = service
        self.broadcast = broadcast
        self.template = template
        self.paths = paths
        self.started = started
        calls.reserveCapacity(room)
        slots.reserveCapacity(room)
    }

    /// Adds the calls of a request.
    mutating func add(_ request: PushRequest, at index: Int) {
        let notification = request.notification
        let overrides =
            notification.overrides.isEmpty
            ? nil : notification.overrides[RuStoreBackend.kind.rawValue].map { RuStoreOverrides($0) }
        var payload = RuStorePayload(notification: notification, overrides: overrides)
        if let fault = RuStoreCheck.faults(payload, in: frame).first {
            for place in request.recipients.indices { end(index, place, .refused(Refusal(fault))) }
            return
        }
        guard let life = RuStorePayload.Life(request, now: Int64(clamping: started.timeIntervalSince1970)) else {
            for place in request.recipients.indices { end(index, place, .refused(.expired)) }
            return
        }
        payload.life = life
        var bodies = BodyCache(payload, frame)
        for (place, addressee) in request.recipients.enumerated() {
            do throws(RuStoreTarget.Mistake) {
                let recipient = addressee.recipient
                let target = try RuStoreTarget(recipient, service: service, takesTopics: frame.isUniversal)
                if target.isTopic, let refusal = broadcast.refusal(of: recipient) {
                    end(index, place, .refused(refusal))
                } else {
                    add(addressee, target, index, place, &bodies)
                }
            } catch {
                end(index, place, .refused(refusal(error, addressee.recipient)))
            }
        }
    }

    private mutating func add(
        _ addressee: Addressee,
        _ target: RuStoreTarget,
        _ index: Int,
        _ place: Int,
        _ bodies: inout BodyCache
    ) {
        let body = bodies.body(language: addressee.language)
        let size = body.size(with: target)
        guard size <= RuStoreFrame.limit else {
            return end(index, place, .refused(Refusal(RuStoreCheck.tooLarge(size))))
        }
        guard !bodies.isDryRun else {
            return end(index, place, .accepted(Acceptance(isForAudience: target.isTopic, isDryRun: true)))
        }
        let path = target.isTopic ? paths.topic : paths.token
        calls.append(HTTPCall(template, path: path, body: body.completed(for: target, id: addressee.messageID)))
        slots.append(Slot(request: Int32(clamping: index), recipient: Int32(clamping: place)))
    }

    // MARK: Outcomes without a request

    private mutating func end(_ index: Int, _ place: Int, _ outcome: DeliveryOutcome) {
        done.append(DeliveryReport(request: index, recipient: place, outcome: outcome))
    }

    private func refusal(_ mistake: RuStoreTarget.Mistake, _ recipient: Recipient) -> Refusal {
        func message(_ reason: String, _ detail: String) -> Refusal {
            Refusal(.message, reason: reason, detail: detail, advice: .never)
        }
        switch mistake {
        case .malformedToken:
            return Refusal(
                .token,
                reason: "malformed_token",
                detail: "Not a RuStore token: it must have 1 to 4,096 characters, without blanks.",
                advice: .never,
                invalidation: .init(asOf: started, isCertain: false)
            )
        case .malformedTopic: return message("malformed_topic", RuStoreTarget.malformedTopic)
        case .unsupported:
            let taken = frame.isUniversal ? "tokens of \(service) and topics" : "tokens of \(service)"
            return message(
                "unsupported_recipient",
                "RuStore takes \(taken) in this mode: not \(recipient.form.rawValue)"
                    + (recipient.form == .token ? " of another service." : ".")
            )
        }
    }
}

/// Encodes a message for each language that differs, once.
private struct BodyCache {
    private let payload: RuStorePayload
    private let frame: RuStoreFrame
    private let isLocalized: Bool
    /// The body used last: nearly every message has only one.
    private var latest: (language: String?, body: RuStoreBody)?
    private var others: [String?: RuStoreBody] = [:]

    init(_ payload: RuStorePayload, _ frame: RuStoreFrame) {
        self.payload = payload
        self.frame = frame
        isLocalized = payload.notification.isLocalized
    }

    var isDryRun: Bool { payload.notification.isDryRun }

    mutating func body(language: String?) -> RuStoreBody {
        let language = isLocalized ? language : nil
        if let latest, latest.language == language { return latest.body }
        let body = others[language] ?? RuStoreBody(payload.encoded(language: language), in: frame)
        if let latest { others[latest.language] = latest.body }
        latest = (language, body)
        return body
    }
}
