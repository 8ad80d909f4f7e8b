internal import Foundation
internal import ChaparCore

/// A message to one browser, with the attempts that were made.
struct WebPushItem: Sendable {
    let request: Int
    let recipient: Int
    let subscription: WebPushSubscription
    let trust: WebPushHosts.Trust
    let id: MessageID
    let plaintext: WebPushBody
    /// The fields that all recipients of the request share.
    let fields: [HTTPHeader]
    /// The topic; nil where the message has none, or the service refused it.
    var topic: String?
    /// The encrypted body, made for the first attempt.
    var body: [UInt8] = []
    /// The index of the VAPID key.
    var key = 0
    /// The indexes of the keys that are not the subscription's, by the service's answers.
    var refusedKeys: Set<Int> = []
    /// The start of the attempt whose VAPID token was refused; nil when none was, or another key is used since.
    var refusedSince: Date?
    /// Whether a token was signed anew for the message.
    var isSignedAnew = false

    /// Where the message goes.
    var origin: HTTPEndpoint { subscription.address.endpoint }

    func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
        DeliveryReport(request: request, recipient: recipient, outcome: outcome)
    }
}

/// The messages of one `send`, and the recipients that are refused without a request.
struct WebPushBatch {
    /// The messages to send.
    private(set) var items: [WebPushItem] = []
    /// The reports of recipients to whom nothing is sent.
    private(set) var refused: [DeliveryReport] = []

    private let options: WebPushOptions
    private let lanes: WebPushLanes
    private let started: Date

    init(_ requests: [PushRequest], _ options: WebPushOptions, _ lanes: WebPushLanes, started: Date) {
        self.options = options
        self.lanes = lanes
        self.started = started
        for (index, request) in requests.enumerated() { add(request, at: index) }
    }

    private mutating func add(_ request: PushRequest, at index: Int) {
        guard let life = life(of: request) else {
            for place in request.recipients.indices { refuse(index, place, .expired) }
            return
        }
        let payload = WebPushPayload(request.notification, options.payload)
        let fault = WebPushCheck.faults(payload).first.map { MessageFault($0).refusal }
        let fields = [
            HTTPHeader("ttl", "\(life)"), HTTPHeader("urgency", payload.urgency.rawValue),
        ]
        let topic = request.notification.collapseID.map { WebPushTopic.text(of: $0) }
        let isLocalized = request.notification.isLocalized
        var bodies: [String?: Result<WebPushBody, MessageFault>] = [:]
        for (place, addressee) in request.recipients.enumerated() {
            guard case .token(let token) = addressee.recipient, token.service == .webPush else {
                refuse(index, place, Self.unsupported)
                continue
            }
            if let fault {
                refuse(index, place, fault)
                continue
            }
            let subscription: WebPushSubscription
            let trust: WebPushHosts.Trust
            do throws(WebPushSubscription.Mistake) {
                subscription = try WebPushSubscription(token.value)
                trust = try options.hosts.trust(in: subscription.address.endpoint)
            } catch {
                refuse(index, place, Self.malformed(error, started))
                continue
            }
            if subscription.hasEnded(at: started) {
                refuse(index, place, Self.ended(started))
                continue
            }
            let language = isLocalized ? addressee.language : nil
            let body = bodies[language] ?? payload.body(in: language)
            bodies[language] = body
            switch body {
            case .failure(let fault): refuse(index, place, fault.refusal)
            case .success where request.notification.isDryRun:
                let outcome = DeliveryOutcome.accepted(Acceptance(isDryRun: true))
                refused.append(DeliveryReport(request: index, recipient: place, outcome: outcome))
            case .success(let body):
                if let refusal = lanes.admit(subscription.address.endpoint, at: started) {
                    refuse(index, place, refusal)
                    continue
                }
                items.append(
                    WebPushItem(
                        request: index,
                        recipient: place,
                        subscription: subscription,
                        trust: trust,
                        id: addressee.messageID,
                        plaintext: body,
                        fields: fields + Self.cachePolicy(subscription.address, life: life),
                        topic: topic
                    )
                )
            }
        }
    }

    /// Returns the value of `TTL`, which every request must have; nil when no time is left.
    private func life(of request: PushRequest) -> Int64? {
        switch request.remaining(now: started) {
        case .platformDefault: Int64(clamping: options.timeToLive.inSeconds)
        case .now: 0
        case .seconds(let left): min(left, WebPushOptions.longestLife)
        case .over: nil
        }
    }

    /// Returns the field that tells Microsoft's service whether to keep a message.
    ///
    /// Without it the service refuses a `TTL` that does not fit its default.
    private static func cachePolicy(_ address: HTTPAddress, life: Int64) -> [HTTPHeader] {
        guard address.endpoint.isBelow("notify.windows.com") || address.path.hasPrefix("/w/?token=") else { return [] }
        return [HTTPHeader("x-wns-cache-policy", life == 0 ? "no-cache" : "cache")]
    }

    // MARK: Refusals without a request

    private mutating func refuse(_ index: Int, _ place: Int, _ refusal: Refusal) {
        refused.append(DeliveryReport(request: index, recipient: place, outcome: .refused(refusal)))
    }

    private static let unsupported = Refusal(
        .message,
        reason: "unsupported_recipient",
        detail: "Web Push takes tokens of web-push only.",
        advice: .never
    )

    private static func malformed(_ mistake: WebPushSubscription.Mistake, _ started: Date) -> Refusal {
        Refusal(
            .token,
            reason: "malformed_token",
            detail: "Not a subscription: \(mistake.problem).",
            advice: .never,
            invalidation: .init(asOf: started, isCertain: false)
        )
    }

    private static func ended(_ started: Date) -> Refusal {
        Refusal(
            .token,
            reason: "subscription_ended",
            detail: "The browser has ended the subscription (expirationTime).",
            advice: .never,
            invalidation: .init(asOf: started, isCertain: false)
        )
    }
}
