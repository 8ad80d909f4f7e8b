import Foundation
public import ChaparCore

extension APNsBackend {
    /// Checks the key or certificate and the topic, then sends Apple one push to a token that cannot exist.
    ///
    /// Success is the answer `BadDeviceToken`: it comes after Apple has accepted connection, credential and topic.
    public func diagnose() async -> [Diagnosis] {
        var findings = [credentialFinding, topicFinding]
        // No message is sent with an invalid certificate, and a refused handshake would add no information.
        guard credentialProblem(at: time.now) == nil else { return findings }
        await tokens?.prepare()
        do throws(HTTPFailure) {
            let answer = try await pool.send(probe)
            findings.append(Diagnosis("reachability", .ok, "\(options.endpoint) answers over HTTP/2 and TLS."))
            findings.append(clockFinding(answer))
            findings.append(answerFinding(answer))
        } catch {
            findings.append(reachabilityFinding(error))
        }
        if let alert = tokens?.alert { findings.append(Diagnosis("provider token", .warning, alert)) }
        return findings
    }

    /// A push that shows nothing, is not stored, and reaches no device.
    private var probe: HTTPCall {
        let template = HTTPCallTemplate(
            method: "POST",
            headers: [
                HTTPHeader("apns-topic", options.topic), HTTPHeader("apns-push-type", "background"),
                HTTPHeader("apns-priority", "5"),
            ]
        )
        return HTTPCall(
            template,
            path: "/3/device/" + String(repeating: "0", count: 64),
            headers: [
                HTTPHeader("apns-id", MessageID.random().description, .literal),
                HTTPHeader("apns-expiration", "0", .literal),
            ],
            body: Array(#"{"aps":{"content-available":1}}"#.utf8)
        )
    }

    private var credentialFinding: Diagnosis {
        switch options.credential {
        case .key(_, let keyID, let teamID):
            return Diagnosis("key", .ok, "A P-256 key, id \(keyID), of team \(teamID).")
        case .certificate(let certificate): return certificate.validity(at: time.now)
        case .strategy: return Diagnosis("key", .ok, "Access tokens of auth, for a relay.")
        }
    }

    private var topicFinding: Diagnosis {
        if case .certificate(let certificate) = options.credential, !certificate.allows(options.topic) {
            return Diagnosis(
                "topic",
                .failure,
                "\(options.topic) is not in the certificate.",
                fix: "It holds: \(certificate.topics.joined(separator: ", "))."
            )
        }
        guard APNsHeaders.isTopic(options.topic), APNsPushType.suffix(of: options.topic) == nil else {
            return Diagnosis(
                "topic",
                .failure,
                "\(options.topic) is not a bundle id.",
                fix: "Write the bundle id alone, such as com.example.app."
            )
        }
        return Diagnosis("topic", .ok, "\(options.topic) has the form of a bundle id.")
    }

    private func clockFinding(_ answer: HTTPAnswer) -> Diagnosis {
        guard let date = answer.date else {
            return Diagnosis("clock", .ok, "The server does not tell its time; a wrong clock would be refused below.")
        }
        let offset = Int(clamping: time.now.timeIntervalSince(date).rounded())
        guard abs(offset) > 60 else { return Diagnosis("clock", .ok, "Within \(abs(offset)) s of the server's.") }
        return Diagnosis(
            "clock",
            .failure,
            "\(abs(offset)) s \(offset > 0 ? "ahead of" : "behind") the server's.",
            fix: "Set this machine's clock (chronyc tracking, timedatectl): provider tokens are refused otherwise."
        )
    }

    private func answerFinding(_ answer: HTTPAnswer) -> Diagnosis {
        let reason = APNsAnswer(answer).reason
        if reason == "BadDeviceToken" || answer.status == 200 {
            return Diagnosis("credentials", .ok, "Apple takes the credential for \(options.topic).")
        }
        let context = APNsRejections.Context(started: time.now, isOwnTopic: true, isBroadcast: false, isSecondTry: true)
        guard case .final(.refused(let refusal)) = APNsRejections.verdict(on: answer, context) else {
            return Diagnosis("credentials", .warning, "The server answered \(answer.status).")
        }
        let isOurs = refusal.kind == .account
        return Diagnosis(
            isOurs ? "credentials" : "service",
            isOurs ? .failure : .warning,
            "Apple answered \(answer.status) \(refusal.reason).",
            fix: refusal.detail
        )
    }

    private func reachabilityFinding(_ failure: HTTPFailure) -> Diagnosis {
        let fix =
            switch failure.cause {
            case .connect:
                "Check name resolution and the firewall: TCP to port \(options.endpoint.port); APNs listens on 2197 too."
            case .tls:
                "If a proxy re-signs TLS, put its CA into ca_file; if the client certificate was refused, renew it."
            case .protocolNotNegotiated:
                "Something on the way does not speak HTTP/2: let connections to \(options.endpoint.host) pass unopened."
            case .proxy: "Check proxy, and that it allows CONNECT to \(options.endpoint.authority)."
            case .credentials: "Set this machine's clock, then try again."
            default: "Try again; if it stays, check the network between here and \(options.endpoint.host)."
            }
        return Diagnosis("reachability", .failure, "\(options.endpoint): \(failure.detail)", fix: fix)
    }
}
