internal import ChaparCore

/// Checks what a backend makes of a refused credential, of a pause that the platform asks for, and of a refusal that
/// looks like a success.
extension BackendConformance {
    static let verdicts: [Check] = [
        Check(
            "parks when its credential is refused, says so in its diagnosis, and shows no secret",
            source: "Refusal.Advice.parkBackend, PushBackend.diagnose()",
            why: "An operator must act, and reads these words; without parking every message asks again.",
            needs: [.refuseCredential],
            wants: [.secrets, .log],
            run: parksRefused
        ),
        Check(
            "replaces a credential that has ended within one send",
            source: "AuthorizedPool, AuthStrategy.refused(_:status:reason:)",
            why: "Access tokens end every hour: each time the backend would park.",
            needs: [.expireCredential],
            declared: .expiringCredentials,
            run: replacesEnded
        ),
        Check(
            "waits as long as the platform asks",
            source: "HTTPAnswer.retryAfter(now:), Refusal.Advice",
            why: "A platform that is asked again too early blocks the account.",
            needs: [.throttle],
            declared: .retryAfter,
            run: waits
        ),
        Check(
            "takes a refusal under a status of success for a refusal",
            source: "docs/Plugins.md: Refusals",
            why: "A message that the platform dropped would count as delivered, and no other backend is tried.",
            needs: [.refusedUnderSuccess],
            declared: .refusalsUnderSuccess,
            run: readsVerdicts
        ),
    ]

    private static func parksRefused(_ subject: Subject) async throws {
        guard let refuse = subject.refuseCredential else { return }
        try await refuse()
        var words: [String] = []
        for outcome in try await subject.send(subject.request(0..<2)) {
            guard case .refused(let refusal) = outcome else {
                throw ConformanceFailure("with a refused credential a message came to \(outcome.word)")
            }
            try expect(refusal.kind == .account, "a refused credential is blamed on the \(refusal.kind.rawValue)")
            try expect(refusal.advice == .parkBackend, "the advice for a refused credential is \(refusal.advice)")
            try expect(refusal.invalidation == nil, "a refused credential invalidates a token")
            try expect(!(refusal.detail ?? "").isEmpty, "the refusal says nothing to the operator")
            words += [refusal.reason, refusal.detail ?? ""]
        }
        let backend = subject.backend
        let found = try await within(subject.deadline + subject.waitLimit, "the diagnosis did not end") {
            await backend.diagnose()
        }
        let failure = found.first { $0.verdict == .failure }
        try expect(failure != nil, "the credential is refused, and the diagnosis finds no failure")
        try expect(!(failure?.fix ?? "").isEmpty, "the failure of the diagnosis says nothing about its fix")
        words += found.flatMap { [$0.check, $0.finding, $0.fix ?? ""] } + [backend.health.detail ?? ""]
        words += subject.log?.lines ?? []
        for secret in subject.secrets.map({ $0.reveal() }) where !secret.isEmpty {
            try expect(!words.contains { $0.contains(secret) }, "a refused credential is shown")
        }
    }

    private static func replacesEnded(_ subject: Subject) async throws {
        guard let expire = subject.expireCredential else { return }
        try expectAccepted(try await subject.send(subject.request(0..<1))[0])
        try await expire()
        for outcome in try await subject.send(subject.request(0..<3)) {
            guard case .accepted = outcome else {
                throw ConformanceFailure("after the credential had ended a message came to \(outcome.word)")
            }
        }
    }

    private static func waits(_ subject: Subject) async throws {
        guard let throttle = subject.throttle else { return }
        let pause = Duration.seconds(77)
        try expectAccepted(try await subject.send(subject.request(0..<1))[0])
        try await throttle(pause)
        for outcome in try await subject.send(subject.request(0..<1)) {
            guard case .refused(let refusal) = outcome else {
                throw ConformanceFailure("when the platform asked for a pause a message came to \(outcome.word)")
            }
            let after: Duration? =
                switch refusal.advice {
                case .retry(let after), .slowRecipient(let after), .slowBackend(let after): after
                case .never, .parkBackend: nil
                }
            // A platform's own rule may ask for more.
            let isKept = after.map { $0 >= pause && $0 <= pause * 2 } ?? false
            try expect(isKept, "the platform asked for a pause of 77 s, and the advice is \(refusal.advice)")
            try expect(refusal.invalidation == nil, "a pause invalidates a token")
        }
    }

    private static func readsVerdicts(_ subject: Subject) async throws {
        guard let refused = subject.refusedUnderSuccess else { return }
        var request = subject.request(0..<2)
        request.recipients.insert(Addressee(refused), at: 1)
        let outcomes = try await subject.send(request)
        try expectAccepted(outcomes[0])
        try expectAccepted(outcomes[2])
        guard case .refused = outcomes[1] else {
            throw ConformanceFailure("a message that the platform refused under a success came to \(outcomes[1].word)")
        }
    }
}
