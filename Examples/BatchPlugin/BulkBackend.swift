import Crypto
import Foundation
import ChaparCore

extension TokenService {
    /// The addresses of the platform Bulk.
    static let bulk = TokenService(rawValue: "x-bulk")
}

extension BackendFactory {
    /// The platform Bulk, `kind: bulk`.
    static let bulk = BackendFactory("bulk", summary: "Bulk", reasons: BulkAnswer.outcomes) { section, context in
        for key in ["url", "key", "webhook_secret"] where !section.has(key) {
            section.missing(key, "see Bulk's console")
        }
        // All keys are read before the first return: a key that nobody asked for counts as unknown.
        let (url, key, secret) = (section.baseURL("url"), section.secret("key"), section.secret("webhook_secret"))
        let common = CommonBackendOptions(section, readsBase: false)
        guard let url, let key, let secret else { return nil }
        return try? BulkBackend(url, key: key, webhookSecret: secret, common: common, http: context.http)
    }
}

/// A platform that takes 500 messages in a request, answers for each, and reports by webhook what became of them.
struct BulkBackend: PushBackend {
    let kind: BackendKind = "bulk"
    let audience = BackendAudience(services: [.bulk])
    let receipts: (any ReceiptReader)?
    private let pool: any HTTPPool
    private let template: HTTPCallTemplate
    private let path: String

    init(_ url: HTTPBaseURL, key: Secret, webhookSecret: Secret, common: CommonBackendOptions, http: any HTTPTransport)
        throws(HTTPPoolError)
    {
        var configuration = HTTPPoolConfiguration(endpoint: url.endpoint, version: .http1)
        common.apply(to: &configuration)
        pool = try http.pool(configuration)
        let fields = [("authorization", "Bearer " + key.reveal()), ("content-type", "application/json")]
        template = HTTPCallTemplate(method: "POST", headers: fields.map { HTTPHeader($0.0, $0.1) })
        path = url.path("batches")
        receipts = BulkReceipts(secret: webhookSecret)
    }

    /// A recipient's place in the requests, and the id that stands for it in a batch.
    struct Slot {
        var request: Int
        var index: Int
        var id: String

        func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: request, recipient: index, outcome: outcome)
        }
    }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        var (calls, batches): ([HTTPCall], [[Slot]]) = ([], [])
        for (number, request) in requests.enumerated() {
            // Recipients of one text share batches; the text depends on the recipient's language.
            var groups: [String: [(slot: Slot, address: String)]] = [:]
            for (index, to) in request.recipients.enumerated() {
                let slot = Slot(request: number, index: index, id: to.messageID.description)
                guard case .token(let token) = to.recipient, audience.contains(to.recipient) else {
                    report([slot.report(BulkAnswer.unsupportedRecipient)])
                    continue
                }
                guard request.remaining(now: Date()) != .over else {
                    report([slot.report(.refused(.expired))])
                    continue
                }
                guard !request.notification.isDryRun else {
                    report([slot.report(.accepted(Acceptance(isDryRun: true)))])
                    continue
                }
                let text = request.notification.body?.resolved(for: to.language) ?? ""
                groups[text, default: []].append((slot, token.value))
            }
            for (text, group) in groups {
                for start in stride(from: 0, to: group.count, by: 500) {
                    let batch = group[start..<min(start + 500, group.count)]
                    let to = batch.map { JSONValue.object(["id": .string($0.slot.id), "to": .string($0.address)]) }
                    let body: JSONValue = ["text": .string(text), "messages": .array(to)]
                    calls.append(HTTPCall(template, path: path, body: body.bytes))
                    batches.append(batch.map(\.slot))
                }
            }
        }
        await pool.send(calls) { [batches, started = Date()] replies in
            for reply in replies { report(BulkAnswer.reports(of: reply.result, to: batches[reply.index], started)) }
        }
    }

    /// A title would be dropped silently.
    func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        guard notification.title != nil else { return PayloadCheck() }
        let detail = "Bulk shows no title."
        return PayloadCheck(warnings: [Finding(pointer: "#/content/title", code: "not_shown", detail: detail)])
    }

    var health: BackendHealth { BackendHealth(pool.status) }

    func diagnose() async -> [Diagnosis] {
        do throws(HTTPFailure) {
            let body: JSONValue = ["text": "", "messages": []]
            let answer = try await pool.send(HTTPCall(template, path: path, body: body.bytes))
            return answer.status == 200
                ? [Diagnosis("key", .ok, "Bulk takes the key.")]
                : [Diagnosis("key", .failure, "Bulk answered \(answer.status).", fix: "Check url and key.")]
        } catch {
            return [Diagnosis("reachability", .failure, error.detail, fix: "Check url, ca_file and the network path.")]
        }
    }

    func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }
}

/// Reads answers to batches: an outcome for each message by its id.
enum BulkAnswer {
    static func reports(of result: Result<HTTPAnswer, HTTPFailure>, to batch: [BulkBackend.Slot], _ started: Date)
        -> [DeliveryReport]
    {
        let answer: HTTPAnswer
        switch result {
        case .failure(let failure): return batch.map { $0.report(failure.outcome()) }
        case .success(let found): answer = found
        }
        let results = (try? JSONValue(parsing: answer.body))?["results"]?.arrayValue
        guard answer.status == 200, let results else {
            return batch.map { $0.report(whole(answer)) }
        }
        var byID: [String: JSONValue] = [:]
        for result in results { if let id = result["id"]?.stringValue { byID[id] = result } }
        return batch.map { slot in slot.report(outcome(byID[slot.id], since: started)) }
    }

    /// What one message of a batch came to.
    private static func outcome(_ result: JSONValue?, since started: Date) -> DeliveryOutcome {
        switch result?["state"]?.stringValue {
        case "queued": return .accepted(Acceptance(platformID: result?["ref"]?.stringValue, status: 200))
        case "gone":
            var refusal = Refusal(.token, reason: "gone", detail: "Nobody has this address.", advice: .never)
            refusal.invalidation = Refusal.Invalidation(asOf: started, isCertain: true)
            return .refused(refusal)
        case "busy":
            let pause = result?["retry_after"]?.integerValue.map { Duration.seconds($0) }
            return .refused(
                Refusal(.token, reason: "busy", detail: "Too many to one.", advice: .slowRecipient(after: pause))
            )
        // It was in the batch, and the answer says nothing of it: it may have been sent.
        default: return .unknown(UnknownOutcome(reason: "not_reported", detail: "The answer leaves the message out."))
        }
    }

    /// What every message of a batch came to by an answer for the whole of it.
    private static func whole(_ answer: HTTPAnswer) -> DeliveryOutcome {
        func refused(_ kind: Refusal.Kind, _ reason: String, _ detail: String, _ advice: Refusal.Advice)
            -> DeliveryOutcome
        {
            .refused(Refusal(kind, reason: reason, detail: detail, status: answer.status, advice: advice))
        }
        let pause = answer.retryAfter(now: Date())
        switch answer.status {
        case 400, 422: return refused(.message, "rejected", "Bulk does not take the text.", .never)
        case 401, 403: return refused(.account, "wrong_key", "Compare key with Bulk's console.", .parkBackend)
        case 404: return refused(.account, "wrong_address", "Nothing takes batches there: check url.", .parkBackend)
        case 429: return refused(.platform, "too_fast", "The account sends too fast.", .slowBackend(after: pause))
        case 503: return refused(.platform, "unavailable", "Bulk took nothing of it.", .retry(after: pause))
        default:
            let detail = "Bulk answered \(answer.status): it may have sent the messages."
            return .unknown(UnknownOutcome(reason: "status_\(answer.status)", detail: detail))
        }
    }

    static let unsupportedRecipient = DeliveryOutcome.refused(
        Refusal(.message, reason: "unsupported_recipient", detail: "Bulk has no such address.", advice: .never)
    )

    /// What `explain` shows.
    static var outcomes: [DeliveryOutcome] {
        ["gone", "busy"].map { outcome(["state": .string($0)], since: Date()) }
            + [400, 401, 404, 429, 503, 500].map { whole(HTTPAnswer(status: $0)) } + [unsupportedRecipient]
    }
}

/// Reads Bulk's webhook, which `POST /v1/backends/{name}/receipts` takes: `{"events": [{"ref", "state", "at"}]}` under a signature.
struct BulkReceipts: ReceiptReader {
    let secret: Secret
    let acknowledgement: [UInt8] = []

    func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
        let key = SymmetricKey(data: Data(secret.reveal().utf8))
        let signature = callback.header("x-bulk-signature").flatMap { Data(base64Encoded: $0) }
        guard let signature,
            HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: callback.body, using: key)
        else { throw .notAuthentic("the signature is missing or wrong") }
        guard let events = (try? JSONValue(parsing: callback.body))?["events"]?.arrayValue else {
            throw .malformed("there is no list of events")
        }
        return events.compactMap { event in
            guard let ref = event["ref"]?.stringValue, let state = event["state"]?.stringValue else { return nil }
            let kind: DeliveryReceipt.Event = state == "delivered" ? .delivered : state == "failed" ? .failed : .note
            let at = event["at"]?.integerValue.map { Date(timeIntervalSince1970: Double($0)) } ?? callback.receivedAt
            return DeliveryReceipt(kind, platformID: ref, reason: state, at: at)
        }
    }
}
