internal import Foundation
public import PushCore

/// Hands notifications to a service of one's own over HTTP: how a platform is added in any language, with no build of the
/// gateway.
///
/// The service takes `POST` requests with a batch of messages and answers 200 with an outcome for each. It checks the
/// signature (Standard Webhooks), and it must treat a message id that it has seen as done, since a request whose answer is
/// lost comes again. The whole contract is in the article *Any language* of the documentation.
public final class ServiceBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "http"

    /// `http`.
    public var kind: BackendKind { Self.kind }
    /// What the options say.
    public var audience: BackendAudience { options.audience }

    private let options: ServiceOptions
    private let name: String
    private let path: String
    private let pool: any HTTPPool
    private let time: any TimeSource
    private let strategy: (any AuthStrategy)?
    private let signature: ServiceAuth
    private let template: HTTPCallTemplate

    /// Makes a backend; nothing is opened before the first message.
    ///
    /// - Parameters:
    ///   - options: The service and whom it can reach.
    ///   - strategy: What authorizes requests besides their signature, for a service behind a server that asks for it.
    ///   - context: Its surroundings.
    /// - Throws: When the secret is too short or a certificate of the options cannot be read.
    public init(
        options: ServiceOptions,
        strategy: (any AuthStrategy)? = nil,
        context: BackendContext
    ) throws(HTTPPoolError) {
        self.options = options
        self.strategy = strategy
        name = context.name
        path = options.url.path.isEmpty ? "/" : options.url.path
        time = context.time
        do throws(ServiceAuth.Mistake) {
            signature = try ServiceAuth([options.secret] + [options.previousSecret].compactMap(\.self))
        } catch {
            throw HTTPPoolError("secret \(error.problem). \(error.fix)")
        }
        var configuration = HTTPPoolConfiguration(endpoint: options.url.endpoint, version: .http1)
        options.common.apply(to: &configuration)
        configuration.endpoint = options.url.endpoint
        pool = try context.authorized(by: strategy).http.pool(configuration)
        template = HTTPCallTemplate(
            method: "POST",
            headers: [HTTPHeader("content-type", "application/json"), HTTPHeader("accept", "application/json")],
            deadline: options.common.timeout
        )
    }

    /// Posts the messages in batches, all batches at once as far as connections allow.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let batch = ServiceBatch(requests, options, name: name)
        if !batch.refused.isEmpty { report(batch.refused) }
        let chunks = batch.chunks
        guard !chunks.isEmpty else { return }
        let started = time.now
        let seconds = Int64(clamping: started.timeIntervalSince1970)
        let calls = chunks.map { chunk in
            let fields = signature.fields(id: "msg_\(MessageID.random())", seconds: seconds, body: chunk.body)
            return HTTPCall(template, path: path, headers: fields, body: chunk.body)
        }
        let time = time
        let isRepeatHarmful = options.isRepeatHarmful
        await pool.send(calls) { replies in
            for reply in replies {
                let answer = ServiceAnswer(
                    to: chunks[reply.index],
                    started: started,
                    now: time.now,
                    isRepeatHarmful: isRepeatHarmful
                )
                report(answer.reports(reply.result))
            }
        }
    }

    /// Finds a message that is larger than the service takes, in the longest of its languages' texts.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        var message = ServicePayload(notification, expiration: nil)
        let largest = message.largestSize()
        guard largest > options.maximumMessageBytes else { return PayloadCheck() }
        let detail = "The message has \(largest) bytes; the service takes \(options.maximumMessageBytes)."
        return PayloadCheck(faults: [Finding(pointer: "#/content", code: "message_too_large", detail: detail)])
    }

    /// What the options say.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { options.isRepeatHarmful }

    /// The connections.
    public var health: BackendHealth { BackendHealth(pool.status) }

    /// Posts a batch without messages: a service that takes it can be reached and knows the secret.
    public func diagnose() async -> [Diagnosis] {
        let body = Array(#"{"version":1,"backend":\#(JSONValue.string(name).text),"messages":[]}"#.utf8)
        let seconds = Int64(clamping: time.now.timeIntervalSince1970)
        let fields = signature.fields(id: "msg_\(MessageID.random())", seconds: seconds, body: body)
        do throws(HTTPFailure) {
            let answer = try await pool.send(HTTPCall(template, path: path, headers: fields, body: body))
            switch answer.status {
            case 200: return [Diagnosis("service", .ok, "The service takes signed batches.")]
            case 401, 403:
                let fix = "Give both sides the same secret, and set both clocks."
                return [Diagnosis("secret", .failure, "The service refuses the signature.", fix: fix)]
            default:
                let fix = "Check url; an empty batch is answered with 200 and no outcomes."
                return [Diagnosis("service", .failure, "The service answered \(answer.status).", fix: fix)]
            }
        } catch {
            let fix = "Check url, ca_file and the network path."
            return [Diagnosis("reachability", .failure, error.detail, fix: fix)]
        }
    }

    /// Ends the backend.
    public func shutdown(grace: Duration) async {
        await pool.shutdown(grace: grace)
        await strategy?.shutdown()
    }
}
