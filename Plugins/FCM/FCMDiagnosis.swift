internal import Foundation
public import ChaparCore

extension FCMBackend {
    /// Checks the credential and the clock, fetches an access token, then sends Google one dry run to a token that
    /// cannot exist.
    ///
    /// The expected answer is a refusal of the token: it comes after Google has accepted connection, credential and
    /// project.
    public func diagnose() async -> [Diagnosis] {
        var findings = [credentialFinding]
        let credential: AuthCredential
        do throws(PushError) {
            credential = try await auth.credential(for: options.endpoint)
            findings.append(Diagnosis("access token", .ok, "Google gives access tokens for this credential."))
        } catch {
            findings.append(tokenFinding(error))
            findings.append(contentsOf: clockFinding)
            return findings
        }
        findings.append(contentsOf: clockFinding)
        do throws(HTTPFailure) {
            let answer = try await pool.send(probe(credential))
            findings.append(Diagnosis("reachability", .ok, "\(options.endpoint) answers over HTTP/2 and TLS."))
            findings.append(projectFinding(answer))
        } catch {
            findings.append(reachabilityFinding(error))
        }
        return findings
    }

    /// Returns a dry run, which sends no message.
    private func probe(_ credential: AuthCredential) -> HTTPCall {
        let template = HTTPCallTemplate(
            method: "POST",
            headers: credential.httpHeaders + [HTTPHeader("content-type", "application/json; charset=utf-8")]
        )
        let body = #"{"validate_only":true,"message":{"data":{"doctor":"1"},"token":"chapar-doctor"}}"#
        return HTTPCall(template, path: options.sendPath, body: Array(body.utf8))
    }

    private var credentialFinding: Diagnosis {
        switch options.credential {
        case .serviceAccount(let account):
            let isOwn = account.projectID == options.projectID
            return Diagnosis(
                "key",
                .ok,
                "An RSA key of \(account.email), for the project \(options.projectID)"
                    + (isOwn ? "." : "; the account belongs to \(account.projectID).")
            )
        case .authorizedUser:
            return Diagnosis(
                "key",
                .warning,
                "A person's credential, for the project \(options.projectID).",
                fix: "It ends with the person's session: use a service account for servers."
            )
        case .strategy:
            return Diagnosis("key", .ok, "Access tokens come from their own strategy, for \(options.projectID).")
        case .accessToken:
            return Diagnosis("key", .ok, "Access tokens come from the program itself, for \(options.projectID).")
        }
    }

    private func tokenFinding(_ error: PushError) -> Diagnosis {
        let isOurs = error.code == .credentialsRefused
        return Diagnosis(
            "access token",
            .failure,
            error.message,
            fix: isOurs
                ? "Set the clock, or download a new key: Firebase console, Project settings, Service accounts."
                : "Check name resolution and the firewall: the token endpoint must be reachable too."
        )
    }

    private var clockFinding: [Diagnosis] {
        guard let ahead = (auth as? FCMAuth)?.clockOffset else { return [] }
        let seconds = Int(clamping: ahead.inSeconds.rounded())
        guard abs(seconds) > 60 else { return [Diagnosis("clock", .ok, "Within \(abs(seconds)) s of Google's.")] }
        return [
            Diagnosis(
                "clock",
                .failure,
                "\(abs(seconds)) s \(seconds > 0 ? "ahead of" : "behind") Google's.",
                fix: "Set this machine's clock (chronyc tracking, timedatectl): assertions are refused otherwise."
            )
        ]
    }

    private func projectFinding(_ answer: HTTPAnswer) -> Diagnosis {
        let body = FCMAnswer(answer)
        let isAboutToken =
            body.errorCode == FCMErrorCode.invalidArgument || body.errorCode == FCMErrorCode.unregistered
            || body.errorCode == FCMErrorCode.senderMismatch
        if answer.status == 200 || isAboutToken {
            return Diagnosis("project", .ok, "Google takes messages for the project \(options.projectID).")
        }
        let context = FCMRejections.Context(started: time.now, target: .android, isSecondTry: true)
        guard case .final(.refused(let refusal)) = FCMRejections.verdict(on: answer, context) else {
            return Diagnosis("project", .warning, "Google answered \(answer.status).")
        }
        return Diagnosis(
            refusal.kind == .account ? "project" : "service",
            refusal.kind == .account ? .failure : .warning,
            "Google answered \(answer.status) \(refusal.reason).",
            fix: refusal.detail
        )
    }

    private func reachabilityFinding(_ failure: HTTPFailure) -> Diagnosis {
        let fix =
            switch failure.cause {
            case .connect: "Check name resolution and the firewall: TCP to port \(options.endpoint.port)."
            case .tls: "If a proxy re-signs TLS, put its CA into ca_file."
            case .protocolNotNegotiated:
                "Something on the way does not speak HTTP/2: let connections to \(options.endpoint.host) pass unopened."
            case .proxy: "Check proxy, and that it allows CONNECT to \(options.endpoint.authority)."
            default: "Try again; if it stays, check the network between here and \(options.endpoint.host)."
            }
        return Diagnosis("reachability", .failure, "\(options.endpoint): \(failure.detail)", fix: fix)
    }
}
