internal import Foundation
internal import ChaparCore

/// Builds the calls of one `send`: encodes each request once for each kind of recipient, and adds the recipient's own
/// values to each call.
///
/// Messages that can be found faulty without Google are refused here and never sent, and so are messages to a part that
/// is paused. Nothing here waits.
struct FCMBatch {
    /// The recipient of a call's outcome, with the properties that decide its meaning.
    struct Slot: Sendable {
        var request: Int32
        var recipient: Int32
        var target: FCMTarget.Class
        var isDryRun: Bool
        var isRepeatHarmful: Bool

        func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: Int(request), recipient: Int(recipient), outcome: outcome)
        }
    }

    let started: Date
    private(set) var calls: [HTTPCall] = []
    private(set) var slots: [Slot] = []
    /// The reports of recipients that are refused without a request to Google.
    private(set) var refused: [DeliveryReport] = []
    private let template: HTTPCallTemplate
    private let path: String
    private let label: String?
    private let broadcast: BroadcastRule
    private let pauses: FCMPartialPauses
    /// The time after it was last seen from which an Android device gets no messages; nil for no limit.
    private let staleAfter: Duration?
    /// The start of the send, by the clock of pauses.
    private let steady: Date

    init(
        started: Date,
        room: Int,
        template: HTTPCallTemplate,
        path: String,
        label: String?,
        broadcast: BroadcastRule,
        pauses: FCMPartialPauses,
        staleAfter: Duration?,
        steady: Date
    ) {
        self.started = started
        self.template = template
        self.path = path
        self.label = label
        self.broadcast = broadcast
        self.pauses = pauses
        self.staleAfter = staleAfter
        self.steady = steady
        calls.reserveCapacity(room)
        slots.reserveCapacity(room)
    }

    /// Adds the calls of a request.
    mutating func add(_ request: PushRequest, at index: Int) {
        let notification = request.notification
        let overrides =
            notification.overrides.isEmpty
            ? nil : notification.overrides[FCMBackend.kind.rawValue].map { FCMOverrides($0) }
        if let fault = FCMCheck.faults(notification, overrides: overrides).first {
            for place in request.recipients.indices { refuse(index, place, Refusal(fault)) }
            return
        }
        guard let life = FCMPayload.Life(request, now: Int64(clamping: started.timeIntervalSince1970)) else {
            for place in request.recipients.indices { refuse(index, place, .expired) }
            return
        }
        let payload = FCMPayload(notification: notification, overrides: overrides, label: label, life: life)
        var bodies = BodyCache(payload)
        for (place, addressee) in request.recipients.enumerated() {
            do throws(FCMTarget.Mistake) {
                let target = try FCMTarget(addressee.recipient)
                if !target.kind.isToken, let refusal = broadcast.refusal(of: addressee.recipient) {
                    refuse(index, place, refusal)
                } else {
                    add(addressee, target, index, place, &bodies)
                }
            } catch {
                refuse(index, place, Self.refusal(error, addressee.recipient, started))
            }
        }
    }

    private mutating func add(
        _ addressee: Addressee,
        _ target: FCMTarget,
        _ index: Int,
        _ place: Int,
        _ bodies: inout BodyCache
    ) {
        if let refusal = pauses.refusal(of: target.kind, at: steady) { return refuse(index, place, refusal) }
        if target.kind == .android, let refusal = stale(addressee.lastSeen) { return refuse(index, place, refusal) }
        switch bodies.body(for: target.kind, language: addressee.language) {
        case .failure(let fault): refuse(index, place, fault.refusal)
        case .success(let body):
            calls.append(HTTPCall(template, path: path, body: body.completed(for: target, id: addressee.messageID)))
            slots.append(
                Slot(
                    request: Int32(clamping: index),
                    recipient: Int32(clamping: place),
                    target: target.kind,
                    isDryRun: bodies.isDryRun,
                    isRepeatHarmful: bodies.isRepeatHarmful
                )
            )
        }
    }

    // MARK: Refusals without a request

    private mutating func refuse(_ index: Int, _ place: Int, _ refusal: Refusal) {
        refused.append(DeliveryReport(request: index, recipient: place, outcome: .refused(refusal)))
    }

    /// Returns the refusal of an Android device that was not seen for too long; nil for any other device.
    private func stale(_ lastSeen: Date?) -> Refusal? {
        guard let staleAfter, let lastSeen, started.timeIntervalSince(lastSeen) > staleAfter.inSeconds else {
            return nil
        }
        return Refusal(
            .token,
            reason: "stale_token",
            detail:
                "The app was last seen on \(RFC3339.string(lastSeen)): FCM drops tokens of Android devices that it has "
                + "not seen for 270 days.",
            advice: .never
        )
    }

    private static func refusal(_ mistake: FCMTarget.Mistake, _ recipient: Recipient, _ started: Date) -> Refusal {
        func message(_ reason: String, _ detail: String) -> Refusal {
            Refusal(.message, reason: reason, detail: detail, advice: .never)
        }
        switch mistake {
        case .malformedToken:
            return Refusal(
                .token,
                reason: "malformed_token",
                detail: "Not an FCM token: it must have 1 to 4,096 characters, without blanks.",
                advice: .never,
                invalidation: .init(asOf: started, isCertain: false)
            )
        case .malformedTopic:
            return message("malformed_topic", FCMTopic.malformedName)
        case .malformedCondition:
            return message("malformed_condition", FCMTopic.malformedCondition)
        case .unsupported:
            return message(
                "unsupported_recipient",
                "FCM takes tokens of android-firebase, ios-firebase, web-firebase and x-firebase, topics and conditions: not "
                    + recipient.form.rawValue + (recipient.form == .token ? " of another service." : ".")
            )
        }
    }
}

/// Encodes a message once for each kind of recipient and each language.
private struct BodyCache {
    private struct Key: Hashable {
        let kind: FCMTarget.Class
        let language: String?
    }

    private let payload: FCMPayload
    private let isLocalized: Bool
    /// The body used last: nearly every message has only one.
    private var latest: (key: Key, body: Result<FCMBody, MessageFault>)?
    private var others: [Key: Result<FCMBody, MessageFault>] = [:]

    init(_ payload: FCMPayload) {
        self.payload = payload
        isLocalized = payload.notification.isLocalized
    }

    var isDryRun: Bool { payload.notification.isDryRun }
    var isRepeatHarmful: Bool { payload.overrides?.isRepeatHarmful ?? false }

    mutating func body(for kind: FCMTarget.Class, language: String?) -> Result<FCMBody, MessageFault> {
        let key = Key(kind: kind, language: isLocalized ? language : nil)
        if let latest, latest.key == key { return latest.body }
        let body = others[key] ?? make(key)
        // The usual request has one kind of recipient and one language, and needs no table.
        if let latest { others[latest.key] = latest.body }
        latest = (key, body)
        return body
    }

    private func make(_ key: Key) -> Result<FCMBody, MessageFault> {
        if let fault = FCMCheck.faults(payload.notification, for: key.kind).first { return .failure(.init(fault)) }
        return payload.body(for: key.kind, language: key.language)
    }
}
