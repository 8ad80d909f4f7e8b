internal import ChaparCore

/// Checks that a refusal blames the right part, and that its texts hold no secret.
extension BackendConformance {
    static let refusing: [Check] = [
        Check(
            "refuses a dead recipient alone",
            source: "Refusal.Invalidation",
            why: "A dead token that is not declared dead is sent to for ever; a live one beside it must not suffer.",
            needs: [.deadRecipient],
            run: refusesDead
        ),
        Check(
            "refuses a recipient that it cannot address, and no other",
            source: "PushBackend.audience",
            why: "A message to a foreign address must fail in words, not be lost.",
            needs: [.foreignRecipient],
            run: refusesForeign
        ),
        Check(
            "refuses every form and service outside its audience",
            source: "PushBackend.audience",
            why: "A token of another platform would reach no device, or a wrong one.",
            needs: [],
            wants: [.taken],
            run: refusesUndeclared
        ),
        Check(
            "finds no fault with a small message",
            source: "PushBackend.check(_:for:)",
            why: "A fault in the check refuses the request with 422 before it is queued.",
            needs: [],
            run: findsNoFault
        ),
        Check(
            "counts the bytes of a message as its check does",
            source: "PushBackend.payloadSize(of:for:)",
            why: "A dry run shows the size beside the limit, and callers shorten their texts by it.",
            needs: [.payloadLimit],
            run: countsBytes
        ),
        Check(
            "shows a message without its recipient and without secrets",
            source: "PushBackend.payload(of:for:)",
            why: "A dry run shows it to callers who may see neither tokens nor keys.",
            needs: [],
            run: showsNoToken
        ),
        Check(
            "never lets out a message that is too large",
            source: "PushBackend.check(_:for:)",
            why: "The caller hears of it with 422; after acceptance it is too late to change the message.",
            needs: [.payloadLimit],
            wants: [.taken],
            run: refusesLarge
        ),
        Check(
            "shows no token, secret or text of a message in its words",
            source: "Refusal.detail, BackendHealth.detail, Diagnosis and the log: never a token, key or payload",
            why: "Refusals, health and logs are read by people who may see neither tokens nor messages.",
            wantsHaste: true,
            needs: [],
            wants: [.disturb, .secrets, .log],
            run: keepsQuiet
        ),
    ]

    private static func refusesDead(_ subject: Subject) async throws {
        guard let dead = subject.deadRecipient else { return }
        var request = subject.request(0..<2)
        request.recipients.insert(Addressee(dead), at: 1)
        let outcomes = try await subject.send(request)
        try expectAccepted(outcomes[0])
        try expectAccepted(outcomes[2])
        guard case .refused(let refusal) = outcomes[1] else {
            throw ConformanceFailure("a dead recipient was not refused: \(outcomes[1])")
        }
        try expect(refusal.kind == .token, "the refusal of a dead recipient blames \(refusal.kind.rawValue)")
        try expect(refusal.advice == .never, "the advice for a dead recipient is \(refusal.advice)")
        try expect(refusal.invalidation != nil, "the refusal of a dead recipient does not invalidate its token")
    }

    private static func refusesForeign(_ subject: Subject) async throws {
        guard let foreign = subject.foreignRecipient else { return }
        var request = subject.request(0..<2)
        request.recipients.insert(Addressee(foreign), at: 0)
        let outcomes = try await subject.send(request)
        try expectRefusal(outcomes[0], of: "a foreign recipient")
        for outcome in outcomes.dropFirst() { try expectAccepted(outcome) }
    }

    private static func refusesUndeclared(_ subject: Subject) async throws {
        let tokens = TokenService.known.map { Recipient.token(DeviceToken("5e5e0000", service: $0)) }
        let forms: [Recipient] = [
            .device("d-1"), .user("u-1"), .platformID("p-1"), .topic("news"), .tags(TagFilter(any: ["a"])), .everyone,
        ]
        let strangers = (tokens + forms).filter { !subject.backend.audience.contains($0) }
        guard !strangers.isEmpty else { return }
        let request = PushRequest(subject.request(0..<1).notification, to: strangers.map { Addressee($0) })
        let reached = try await subject.rise(subject.taken) {
            for (recipient, outcome) in zip(strangers, try await subject.send(request)) {
                try expectRefusal(outcome, of: "a recipient outside its audience (\(recipient.form.rawValue))")
            }
        }
        try expect((reached ?? 0) == 0, "\(reached ?? 0) recipients outside its audience were sent to")
    }

    private static func expectRefusal(_ outcome: DeliveryOutcome, of what: String) throws(ConformanceFailure) {
        guard case .refused(let refusal) = outcome else {
            throw ConformanceFailure("\(what) was not refused: \(outcome)")
        }
        try expect(refusal.advice == .never, "the advice for \(what) is \(refusal.advice)")
        try expect(refusal.invalidation == nil, "the token of \(what) was invalidated")
    }

    private static func findsNoFault(_ subject: Subject) async throws {
        let notification = subject.request(0..<1).notification
        let check = subject.backend.check(notification, for: subject.recipient(0).form)
        try expect(check.faults.isEmpty, "a small message has faults: \(check.faults.map(\.detail))")
    }

    private static func countsBytes(_ subject: Subject) async throws {
        guard let limit = subject.payloadLimit else { return }
        let addressee = Addressee(subject.recipient(0))
        for (request, isLarge) in [(subject.request(0..<1), false), (subject.large(limit), true)] {
            // A platform without a limit has no size.
            guard let size = subject.backend.payloadSize(of: request.notification, for: addressee) else { return }
            let words = "a message of \(isLarge ? "more than \(limit)" : "few") bytes"
            try expect(size.bytes > 0, "\(words) has no bytes")
            try expect(
                (size.bytes > size.limit) == isLarge,
                "\(words) counts as \(size.bytes) of \(size.limit)"
            )
        }
    }

    private static func showsNoToken(_ subject: Subject) async throws {
        guard case .token(let token) = subject.recipient(0) else { return }
        let notification = subject.request(0..<1).notification
        guard let body = subject.backend.payload(of: notification, for: Addressee(.token(token))) else { return }
        let text = JSONValue.object(body).text
        try expect(!text.contains(token.value), "the message that it shows has the token")
        for secret in subject.secrets.map({ $0.reveal() }) where !secret.isEmpty {
            try expect(!text.contains(secret), "the message that it shows has a secret")
        }
    }

    private static func refusesLarge(_ subject: Subject) async throws {
        guard let limit = subject.payloadLimit else { return }
        let large = subject.large(limit)
        let check = subject.backend.check(large.notification, for: subject.recipient(0).form)
        try expect(!check.faults.isEmpty, "a message over \(limit) bytes passes the check before acceptance")
        let reached = try await subject.rise(subject.taken) {
            for outcome in try await subject.send(large) {
                guard case .refused(let refusal) = outcome else {
                    throw ConformanceFailure("a message over \(limit) bytes was not refused: \(outcome)")
                }
                try expect(refusal.kind == .message, "the refusal of a large message blames \(refusal.kind.rawValue)")
                try expect(refusal.advice == .never, "the advice for a large message is \(refusal.advice)")
            }
        }
        try expect((reached ?? 0) == 0, "a message over \(limit) bytes reached the platform")
    }

    // MARK: Words

    private static func keepsQuiet(_ subject: Subject) async throws {
        let recipients = [subject.recipient(0)] + [subject.deadRecipient, subject.foreignRecipient].compactMap { $0 }
        let notification = subject.request(0..<1).notification
        var outcomes = try await subject.send(PushRequest(notification, to: recipients.map { Addressee($0) }))
        if let limit = subject.payloadLimit { outcomes += try await subject.send(subject.large(limit)) }
        var words = await subject.backend.diagnose().flatMap { [$0.check, $0.finding, $0.fix ?? ""] }
        for disturbance in [Disturbance.unreadable, .lostAnswer, .unreachable] {
            try await subject.disturb?(disturbance)
            outcomes += try await subject.send(PushRequest(notification, to: recipients.map { Addressee($0) }))
        }
        for outcome in outcomes {
            switch outcome {
            case .accepted: break
            case .refused(let refusal):
                try expect(isLabel(refusal.reason), "the reason \"\(refusal.reason)\" is unfit for a label")
                words += [refusal.reason, refusal.detail ?? ""]
            case .unknown(let unknown):
                try expect(isLabel(unknown.reason), "the reason \"\(unknown.reason)\" is unfit for a label")
                words += [unknown.reason, unknown.detail ?? ""]
            }
        }
        words += [subject.backend.health.detail ?? "", String(reflecting: subject.backend)]
        words += subject.log?.lines ?? []
        let tokens = recipients.compactMap { if case .token(let token) = $0 { token.value } else { nil } }
        // A shorter one may occur anywhere by chance.
        let hidden = tokens.filter { $0.utf8.count >= 8 } + subject.secrets.map { $0.reveal() }
        for word in words {
            try expect(!word.contains(Subject.marker), "the text of a message stands in: \(word)")
            // The report of a broken promise must not break it again.
            let shown = hidden.filter { word.contains($0) }.reduce(word) { $0.replacing($1, with: "<hidden>") }
            try expect(shown == word, "a device token or secret stands in: \(shown)")
        }
    }

    private static func isLabel(_ reason: String) -> Bool { !reason.isEmpty && reason.utf8.count <= 64 }
}

extension BackendConformance.Subject {
    fileprivate func large(_ limit: Int) -> PushRequest {
        var request = request(0..<2)
        request.notification.body = .plain(String(repeating: "x", count: limit + 1) + Self.marker)
        return request
    }
}
