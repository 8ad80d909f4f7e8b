internal import ChaparCore

/// Checks a backend's identity, and that it reports each recipient exactly once.
extension BackendConformance {
    static let identity: [Check] = [
        Check(
            "has a kind that can stand in a metric label",
            source: "PushBackend.kind",
            why: "Configuration, logs and metrics name the backend by its kind.",
            needs: [],
            run: hasName
        ),
        Check(
            "can address its own recipients",
            source: "PushBackend.audience",
            why: "Routing goes by the audience: what is not in it is never offered to the backend.",
            needs: [],
            wants: [.foreignRecipient],
            run: addresses
        ),
        Check(
            "takes messages for every form and service of its audience",
            source: "PushBackend.audience",
            why: "What the audience declares is accepted with 202 and must be deliverable.",
            needs: [],
            run: takesItsAudience
        ),
        Check(
            "brings a device token of its services to its final form at once",
            source: "PushBackend.checked(_:)",
            why: "The registry keeps the final form; a second form would be a second device.",
            needs: [],
            run: checksTokens
        ),
        Check(
            "says how much it bears in numbers that can be used",
            source: "PushBackend.window",
            why: "The gateway claims as many messages as the window says; none would stop it.",
            needs: [],
            run: bears
        ),
    ]

    static let sending: [Check] = [
        Check(
            "returns at once from a send of nothing",
            source: "PushBackend.send(_:report:)",
            why: "A send that never returns holds a place of the worker for ever.",
            needs: [],
            run: sendsNothing
        ),
        Check(
            "reports every recipient of every request exactly once",
            source: "PushBackend.send(_:report:)",
            why:
                "A recipient that is not reported counts as unknown and may be sent again; one reported twice has two ends.",
            needs: [],
            run: reportsOnce
        ),
        Check(
            "takes a large batch, and tells the dead one in it from the rest",
            source: "PushBackend.send(_:report:)",
            why: "One dead token among a thousand must not cost the others their message.",
            needs: [],
            wants: [.deadRecipient],
            run: takesMany
        ),
        Check(
            "gives an id with each acceptance",
            source: "Acceptance.platformID",
            why: "Receipts, cancellation and support find a message by the platform's id.",
            needs: [.givesPlatformIDs],
            run: givesIDs
        ),
        Check(
            "takes the same message a second time, for that is what a retry is",
            source: "Addressee.isReplay",
            why: "After a lost answer the same message comes again; refusing it would end it as failed.",
            needs: [],
            run: takesRepeats
        ),
        Check(
            "gives the platform the same id with every attempt of a message",
            source: "Addressee.messageID",
            why: "By that id the platform knows a repeat; a new one at each attempt delivers the message twice.",
            needs: [.takesRepeatsOnce],
            run: keepsID
        ),
        Check(
            "keeps concurrent sends apart",
            source: "PushBackend: called concurrently",
            why: "The gateway sends several batches at a time; a mixed-up outcome kills the wrong token.",
            needs: [],
            run: keepsSendsApart
        ),
        Check(
            "sends nothing in a dry run",
            source: "Acceptance.isDryRun",
            why: "A dry run is for trying things out: no recipient may get it.",
            needs: [],
            wants: [.taken],
            run: dryRun
        ),
    ]

    // MARK: Identity

    private static func hasName(_ subject: Subject) async throws {
        let name = subject.backend.kind.rawValue
        try expect(BackendRegistry.isName(name), "the kind \"\(name)\" is not a name")
    }

    private static func addresses(_ subject: Subject) async throws {
        let recipient = subject.recipient(0)
        try expect(
            subject.backend.audience.contains(recipient),
            "its audience does not contain a recipient that it is tested with (\(recipient.form.rawValue))"
        )
        guard let foreign = subject.foreignRecipient else { return }
        try expect(!subject.backend.audience.contains(foreign), "its audience contains a foreign recipient")
    }

    private static func takesItsAudience(_ subject: Subject) async throws {
        let samples = [subject.recipient(0)] + subject.others
        let audience = subject.backend.audience
        for service in audience.services {
            let isThere = samples.contains {
                if case .token(let token) = $0 { token.service == service } else { false }
            }
            try expect(isThere, "it declares \(service), and the subject has no recipient of that service")
        }
        for form in audience.forms {
            let isThere = samples.contains { $0.form == form }
            try expect(isThere, "it declares the form \(form.rawValue), and the subject has no such recipient")
        }
        for recipient in samples {
            let message = subject.messages[recipient.form] ?? subject.request(0..<1).notification
            let request = PushRequest(message, to: [Addressee(recipient)])
            let outcomes = try await subject.send(request)
            guard case .accepted = outcomes[0] else {
                throw ConformanceFailure("it declares \(recipient.form.rawValue), and answers \(outcomes[0])")
            }
        }
    }

    private static func checksTokens(_ subject: Subject) async throws {
        for recipient in [subject.recipient(0)] + subject.others {
            guard case .token(let token) = recipient else { continue }
            do {
                let once = try subject.backend.checked(token)
                try expect(once.service == token.service, "a token of \(token.service) became one of \(once.service)")
                try expect(try subject.backend.checked(once) == once, "checking a checked token changes it")
            } catch let error as InvalidToken {
                try expect(!error.description.contains(token.value), "the fault of a token repeats the token")
                throw ConformanceFailure("a good token does not pass: \(error)")
            }
        }
    }

    private static func bears(_ subject: Subject) async throws {
        if let window = subject.backend.window { try expect(window > 0, "the window is \(window)") }
        if let pacing = subject.backend.pacing { try expect(pacing.perSecond > 0, "the pace is \(pacing.perSecond)") }
    }

    // MARK: Reports

    private static func sendsNothing(_ subject: Subject) async throws {
        try await subject.send([PushRequest]())
        try await subject.send([PushRequest(PushNotification(title: "Nobody"), to: [])])
    }

    private static func reportsOnce(_ subject: Subject) async throws {
        let requests = [subject.request(0..<3), subject.request(3..<4), subject.request(4..<7)]
        for outcome in try await subject.send(requests) { try expectAccepted(outcome) }
    }

    private static func takesMany(_ subject: Subject) async throws {
        var request = subject.request(0..<subject.largeBatch)
        let middle = subject.largeBatch / 2
        if let dead = subject.deadRecipient { request.recipients.insert(Addressee(dead), at: middle) }
        var accepted = 0
        for (place, outcome) in try await subject.send(request).enumerated() {
            if place == middle, subject.deadRecipient != nil {
                guard case .refused(let refusal) = outcome, refusal.kind == .token else {
                    throw ConformanceFailure("the dead recipient, number \(place), was not refused: \(outcome)")
                }
            } else {
                guard case .accepted = outcome else {
                    throw ConformanceFailure("number \(place) of \(request.recipients.count) came to \(outcome)")
                }
                accepted += 1
            }
        }
        try expect(accepted == subject.largeBatch, "\(accepted) of \(subject.largeBatch) were accepted")
    }

    private static func givesIDs(_ subject: Subject) async throws {
        guard subject.givesPlatformIDs else { return }
        var ids: Set<String> = []
        for outcome in try await subject.send(subject.request(0..<4)) {
            let id = try expectAccepted(outcome).platformID
            try expect(id.map { !$0.isEmpty } ?? false, "an acceptance came without the platform's id")
            ids.insert(id ?? "")
        }
        try expect(
            ids.count == 4,
            "four messages got \(ids.count) different ids; if the platform gives one to a whole request, set givesPlatformIDs to false"
        )
    }

    private static func takesRepeats(_ subject: Subject) async throws {
        var request = subject.request(0..<1)
        try expectAccepted(try await subject.send(request)[0])
        request.recipients[0].isReplay = true
        try expectAccepted(try await subject.send(request)[0])
    }

    private static func keepsID(_ subject: Subject) async throws {
        guard subject.takesRepeatsOnce == true else { return }
        guard subject.taken != nil else {
            throw ConformanceFailure(
                "the subject says that repeats are taken once, and does not count them: give taken"
            )
        }
        var request = subject.request(0..<1)
        let rise = try await subject.rise(subject.taken) {
            for isReplay in [false, false, true] {
                request.recipients[0].isReplay = isReplay
                try expectAccepted(try await subject.send(request)[0])
            }
        }
        try expect(rise == 1, "three attempts of one message became \(rise ?? 0) messages at the platform")
    }

    private static func keepsSendsApart(_ subject: Subject) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for number in 0..<8 {
                tasks.addTask {
                    let request = subject.request(number..<(number + 1), title: "Send \(number)")
                    for outcome in try await subject.send(request) { try expectAccepted(outcome) }
                }
            }
            try await tasks.waitForAll()
        }
    }

    private static func dryRun(_ subject: Subject) async throws {
        var request = subject.request(0..<2)
        request.notification.isDryRun = true
        let dry = request
        let reached = try await subject.rise(subject.taken) {
            for outcome in try await subject.send(dry) {
                try expect(try expectAccepted(outcome).isDryRun, "a dry run was accepted as a real message")
            }
        }
        try expect((reached ?? 0) == 0, "a dry run reached the platform as \(reached ?? 0) messages")
    }
}
