internal import Foundation
public import ChaparCore

extension WebPushBackend {
    /// Checks the keys and the subject, then sends each push service that the settings name one request for a
    /// subscription that cannot exist.
    ///
    /// Any refusal but that of the VAPID token is the expected answer: no push service says more without a
    /// subscription.
    public func diagnose() async -> [Diagnosis] {
        var findings = [keyFinding, subjectFinding]
        if options.keys.isEmpty { return findings }
        for origin in options.hosts.probes { findings.append(await reachability(of: origin)) }
        if options.hosts.hasUnnamed {
            let finding = "Hosts that allow_hosts does not name are taken, where their addresses are public."
            findings.append(Diagnosis("allow_hosts", .ok, finding))
        }
        return findings
    }

    private var keyFinding: Diagnosis {
        guard let key = options.keys.first else {
            return Diagnosis("key", .failure, "There is no VAPID key.", fix: "Make one with chapar webpush keys.")
        }
        let older = options.keys.count - 1
        let others = older == 0 ? "" : ", and \(older) older \(older == 1 ? "key" : "keys") for older subscriptions"
        return Diagnosis("key", .ok, "applicationServerKey of pages is \(key.publicKey)\(others).")
    }

    private var subjectFinding: Diagnosis {
        guard let mistake = WebPushOptions.mistake(inSubject: options.subject) else {
            return Diagnosis("subject", .ok, "It has the form that Apple wants.")
        }
        let fix = "Write mailto:ops@example.com, or an https:// address."
        return Diagnosis("subject", .failure, "The subject \(mistake).", fix: fix)
    }

    private func reachability(of origin: HTTPEndpoint) async -> Diagnosis {
        do throws(HTTPFailure) {
            let template = HTTPCallTemplate(method: "POST", headers: [HTTPHeader("ttl", "0")])
            let token = try auth.authorization(for: origin, key: 0, now: time.now)
            let call = HTTPCall(template, path: "/chapar.doctor", headers: [HTTPHeader("authorization", token)])
            let answer = try await client.send(WebPushClient.Call(origin: origin, trust: .named, call: call))
            if answer.status == 401 || answer.status == 403 {
                let finding = "\(origin) answered \(answer.status): it does not take the VAPID token."
                let fix = "Check subject, and this machine's clock."
                return Diagnosis("vapid", .failure, finding, fix: fix)
            }
            guard answer.status < 500 else {
                let finding = "\(origin) answered \(answer.status)."
                return Diagnosis("reachability", .warning, finding, fix: "Try again later.")
            }
            return Diagnosis("reachability", .ok, "\(origin) answers over TLS.")
        } catch {
            let fix =
                switch error.cause {
                case .tls: "If a proxy re-signs TLS, put its CA into ca_file."
                case .proxy: "Check proxy, and that it allows CONNECT to \(origin.authority)."
                default: "Check name resolution and the firewall: TCP to port \(origin.port)."
                }
            return Diagnosis("reachability", .failure, "\(origin): \(error.detail)", fix: fix)
        }
    }
}
