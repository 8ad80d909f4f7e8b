internal import Foundation
public import ChaparCore

/// Hands notifications to a service of your own over HTTP.
///
/// So a platform can be added in any language, without a build of the gateway.
///
/// The service takes `POST` requests with a batch of messages and answers 200 with an outcome for each. It checks the
/// signature (Standard Webhooks), and it must treat a message id that it has seen as done, since a request whose answer
/// is lost comes again. `docs/platforms/Service.md` has the whole contract.
public final class ServiceBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "http"

    /// `http`.
    public var kind: BackendKind { Self.kind }
    /// The audience of the options.
    public var audience: BackendAudience { options.audience }

    private let options: ServiceOptions
    let name: String
    let path: String
    let pool: any HTTPPool
    let time: any TimeSource
    private let strategy: (any AuthStrategy)?
    let signature: ServiceAuth
    let template: HTTPCallTemplate

    /// Makes a backend; nothing is opened before the first message.
    ///
    /// - Parameters:
    ///   - options: The service and its audience.
    ///   - strategy: Authorizes requests besides their signature, for a service behind a server that asks for it.
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
        let batch = ServiceBatch(requests, options, name: name, now: time.now)
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
                let outcomes = ServiceOutcomes(
                    to: chunks[reply.index],
                    started: started,
                    now: time.now,
                    isRepeatHarmful: isRepeatHarmful
                )
                report(outcomes.reports(reply.result))
            }
        }
    }

    /// Finds a message that is larger than the service takes.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        ServiceCheck.examine(notification, options: options)
    }

    /// Returns the bytes of the message in the recipient's language, and the most that the service takes.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        var message = ServicePayload(notification, expiration: nil)
        let texts = message.texts(in: addressee.language)
        return PayloadSize(bytes: message.size(with: texts), limit: options.maximumMessageBytes)
    }

    /// Returns the message in the recipient's language, as an entry of the service's batch has it.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        var message = ServicePayload(notification, expiration: nil)
        let texts = message.texts(in: addressee.language)
        return (try? JSONValue(parsing: message.bytes(with: texts)))?.objectValue
    }

    /// Whether the options say that a second copy does harm.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { options.isRepeatHarmful }

    /// The number of messages that the connections take in full batches.
    public var window: Int? { options.common.maximumConnections * options.batchSize }
    /// Batches of different messages.
    public var batching: RequestBatching? { RequestBatching(limit: options.batchSize, isMixed: true) }

    /// The connections.
    public var health: BackendHealth { BackendHealth(pool.status) }

    /// Ends the backend.
    public func shutdown(grace: Duration) async {
        await pool.shutdown(grace: grace)
        await strategy?.shutdown()
    }
}
