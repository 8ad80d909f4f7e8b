import Foundation
public import ChaparCore

/// The platform SMS: a request for each message.
///
/// `POST /messages` with `{"id", "to", "text", "ttl"}` is answered by 200 and `{"ref"}`, or by another status and
/// `{"error"}`. An id that comes again is not sent again; without `ttl`, in seconds, the platform tries for a day.
public struct SMSBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public let kind: BackendKind = "sms"
    /// Whom it can reach.
    public let audience = BackendAudience(services: [.sms])
    private let pool: any HTTPPool
    private let template: HTTPCallTemplate
    private let path: String
    private let time: any TimeSource

    /// Makes a backend; nothing is opened before the first message.
    public init(_ options: SMSOptions, http: any HTTPTransport, time: any TimeSource = SystemTime())
        throws(HTTPPoolError)
    {
        var configuration = HTTPPoolConfiguration(endpoint: options.url.endpoint, version: .http1)
        options.common.apply(to: &configuration)
        pool = try http.pool(configuration)
        let fields = [("authorization", "Bearer " + options.key.reveal()), ("content-type", "application/json")]
        template = HTTPCallTemplate(method: "POST", headers: fields.map { HTTPHeader($0.0, $0.1) })
        path = options.url.path("messages")
        self.time = time
    }

    /// Offers every message to the platform once, all at the same time as far as the connections allow.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        var calls: [HTTPCall] = []
        var reports: [@Sendable (DeliveryOutcome) -> DeliveryReport] = []
        let started = time.now
        for (number, request) in requests.enumerated() {
            let remaining = request.remaining(now: started)
            for (index, to) in request.recipients.enumerated() {
                let own = { @Sendable in DeliveryReport(request: number, recipient: index, outcome: $0) }
                let text = Self.text(of: request.notification, for: to.language)
                guard case .token(let address) = to.recipient, audience.contains(to.recipient) else {
                    report([own(SMSRejections.unsupportedRecipient)])
                    continue
                }
                guard text.utf8.count <= Self.maximumBytes else {
                    report([own(SMSRejections.tooLarge)])
                    continue
                }
                guard remaining != .over else {
                    report([own(.refused(.expired))])
                    continue
                }
                guard !request.notification.isDryRun else {
                    report([own(.accepted(Acceptance(isDryRun: true)))])
                    continue
                }
                // The id is the same with every attempt, so that the platform knows a repeat.
                let id = to.messageID.description
                var body: JSONObject = ["id": .string(id), "to": .string(address.value), "text": .string(text)]
                switch remaining {
                case .seconds(let seconds): body["ttl"] = .integer(seconds)
                case .now: body["ttl"] = 0
                case .platformDefault, .over: break
                }
                calls.append(HTTPCall(template, path: path, body: JSONValue.object(body).bytes))
                reports.append(own)
            }
        }
        await pool.send(calls) { [reports, time = time] replies in
            let now = time.now
            report(replies.map { reports[$0.index](SMSRejections.outcome(of: $0.result, since: started, now: now)) })
        }
    }

    /// Finds what the platform would refuse before it is accepted.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        guard Self.text(of: notification, for: nil).utf8.count > Self.maximumBytes else { return PayloadCheck() }
        let detail = "At most \(Self.maximumBytes) bytes."
        return PayloadCheck(faults: [Finding(pointer: "#/content/body", code: "too_large", detail: detail)])
    }

    /// The connections, and why there are none.
    public var health: BackendHealth { BackendHealth(pool.status) }

    /// Asks the platform with a message that it refuses, and looks whether it takes the key.
    public func diagnose() async -> [Diagnosis] {
        do throws(HTTPFailure) {
            let answer = try await pool.send(HTTPCall(template, path: path, body: JSONValue.object([:]).bytes))
            switch answer.status {
            case 200, 400, 422: return [Diagnosis("key", .ok, "The platform takes the key.")]
            case 401, 403:
                return [Diagnosis("key", .failure, "The platform refuses the key.", fix: SMSRejections.keyFix)]
            default:
                let finding = "The platform answered \(answer.status)."
                return [Diagnosis("platform", .failure, finding, fix: "Check url; else wait for the platform.")]
            }
        } catch {
            return [Diagnosis("reachability", .failure, error.detail, fix: "Check url, ca_file and the network path.")]
        }
    }

    /// Closes the connections.
    public func shutdown(grace: Duration) async { await pool.shutdown(grace: grace) }

    /// The most bytes of a text.
    public static let maximumBytes = 4_096

    private static func text(of notification: PushNotification, for language: String?) -> String {
        [notification.title, notification.body].compactMap { $0?.resolved(for: language) }.joined(separator: "\n")
    }
}
