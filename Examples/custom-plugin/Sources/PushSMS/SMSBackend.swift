import Foundation
public import PushCore

/// Text messages through a made-up service that takes JSON over HTTPS, up to a hundred messages a request.
///
/// `POST /messages` with `{"messages": [{"id", "number", "text"}]}` is answered by 200 and `{"results": [{"id", "ref"}]}`, or
/// `{"id", "error"}` for a message that it refuses. An id that comes again is not sent again.
public struct SMSBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public let kind: BackendKind = "sms"
    /// Phone numbers.
    public let audience = BackendAudience(services: [.sms])
    static let keyFix = "Put the account's key under key and reload."
    let pool: any HTTPPool
    let template: HTTPCallTemplate
    let path: String

    /// Makes a backend; nothing is opened before the first message.
    public init(url: HTTPBaseURL, key: Secret, common: CommonBackendOptions, http: any HTTPTransport) throws {
        var configuration = HTTPPoolConfiguration(endpoint: url.endpoint, version: .http1)
        common.apply(to: &configuration)
        pool = try http.pool(configuration)
        let fields = [("authorization", "Bearer " + key.reveal()), ("content-type", "application/json")]
        template = HTTPCallTemplate(method: "POST", headers: fields.map { HTTPHeader($0.0, $0.1) })
        path = url.path("messages")
    }

    /// A message on its way: how the service knows it, and how its outcome is reported.
    private typealias Message = (id: String, json: JSONValue, report: @Sendable (DeliveryOutcome) -> DeliveryReport)

    /// Offers every message to the service once, in as few requests as it allows.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        var messages: [Message] = []
        for (number, request) in requests.enumerated() {
            for (place, to) in request.recipients.enumerated() {
                let own = { @Sendable in DeliveryReport(request: number, recipient: place, outcome: $0) }
                let (id, text) = (to.messageID.description, Self.text(of: request.notification, for: to.language))
                if !audience.contains(to.recipient) {
                    report([own(Self.refused(.message, "no_phone_number", .never))])
                } else if text.count > 600 {
                    report([own(Self.refused(.message, "text_too_long", .never))])
                } else if request.notification.isDryRun {
                    report([own(.accepted(Acceptance(isDryRun: true)))])
                } else if case .token(let phone) = to.recipient {
                    let json: JSONValue = ["id": .string(id), "number": .string(phone.value), "text": .string(text)]
                    messages.append((id, json, own))
                }
            }
        }
        let batches = stride(from: 0, to: messages.count, by: 100).map { Array(messages[$0...].prefix(100)) }
        let calls = batches.map { batch in
            HTTPCall(template, path: path, body: JSONValue.object(["messages": .array(batch.map(\.json))]).bytes)
        }
        await pool.send(calls) { [started = Date()] replies in
            for reply in replies {
                let outcome = Self.outcomes(reply.result, since: started)
                report(batches[reply.index].map { $0.report(outcome($0.id)) })
            }
        }
    }

    /// Finds a text that is too long before it is accepted.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        guard Self.text(of: notification, for: nil).count > 600 else { return PayloadCheck() }
        let fault = Finding(pointer: "#/content/body", code: "text_too_long", detail: "At most 600 characters.")
        return PayloadCheck(faults: [fault])
    }

    /// Closes the connections.
    public func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }

    private static func text(of notification: PushNotification, for language: String?) -> String {
        [notification.title, notification.body].compactMap { $0?.resolved(for: language) }.joined(separator: "\n")
    }

    private static func refused(
        _ kind: Refusal.Kind,
        _ reason: String,
        _ advice: Refusal.Advice,
        _ status: Int? = nil,
        detail: String? = nil
    ) -> DeliveryOutcome {
        .refused(Refusal(kind, reason: reason, detail: detail, status: status, advice: advice))
    }

    /// What a reply means for the message of an id: a status other than 200 is about all messages of the request.
    private static func outcomes(_ result: Result<HTTPAnswer, HTTPFailure>, since: Date) -> (String) -> DeliveryOutcome
    {
        switch result {
        case .failure(let failure): return { _ in failure.outcome() }
        case .success(let answer):
            let pause = answer.retryAfter(now: Date())
            switch answer.status {
            case 200:
                let list = (try? JSONValue(parsing: answer.body))?["results"]?.arrayValue ?? []
                let results = Dictionary(list.map { ($0["id"]?.stringValue, $0) }) { first, _ in first }
                return { outcome(of: results[$0], since: since) }
            case 400, 413, 422: return { _ in refused(.message, "rejected", .never, answer.status) }
            case 401, 403: return { _ in refused(.account, "key_refused", .parkBackend, answer.status, detail: keyFix) }
            case 429, 503: return { _ in refused(.platform, "busy", .slowBackend(after: pause), answer.status) }
            // It may have sent them before it failed.
            default: return { _ in .unknown(UnknownOutcome(reason: "status_\(answer.status)")) }
            }
        }
    }

    private static func outcome(of result: JSONValue?, since started: Date) -> DeliveryOutcome {
        if let ref = result?["ref"]?.stringValue { return .accepted(Acceptance(platformID: ref)) }
        switch result?["error"]?.stringValue {
        case "unknown_number":
            let dead = Refusal.Invalidation(asOf: started, isCertain: true)
            return .refused(Refusal(.token, reason: "unknown_number", status: 200, advice: .never, invalidation: dead))
        case "opted_out": return refused(.token, "opted_out", .never, 200)
        case .some: return refused(.message, "other", .never, 200)
        case nil: return .unknown(UnknownOutcome(reason: "bad_answer"))
        }
    }
}
