internal import Foundation
public import ChaparCore
internal import Synchronization

/// Web Push: encrypted messages to the push service of each browser (RFC 8030, 8188, 8291, 8292).
///
/// A delivery worker, or a caller's own code, sends through it. It handles keys, encryption, limits and the meaning of
/// refusals. It does not queue. It retries within the same `send` in three cases only: once with a fresh VAPID token
/// after the token was refused, once with each further VAPID key after the subscription turned out to belong to another
/// key, and once without the topic after the topic was refused. Recipients are tokens of `web-push`, the JSON of a
/// subscription.
public final class WebPushBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "webpush"

    /// The number of messages that one task encrypts: the first ones are sent while others are encrypted.
    private static let share = 64

    /// `webpush`.
    public var kind: BackendKind { Self.kind }
    /// Subscriptions of browsers.
    public let audience = BackendAudience(services: [.webPush])

    let options: WebPushOptions
    let client: WebPushClient
    let auth: WebPushAuth
    let time: any TimeSource
    private let lanes = WebPushLanes()
    private let keys = WebPushKeyMemory()
    private let template: HTTPCallTemplate

    /// Makes a backend; nothing is opened before the first send.
    public init(options: WebPushOptions, context: BackendContext) {
        self.options = options
        client = WebPushClient(common: options.common, http: context.http)
        auth = WebPushAuth(keys: options.keys, subject: options.subject, lifetime: options.tokenLife)
        time = context.time
        template = HTTPCallTemplate(
            method: "POST",
            headers: [
                HTTPHeader("content-encoding", "aes128gcm"), HTTPHeader("content-type", "application/octet-stream"),
            ],
            deadline: options.common.timeout
        )
    }

    /// The public key for `applicationServerKey` of new subscriptions; nil without a key.
    public var applicationServerKey: String? { options.keys.first?.publicKey }

    /// Sends every message once and reports each answer as it comes.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let batch = WebPushBatch(requests, options, lanes, started: time.now)
        if !batch.refused.isEmpty { report(batch.refused) }
        let items = batch.items
        guard items.count > Self.share else { return await run(items, report) }
        await withDiscardingTaskGroup { group in
            for start in stride(from: 0, to: items.count, by: Self.share) {
                let part = Array(items[start..<min(start + Self.share, items.count)])
                group.addTask { await self.run(part, report) }
            }
        }
    }

    /// Encrypts and sends messages, and sends a message again where another attempt may succeed.
    private func run(_ items: [WebPushItem], _ report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        var open = items
        if auth.count > 1 {
            for index in open.indices { open[index].key = keys.key(for: open[index].subscription.address) }
        }
        // A message has at most one more attempt without its topic, one with a fresh token, and one for each further
        // key.
        while !open.isEmpty {
            let started = time.now
            var sent: [WebPushItem] = []
            var calls: [WebPushClient.Call] = []
            var refused: [DeliveryReport] = []
            for var item in open {
                do throws(HTTPFailure) {
                    calls.append(try call(&item, now: started))
                    sent.append(item)
                } catch {
                    refused.append(item.report(error.outcome()))
                }
            }
            if !refused.isEmpty { report(refused) }
            let again = Mutex<[WebPushItem]>([])
            await client.send(calls) { [sent, lanes, keys, time, count = auth.count] replies in
                let outcomes = WebPushOutcomes(
                    lanes: lanes,
                    keys: keys,
                    keyCount: count,
                    started: started,
                    now: time.now
                )
                var reports: [DeliveryReport] = []
                for reply in replies {
                    let item = sent[reply.index]
                    switch outcomes.verdict(on: reply.result, of: item) {
                    case .final(let outcome): reports.append(item.report(outcome))
                    case .again(let item): again.withLock { $0.append(item) }
                    }
                }
                if !reports.isEmpty { report(reports) }
            }
            open = again.withLock { $0 }
        }
    }

    private func call(_ item: inout WebPushItem, now: Date) throws(HTTPFailure) -> WebPushClient.Call {
        guard item.key < auth.count else {
            throw HTTPFailure(.notProcessed, .credentials, "the backend has no VAPID key")
        }
        if item.body.isEmpty {
            do {
                item.body = try WebPushEncryption.body(
                    of: item.plaintext.completed(for: item.id),
                    for: item.subscription
                )
            } catch {
                throw HTTPFailure(.notProcessed, .invalidCall, "the message cannot be encrypted for this subscription")
            }
        }
        let authorization = try auth.authorization(
            for: item.origin,
            key: item.key,
            refusedSince: item.refusedSince,
            now: now
        )
        var headers = item.fields
        headers.append(HTTPHeader("authorization", authorization))
        if let topic = item.topic { headers.append(HTTPHeader("topic", topic, .literal)) }
        let call = HTTPCall(template, path: item.subscription.address.path, headers: headers, body: item.body)
        return WebPushClient.Call(origin: item.origin, trust: item.trust, call: call)
    }

    /// Finds what no push service or browser would take.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        WebPushCheck.examine(WebPushPayload(notification, options.payload))
    }

    /// Returns the bytes of the message in the recipient's language, before its encryption.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        let message = WebPushPayload(notification, options.payload).encoded(in: addressee.language)
        return PayloadSize(bytes: message.bytes.count, limit: WebPushEncryption.maximumPlaintext)
    }

    /// Returns the plaintext in the recipient's language, with zeros in place of the delivery's id.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        let message = WebPushPayload(notification, options.payload).encoded(in: addressee.language)
        return (try? JSONValue(parsing: message.bytes))?.objectValue
    }

    /// The connections, and the push services that are held.
    public var health: BackendHealth { BackendHealth(client.statuses, alert: lanes.detail(at: time.now)) }

    /// Ends the backend.
    public func shutdown(grace: Duration) async { await client.shutdown(grace: grace) }
}

extension WebPushBackend {
    /// The outcome of each row of the table, as it concerns the whole backend.
    static var reasons: [DeliveryOutcome] {
        let epoch = Date(timeIntervalSince1970: 0)
        return WebPushRejections.rules.map { rule in
            func refused(_ kind: Refusal.Kind, _ advice: Refusal.Advice) -> DeliveryOutcome {
                .refused(Refusal(kind, reason: rule.reason, detail: rule.detail, advice: advice))
            }
            return switch rule.consequence {
            case .accepted: .accepted(Acceptance())
            case .invalid:
                .refused(
                    Refusal(
                        .token,
                        reason: rule.reason,
                        detail: rule.detail,
                        advice: .never,
                        invalidation: .init(asOf: epoch, isCertain: true)
                    )
                )
            case .otherKey: refused(.token, .never)
            case .drop, .dropTopic: refused(.message, .never)
            case .slowDevice: refused(.token, .slowRecipient(after: nil))
            case .resign, .account: refused(.account, .parkBackend)
            case .resignThenRetry: refused(.token, .retry(after: nil))
            case .slowOrigin: refused(.platform, .slowBackend(after: nil))
            case .retry: refused(.platform, .retry(after: nil))
            case .unknown: .unknown(UnknownOutcome(reason: rule.reason, detail: rule.detail))
            }
        }
    }
}
