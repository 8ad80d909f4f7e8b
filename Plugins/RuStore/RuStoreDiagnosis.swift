internal import Foundation
public import ChaparCore

extension RuStoreBackend {
    /// Asks RuStore with a message to a token that cannot exist, and by the direct API also how it answers to a wrong
    /// project and to a request without a credential, which RuStore's pages leave open.
    ///
    /// The expected answer is a refusal of the token: it comes after RuStore has accepted connection, service token and
    /// project. No message is sent.
    public func diagnose() async -> [Diagnosis] {
        do throws(HTTPFailure) {
            let answer = try await pool.send(probe(options.sendPath, template))
            var findings = [
                Diagnosis("reachability", .ok, "\(options.endpoint) answers over TLS."), projectFinding(answer),
            ]
            findings.append(shapeFinding(answer))
            if !frame.isUniversal {
                let foreign = try await pool.send(probe("/v1/projects/chapar-doctor/messages:send", template))
                findings.append(wrongProjectFinding(foreign))
                let bare = try await pool.send(probe(options.sendPath, RuStoreAuth.template(nil)))
                findings.append(
                    Diagnosis(
                        "no credential",
                        .ok,
                        "Without a credential RuStore answers \(bare.status) \(Self.word(bare))."
                    )
                )
            }
            return findings
        } catch {
            return [reachabilityFinding(error)]
        }
    }

    private static let nobody: StaticString = "chapar-doctor"

    private func probe(_ path: String, _ template: HTTPCallTemplate) -> HTTPCall {
        let message = Array(#"{"data":{"doctor":"1"},"android":{"ttl":"1s"}}"#.utf8)
        let target = RuStoreTarget(token: Self.nobody)
        let body = RuStoreBody(message, in: frame).completed(for: target, id: .random())
        return HTTPCall(template, path: path, body: body)
    }

    private static func word(_ answer: HTTPAnswer) -> String {
        let body = RuStoreAnswer(answer)
        return body.word ?? (body.isForeign ? "with a page that is no JSON" : "without a status word")
    }

    private func outcome(on answer: HTTPAnswer) -> DeliveryOutcome {
        let token = DeviceToken("\(Self.nobody)", service: options.service)
        return RuStoreRejections.outcome(
            on: answer,
            .init(started: time.now, recipient: .token(token), isUniversal: frame.isUniversal)
        )
    }

    private func projectFinding(_ answer: HTTPAnswer) -> Diagnosis {
        switch outcome(on: answer) {
        case .refused(let refusal) where refusal.kind == .token:
            return Diagnosis("project", .ok, "RuStore takes messages for the project \(options.projectID).")
        case .accepted:
            return Diagnosis(
                "project",
                .warning,
                "RuStore took a message to a token that cannot exist: nothing can be said of the service token.",
                fix: "Send a message to a device of your own."
            )
        case .refused(let refusal):
            return Diagnosis(
                refusal.kind == .account ? "project" : "service",
                refusal.advice == .parkBackend ? .failure : .warning,
                "RuStore answered \(answer.status) \(refusal.reason).",
                fix: refusal.detail
            )
        case .unknown(let unknown): return Diagnosis("project", .warning, "RuStore answered \(unknown.reason).")
        }
    }

    /// Returns where RuStore's errors have their members.
    private func shapeFinding(_ answer: HTTPAnswer) -> Diagnosis {
        if case .accepted = outcome(on: answer) {
            return Diagnosis("error shape", .ok, "RuStore answered \(answer.status) without an error: it is not known.")
        }
        let object = (try? JSONValue(parsing: answer.body))?.objectValue
        let place = object?["error"] != nil ? "inside error" : object == nil ? "nowhere: no JSON" : "at the top"
        let code = object?["code"]?.integerValue.map { ", code \($0)" } ?? ""
        return Diagnosis("error shape", .ok, "The status word of an error is \(place): \(Self.word(answer))\(code).")
    }

    /// Returns whether 404 proves that a token is dead: it does not if a wrong project gets the same answer.
    private func wrongProjectFinding(_ answer: HTTPAnswer) -> Diagnosis {
        let finding = "A wrong project gets \(answer.status) \(Self.word(answer))"
        guard case .refused(let refusal) = outcome(on: answer), refusal.invalidation != nil else {
            return Diagnosis("wrong project", .ok, "\(finding): no token would be called dead for it.")
        }
        return Diagnosis(
            "wrong project",
            .warning,
            "\(finding), as a token that is gone does.",
            fix: "Take care with project_id: only the guard stands between a wrong one and the registry."
        )
    }

    private func reachabilityFinding(_ failure: HTTPFailure) -> Diagnosis {
        let fix =
            switch failure.cause {
            case .connect: "Check name resolution and the firewall: TCP to port \(options.endpoint.port)."
            case .tls: "If a proxy re-signs TLS, put its CA into ca_file."
            case .protocolNotNegotiated:
                "Set http_version: 1, or let connections to \(options.endpoint.host) pass unopened."
            case .proxy: "Check proxy, and that it allows CONNECT to \(options.endpoint.authority)."
            default: "Try again; if it stays, check the network between here and \(options.endpoint.host)."
            }
        return Diagnosis("reachability", .failure, "\(options.endpoint): \(failure.detail)", fix: fix)
    }
}
