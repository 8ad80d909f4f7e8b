import Foundation
public import ChaparCore

/// Chabok: one app, by its REST API.
///
/// Sends messages and notifications to users, channels, tags and everybody, keeps installations, tags and attributes.
/// Chabok knows no idempotency key: a send whose answer was lost counts as one that must not be repeated, unless the
/// options say otherwise. Source of all rules: the vendor's public documentation and clients, as of 2021.
public final class ChabokBackend: PushBackend {
    /// The word after `kind:` in configuration files.
    public static let kind: BackendKind = "chabok"

    /// `chabok`.
    public var kind: BackendKind { Self.kind }
    /// Users, registered devices, installation ids, public channels, tags, everybody; never device tokens.
    public let audience: BackendAudience
    /// Messages to any audience, and their states.
    public let messages: ChabokMessages
    /// Installations: registration and look-ups.
    public let installations: ChabokInstallations
    /// Tags and attributes.
    public let users: ChabokUsers
    /// Behaviour of users, and what devices did with messages.
    public let tracker: ChabokTracker
    /// The events of Chabok, its link and its devices, for one reader.
    public let stream: ChabokEventStream

    let client: ChabokClient
    private let secondChances = ChabokSecondChances()
    private let reader: ChabokReceipts?

    private var options: ChabokOptions { client.options }

    /// Makes a backend; nothing is opened before the first call.
    ///
    /// - Parameters:
    ///   - options: The app and how it is used.
    ///   - strategy: Authorizes requests instead of the access token.
    ///   - display: The rules for what the app's devices show of a message; by default those of the client library with
    ///     ``ChabokOptions/display``.
    ///   - context: Its surroundings.
    /// - Throws: When a certificate or proxy of the options cannot work.
    public init(
        options: ChabokOptions,
        strategy: (any AuthStrategy)? = nil,
        display: ChabokDisplayPolicy? = nil,
        context: BackendContext
    ) throws(HTTPPoolError) {
        audience = BackendAudience(
            forms: [.user, .device, .platformID, .topic, .tags, .everyone],
            broadcast: options.broadcastRule
        )
        let stream = ChabokEventStream(announce: context.announce)
        self.stream = stream
        client = try ChabokClient(
            options,
            strategy: strategy,
            monitor: ChabokConnectionMonitor(stream),
            context: context
        )
        let records = ChabokRecords(context.state, backend: context.name)
        installations = ChabokInstallations(client: client, records: records, stream: stream)
        users = ChabokUsers(client: client)
        tracker = ChabokTracker(
            client: client,
            records: records,
            stream: stream,
            display: display ?? ChabokDisplayPolicy(options.display)
        )
        messages = ChabokMessages(client: client)
        reader = options.webhookSecret.map { ChabokReceipts($0, events: stream) }
    }

    // MARK: Sending

    /// Sends all requests in as few calls as Chabok's API allows, each call once.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        var batch = ChabokBatch()
        for (index, request) in requests.enumerated() {
            let resolved = await add(request, at: index, to: &batch)
            if !resolved.isEmpty { report(resolved) }
        }
        batch.finish()
        await withTaskGroup(of: Void.self) { tasks in
            for (number, call) in batch.calls.enumerated() {
                // At most this number of calls has a task; the others wait here.
                if number >= options.common.maximumConnections * 2 { await tasks.next() }
                tasks.addTask { report(await self.send(call)) }
            }
        }
    }

    /// Adds a request's recipients to the batch; returns the outcomes of those that need no call.
    private func add(_ request: PushRequest, at index: Int, to batch: inout ChabokBatch) async -> [DeliveryReport] {
        let notification = request.notification
        func makeReport(_ position: Int, _ outcome: DeliveryOutcome) -> DeliveryReport {
            DeliveryReport(request: index, recipient: position, outcome: outcome)
        }
        func refuseAll(_ reason: String, _ detail: String) -> [DeliveryReport] {
            let refusal = Refusal(.message, reason: reason, detail: detail, advice: .never)
            return request.recipients.indices.map { makeReport($0, .refused(refusal)) }
        }
        if let fault = ChabokCheck.examine(notification, for: nil, options: options).faults.first {
            return refuseAll(fault.code, fault.detail)
        }
        let remaining: Int64?
        switch request.remaining(now: client.time.now) {
        case .platformDefault: remaining = nil
        case .now: remaining = 0
        case .seconds(let left): remaining = left
        case .over: return request.recipients.indices.map { makeReport($0, .refused(.expired)) }
        }
        var resolved: [DeliveryReport] = []
        var written: [String?: ChabokBatch.Draft] = [:]
        for (position, addressee) in request.recipients.enumerated() {
            let target = await resolve(addressee.recipient, notification)
            if case .refused(let refusal) = target {
                resolved.append(makeReport(position, .refused(refusal)))
                continue
            }
            if notification.isDryRun {
                resolved.append(makeReport(position, .accepted(Acceptance(isDryRun: true))))
                continue
            }
            let language = addressee.language
            let draft =
                written[language]
                ?? ChabokBatch.Draft(
                    ChabokPayload(notification, language: language, remaining: remaining, options: options),
                    options
                )
            written[language] = draft
            let own = ChabokSlot(request: index, recipient: position, messageID: addressee.messageID)
            batch.add(target, draft, options, own)
        }
        return resolved
    }

    private func send(_ call: ChabokBatchRequest) async -> [DeliveryReport] {
        let verdicts = ChabokOutcomes(call, resendsAmbiguous: options.resendsAmbiguous)
        do throws(PushError) {
            switch try await client.exchange("POST", call.path, call.body) {
            case .success(let answer): return verdicts.reports(answer, secondChances: secondChances)
            case .failure(let failure): return verdicts.reports(failure)
            }
        } catch {
            let advice: Refusal.Advice =
                switch error.code {
                case .rateLimited: .slowBackend(after: error.retryAfter)
                case .unavailable: .retry(after: error.retryAfter)
                default: .parkBackend
                }
            let reason = error.reason ?? "not_sent"
            return verdicts.all(.refused(Refusal(.platform, reason: reason, detail: error.message, advice: advice)))
        }
    }

    private func resolve(_ recipient: Recipient, _ notification: PushNotification) async -> ChabokTarget {
        let found = await target(of: recipient, notification)
        if case .refused = found { return found }
        return audience.broadcast.refusal(of: recipient).map { .refused($0) } ?? found
    }

    /// Returns what is wrong with a channel's name; only public channels are topics.
    public func problem(withTopic topic: String) -> String? {
        guard let channel = ChabokChannel(topic), !channel.isPrivate else {
            return "A topic is a public channel: name or public/name."
        }
        return nil
    }

    private func target(of recipient: Recipient, _ notification: PushNotification) async -> ChabokTarget {
        func refuse(_ kind: Refusal.Kind, _ reason: String, _ detail: String) -> ChabokTarget {
            .refused(Refusal(kind, reason: reason, detail: detail, advice: .never))
        }
        let way = ChabokPayload.mechanism(notification, options)
        if let problem = ChabokCheck.problem(of: recipient.form, with: way) {
            return refuse(.message, "unsupported_mechanism", problem)
        }
        switch recipient {
        case .user(let id):
            if let problem = ChabokUserID.problem(id, minimum: options.minimumUserIDLength) {
                return refuse(.message, "bad_user", problem)
            }
            return .user(id)
        case .topic(let name):
            if let problem = problem(withTopic: name) { return refuse(.message, "bad_channel", problem) }
            return .channel(name)
        case .tags(let filter):
            guard let segment = ChabokSegment(filter) else {
                return refuse(.message, "audience_empty", "The tags are empty, so they address no one.")
            }
            return .segment(segment)
        case .everyone: return .everyone
        case .device, .platformID:
            do throws(PushError) {
                return try await installations.target(of: recipient)
            } catch {
                return .refused(
                    Refusal(
                        .platform,
                        reason: error.reason ?? "lookup",
                        detail: error.message,
                        advice: .retry(after: nil)
                    )
                )
            }
        case .token(let token):
            return refuse(.token, "wrong_token_service", "Chabok sends to users, not to \(token.service) tokens.")
        }
    }

    // MARK: Checks, sizes and limits

    /// Finds what Chabok would refuse or drop; under `strict` what it would drop is a fault.
    public func check(_ notification: PushNotification, for recipient: Recipient.Form) -> PayloadCheck {
        ChabokCheck.examine(notification, for: recipient, options: options)
    }

    /// Returns the bytes of the message in the recipient's language.
    ///
    /// Chabok documents no limit; the limit is Chapar's.
    public func payloadSize(of notification: PushNotification, for addressee: Addressee) -> PayloadSize? {
        ChabokCheck.size(of: notification, language: addressee.language, options: options)
    }

    /// Returns the message in the recipient's language, without the user.
    public func payload(of notification: PushNotification, for addressee: Addressee) -> JSONObject? {
        ChabokCheck.message(notification, options, language: addressee.language).members
    }

    /// Whether a second copy does harm: true unless the options say otherwise.
    ///
    /// Chabok knows no idempotency key, so a second copy is a second message.
    public func isRepeatHarmful(_ notification: PushNotification) -> Bool { !options.resendsAmbiguous }

    /// The number of messages that the connections take in full arrays.
    public var window: Int? { options.common.maximumConnections * ChabokBatch.arrayLimit }

    /// Arrays of different bodies.
    public var batching: RequestBatching? { RequestBatching(limit: ChabokBatch.arrayLimit, isMixed: true) }

    /// The state of the link and of the access token.
    public var health: BackendHealth {
        var health = BackendHealth(client.pool.status)
        if let alert = client.credentialAlert {
            (health.status, health.detail) = (.down, alert)
        } else if client.monitor.isReachable == false {
            (health.status, health.detail) = (.down, "Chabok cannot be reached.")
        } else if client.monitor.state == .socketTimeout {
            (health.status, health.detail) = (.degraded, "Chabok did not answer in time.")
        }
        return health
    }

    /// The state of the link.
    public var connectionState: ChabokConnectionState { client.monitor.state }

    /// Probes the link at an interval, for the event stream; returns when cancelled, or at once when probes are off.
    public func watch() async {
        guard options.probeInterval > .zero else { return }
        while !Task.isCancelled {
            _ = try? await client.exchange("GET", "/installations/tags")
            do {
                try await client.time.sleep(for: options.probeInterval)
            } catch {
                return
            }
        }
    }

    /// Ends the backend and its event stream.
    public func shutdown(grace: Duration) async {
        await client.shutdown(grace: grace)
        stream.finish()
    }

    /// Adds and edits installations.
    public var devices: (any DeviceRegistrar)? { installations }
    /// Keeps tags and attributes of users.
    public var tags: (any TagEditor)? { users }
    /// Takes reports of devices.
    public var events: (any EventReporter)? { tracker }
    /// Asks apps to remove notifications, by a convention of Chapar's that the apps must support.
    public var recall: (any MessageRecaller)? { messages }
    /// Reads the state of a message.
    public var tracking: (any MessageTracker)? { messages }
    /// Reads clicks.
    public var clicks: (any ClickReader)? { tracker }
    /// Reads webhooks, where a secret is set.
    public var receipts: (any ReceiptReader)? { reader }

    /// Forgets the installation of a device.
    ///
    /// For all devices, only those kept in memory are forgotten.
    public func forget(device: String?) async throws(PushError) { try await installations.records.forget(device) }
}
