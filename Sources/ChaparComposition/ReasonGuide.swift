package import ChaparCore

/// The text about one reason of one source, for `explain` and for the answers about deliveries.
///
/// Guides are made from the refusals that plugins list, from connection failures, and from ``GatewayReasons``. The
/// table of docs/Troubleshooting.md is made from the same guides. A guide only explains: it decides nothing about a
/// delivery.
package struct ReasonGuide: Sendable {
    /// The reason's name, as an attempt or event has it.
    package var reason: String
    /// The source of the reason: a kind of backend, `http-transport` for the way to any platform, or `gateway`.
    package var source: String
    /// The outcome of the attempt or the delivery, such as `refused: platform`.
    package var outcome: String
    /// The meaning of the reason.
    package var meaning: String
    /// The reaction of the gateway.
    package var gateway: String
    /// The action that an operator can take.
    package var action: String

    /// The guide as one JSON object, for scripts.
    package var json: JSONValue {
        [
            "reason": .string(reason), "source": .string(source), "outcome": .string(outcome),
            "meaning": .string(meaning), "gateway": .string(gateway), "action": .string(action),
        ]
    }

    /// Returns the guides to all reasons: of a program's platforms, of the way to them, and of the gateway itself.
    package static func all(_ backends: [BackendFactory]) -> [ReasonGuide] {
        var seen: Set<String> = []
        let platforms = backends.flatMap { factory in
            factory.reasons.compactMap { ReasonGuide($0, of: factory.kind.rawValue) }
        }
        return (platforms + http + GatewayReasons.all).filter { seen.insert("\($0.source):\($0.reason)").inserted }
    }

    /// The guides to failures on the way to any platform: no connection, no answer.
    private static let http: [ReasonGuide] = {
        let causes: [HTTPFailure.Cause] = [
            .connect, .tls, .protocolNotNegotiated, .proxy, .refusedStream, .goAway, .reset(0), .connectionLost,
            .deadline, .queueFull, .cancelled, .badAnswer, .credentials, .credentialsUnavailable, .invalidCall,
            .forbiddenAddress,
        ]
        return causes.compactMap { cause in
            let (stage, detail) = words(cause)
            return ReasonGuide(HTTPFailure(stage, cause, detail).outcome(), of: "http-transport")
        }
    }()

    private static func words(_ cause: HTTPFailure.Cause) -> (HTTPFailure.Stage, String) {
        switch cause {
        case .connect: (.notProcessed, "The platform's name could not be resolved, or no connection came about.")
        case .tls:
            (
                .notProcessed,
                "The TLS handshake failed. One that fails for a certificate parks the backend: see ca_file."
            )
        case .protocolNotNegotiated:
            (.notProcessed, "What answered does not speak the protocol: a proxy, or a wrong base_url.")
        case .proxy: (.notProcessed, "The proxy refused the tunnel to the platform: check proxy.")
        case .refusedStream: (.notProcessed, "The platform refused the request before it looked at it.")
        case .goAway: (.notProcessed, "The platform ended the connection before it took the request.")
        case .reset: (.unknown, "The platform reset the stream after the request was on its way.")
        case .connectionLost:
            (.unknown, "The connection ended after the request was on its way, and before the answer.")
        case .deadline: (.unknown, "No answer came within timeout.")
        case .queueFull: (.notProcessed, "As many requests as the connections may hold were waiting already.")
        case .cancelled: (.notProcessed, "The gateway, or a reload, ended the backend before the request left.")
        case .badAnswer: (.unknown, "The answer broke the protocol, or was too large.")
        case .credentials: (.notProcessed, "The connection's credential could not be made: check the key and its file.")
        case .credentialsUnavailable:
            (.notProcessed, "The service that issues the credential gave none for now: see the attempt's detail.")
        case .invalidCall: (.notProcessed, "The request cannot be sent as HTTP: a recipient or header that it forbids.")
        case .forbiddenAddress:
            (.notProcessed, "The recipient's host has an address that is not public: name the host if it is meant.")
        }
    }

    /// Makes the guide to an outcome in a plugin's table; nil for an acceptance.
    package init?(_ outcome: DeliveryOutcome, of source: String) {
        self.source = source
        switch outcome {
        case .accepted: return nil
        case .refused(let refusal):
            reason = refusal.reason
            self.outcome = "refused: \(refusal.kind.rawValue)"
            meaning = refusal.detail.flatMap { $0.isEmpty ? nil : $0 } ?? Self.meaning(refusal)
            gateway = Self.gateway(refusal)
            action = Self.action(refusal)
        case .unknown(let unknown):
            reason = unknown.reason
            self.outcome = "unknown"
            meaning = unknown.detail ?? "Something was sent, and no usable answer came: it may have been delivered."
            gateway =
                "Follows on_unknown of the route. Without one it tries again, or ends the delivery as unknown where a second "
                + "copy does harm."
            action = "Nothing for one message. If it lasts, run doctor, and look at the platform's status page."
        }
    }

    /// Makes a guide.
    package init(_ reason: String, of source: String, outcome: String, meaning: String, gateway: String, action: String)
    {
        self.reason = reason
        self.source = source
        self.outcome = outcome
        self.meaning = meaning
        self.gateway = gateway
        self.action = action
    }

    private static func meaning(_ refusal: Refusal) -> String {
        let status = refusal.status.map { " (HTTP \($0))" } ?? ""
        return switch refusal.kind {
        case .token: "The platform does not take messages for this device token\(status)."
        case .message: "The platform finds the request wrong; the attempt's detail has its own words\(status)."
        case .account: "The platform does not take messages of this account\(status)."
        case .platform: "The platform cannot take the message now\(status)."
        }
    }

    private static func gateway(_ refusal: Refusal) -> String {
        let next = "goes on with the next backend of the plan, if there is one"
        if let invalidation = refusal.invalidation, refusal.advice == .never {
            let rest =
                "When too many tokens are refused at once, a wrong configuration is likelier: then none becomes invalid, and they are "
                + "quarantined (devices quarantined)."
            return invalidation.isCertain
                ? "Marks the token invalid: it gets nothing more until the device registers again. The message goes on with the next "
                    + "backend of the plan that takes another token, else the delivery ends as failed. \(rest)"
                : "Leaves this backend out for the token (refused_by of the device) and \(next), with the same token where that backend "
                    + "takes it, else the delivery ends as failed. The token becomes invalid when no backend is left that could "
                    + "take it. \(rest)"
        }
        let advice =
            switch refusal.advice {
            case .never: "Does not repeat it here: it \(next), else the delivery ends as failed."
            case .retry(let after):
                "Tries this delivery again\(Self.pause(after)), while its time to live and retry allow, then \(next)."
            case .slowRecipient(let after):
                "Tries again\(after == nil ? " later" : Self.pause(after)), and sends nothing else to this recipient until then."
            case .slowBackend(let after?):
                "Pauses the whole backend\(Self.pause(after)), then goes on; messages wait, none is lost."
            case .slowBackend(nil):
                "Sends one message at a time, after 1 s and at growing intervals of up to a minute, until the platform takes one; the "
                    + "others wait, none is lost. Where the platform names a time, it pauses for that."
            case .parkBackend:
                "Parks the backend: it \(next), else the message waits. One waiting message probes after 1 s, then at growing "
                    + "intervals of up to 15 minutes; a reload probes at once."
            }
        guard let invalidation = refusal.invalidation else { return advice }
        return advice
            + (invalidation.isCertain ? " Marks the token invalid." : " Leaves this backend out for the token.")
    }

    private static func pause(_ span: Duration?) -> String {
        span.map { " after \($0.components.seconds) s or more" } ?? ""
    }

    private static func action(_ refusal: Refusal) -> String {
        switch refusal.kind {
        case .token where refusal.invalidation?.isCertain == true:
            "Nothing: the app registers again at its next start. For many at once compare environment, app and project."
        case .token where refusal.invalidation != nil:
            "Compare the backend's environment, app and project with the build of the app that the token is from. If they agree, "
                + "nothing: the app registers again."
        case .token: "Nothing for one device; send it less, or look at what the device's registration says."
        case .message where refusal.status == 413: "Send less: the platform's page says how much it takes."
        case .message: "Change the request as the attempt's detail says: the same message is refused again."
        case .account: "Mend the backend's section, or the account at the platform; run doctor; then reload."
        case .platform where refusal.status == 429:
            "Nothing; if it lasts, set rate_limit of the backend below the platform's quota."
        case .platform: "Nothing; if it lasts, see backends --url, and the platform's status page."
        }
    }
}
