import Foundation
public import ChaparCore

extension HMSBackend {
    /// Fetches an access token, then sends Huawei a message to a token that cannot exist, to be checked and not sent.
    ///
    /// The expected answer is `80300007`: it comes after Huawei has accepted the credential, the app and the message.
    public func diagnose() async -> [Diagnosis] {
        var findings = [accountFinding]
        do throws(PushError) {
            _ = try await auth.credential(for: options.endpoint)
            findings.append(Diagnosis("credentials", .ok, credentialWords))
        } catch {
            findings.append(credentialFinding(error))
            return findings
        }
        do throws(PushError) {
            let answer: HMSAnswer
            if options.isHarmony {
                let probe: JSONValue = [
                    "payload": ["extraData": ""], "pushOptions": ["testMessage": true, "ttl": 1],
                    "target": ["token": [.string(Self.nobody)]],
                ]
                answer = try await client.call(options.sendPath, probe, pushType: 6).answer
            } else {
                let probe = (try? JSONValue(parsing: HMSClient.probe(token: Self.nobody))) ?? .null
                answer = try await client.call(options.sendPath, probe).answer
            }
            findings.append(Diagnosis("reachability", .ok, "\(options.endpoint) answers over TLS."))
            findings.append(answerFinding(answer))
        } catch {
            findings.append(reachabilityFinding(error))
        }
        if options.isHarmony, revocation == nil {
            let fix = "Set client_id: the app's Client ID in AppGallery Connect."
            findings.append(Diagnosis("revocation", .ok, "Messages cannot be taken back.", fix: fix))
        }
        if options.receipts == nil {
            findings.append(
                Diagnosis(
                    "receipts",
                    .ok,
                    "No receipts are expected: deliveries end as accepted_by_platform.",
                    fix: "To learn what reached a device, set receipts and the callback address in AppGallery Connect."
                )
            )
        }
        return findings
    }

    private static let nobody = "chapar-doctor-" + String(repeating: "0", count: 50)

    private var accountFinding: Diagnosis {
        switch options.api {
        case .v1(let appID): Diagnosis("app", .ok, "The v1 API, app \(appID).")
        case .v2(let projectID): Diagnosis("project", .ok, "The v2 API, project \(projectID).")
        case .v3(let projectID):
            Diagnosis("project", .ok, "The v3 API, project \(projectID): HarmonyOS 5 and later.")
        }
    }

    private var credentialWords: String {
        switch options.credential {
        case .client(let id, _): "Huawei's token endpoint takes the credentials of client \(id)."
        case .serviceAccount(let account): "The key \(account.keyID) of account \(account.subAccount) signs."
        case .strategy: "There is an access token of auth."
        }
    }

    private func credentialFinding(_ error: PushError) -> Diagnosis {
        let isRefused = error.code == .credentialsRefused
        return Diagnosis(
            isRefused ? "credentials" : "reachability",
            .failure,
            error.message,
            fix: isRefused
                ? "Compare app_id and client_secret with AppGallery Connect, Project settings, General information."
                : "Check name resolution, the firewall and proxy: TCP to \(options.tokenEndpoint.authority)."
        )
    }

    private func answerFinding(_ answer: HMSAnswer) -> Diagnosis {
        guard let code = answer.code else {
            return Diagnosis(
                "service",
                .failure,
                "\(options.endpoint) answered \(answer.status) without a code.",
                fix: "Something other than Push Kit answered: check base_url and any proxy."
            )
        }
        if code == "80300007" || code == "80000000" {
            return Diagnosis("service", .ok, "Huawei takes messages of this app.")
        }
        let rule = HMSRejections.rule(for: code)
        let isOurs = rule.map { $0.consequence == .configuration || $0.consequence == .reauthorize } ?? false
        let what = code == "80200005" ? "clock" : isOurs ? "credentials" : "service"
        return Diagnosis(
            what,
            isOurs ? .failure : .warning,
            "Huawei answered with the code \(code).",
            fix: rule?.detail
        )
    }

    private func reachabilityFinding(_ error: PushError) -> Diagnosis {
        let fix =
            switch error.reason {
            case "connect_failed"?: "Check name resolution and the firewall: TCP to \(options.endpoint.authority)."
            case "tls_failed"?: "If a proxy re-signs TLS, put its CA into ca_file."
            case "proxy_refused"?: "Check proxy, and that it allows CONNECT to \(options.endpoint.authority)."
            default: "Try again; if it stays, check the network between here and \(options.endpoint.host)."
            }
        return Diagnosis("reachability", .failure, "\(options.endpoint): \(error.message)", fix: fix)
    }
}
