internal import ChaparCore

/// Checks the outcomes of a send while the platform fails, and the shutdown of a backend.
extension BackendConformance {
    static let troubles: [Check] = [
        Check(
            "ends a send by its deadline when the platform never answers, and tells what it knows",
            source: "docs/Plugins.md: a deadline for every wait; DeliveryOutcome.unknown(_:)",
            why: "A send without an end stops its backend's queue.",
            wantsHaste: true,
            needs: [.disturb],
            wants: [.taken],
            run: keepsDeadline
        ),
        Check(
            "calls unknown what was sent and whose answer was lost",
            source: "DeliveryOutcome.unknown(_:)",
            why: "Called refused it would be sent a second time; called accepted it may be lost.",
            needs: [.disturb],
            run: admitsLoss
        ),
        Check(
            "counts nothing as accepted when the first answer of all is lost",
            source: "DeliveryOutcome.unknown(_:), AuthStrategy.credential(for:)",
            why: "The answer may be that of a token service: then nothing was sent, and the message must come again.",
            needs: [.disturb],
            run: survivesFirstLoss
        ),
        Check(
            "counts an unreadable answer neither as accepted nor as a dead token",
            source: "DeliveryOutcome.unknown(_:), Refusal.Kind",
            why: "A page of a proxy must neither count as delivered nor delete a device.",
            needs: [.disturb],
            run: doubtsNonsense
        ),
        Check(
            "asks for another try of what surely never left",
            source: "PushBackend.send(_:report:): what was surely not sent is kept apart from what may have been",
            why: "What never left is safe to send again; without the advice it is lost.",
            wantsHaste: true,
            needs: [.disturb],
            run: retriesUnsent
        ),
        Check(
            "says of an unknown outcome what it says of the notification: whether a repeat does harm",
            source: "PushBackend.isRepeatHarmful(_:)",
            why:
                "After a restart the gateway asks the backend, after a send it reads the outcome: both must decide alike.",
            needs: [.disturb],
            run: agreesOnRepeats
        ),
        Check(
            "says in its health that the platform cannot be reached",
            source: "PushBackend.health",
            why: "An operator sees the backend's health first.",
            wantsHaste: true,
            needs: [],
            wants: [.disturb],
            run: seesOutage
        ),
        Check(
            "finds nothing wrong by its diagnosis when all is well, and something in an outage",
            source: "PushBackend.diagnose()",
            why: "doctor is run when something is wrong, and must not cry wolf.",
            wantsHaste: true,
            needs: [],
            wants: [.disturb],
            run: diagnoses
        ),
    ]

    static let endings: [Check] = [
        Check(
            "reports everyone when its task is cancelled",
            source: "PushBackend.send(_:report:)",
            why: "A reload cancels sends; a recipient that is not reported counts as unknown.",
            needs: [],
            wants: [.taken],
            run: survivesCancellation
        ),
        Check(
            "ends a cancelled send to a platform that never answers",
            source: "HTTPPool.send(_:report:)",
            why: "A shutdown would wait for it.",
            wantsHaste: true,
            needs: [.disturb],
            run: endsCancelledSend
        ),
        Check(
            "reports everyone after its shutdown, twice over",
            source: "PushBackend.shutdown(grace:)",
            why: "A reload shuts the old backend down while messages are still handed to it.",
            needs: [],
            run: survivesShutdown
        ),
        Check(
            "ends a send by its shutdown when the grace is over",
            source: "PushBackend.shutdown(grace:)",
            why: "The gateway's end would wait for a platform that is silent.",
            needs: [.disturb],
            run: endsSendByShutdown
        ),
        Check(
            "ends its watch when cancelled",
            source: "PushBackend.watch()",
            why: "A watch that goes on keeps the old backend alive after a reload.",
            needs: [],
            run: endsWatch
        ),
        Check(
            "forgets a device that it does not know without a word",
            source: "PushBackend.forget(device:)",
            why: "Erasure of a user asks every backend, also those that never saw the user.",
            needs: [],
            run: forgets
        ),
    ]

    // MARK: A platform that misbehaves

    private static func keepsDeadline(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try await disturb(.silence)
        let before = await subject.taken?() ?? 0
        let outcomes = try await subject.send(subject.request(0..<3))
        let after = await subject.taken?() ?? before
        try expectNoSuccess(outcomes, "without an answer")
        let unknown = outcomes.count { if case .unknown = $0 { true } else { false } }
        try expect(after == before || unknown > 0, "the platform has \(after - before) that were refused: \(outcomes)")
    }

    private static func admitsLoss(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        // The first message may fetch a credential, whose answer must not be the one that is lost.
        try expectAccepted(try await subject.send(subject.request(0..<1))[0])
        try await disturb(.lostAnswer)
        for outcome in try await subject.send(subject.request(0..<3)) {
            guard case .unknown = outcome else { throw ConformanceFailure("a lost answer led to \(outcome)") }
        }
    }

    private static func survivesFirstLoss(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try await disturb(.lostAnswer)
        let outcomes = try await subject.send(subject.request(0..<3))
        try expectNoSuccess(outcomes, "though its answer was lost")
        for case .refused(let refusal) in outcomes {
            switch refusal.advice {
            case .retry, .slowBackend: break
            default: throw ConformanceFailure("the advice after a lost answer is \(refusal.advice)")
            }
        }
    }

    private static func doubtsNonsense(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try await disturb(.unreadable)
        try expectNoSuccess(try await subject.send(subject.request(0..<3)), "after an unreadable answer")
    }

    private static func retriesUnsent(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try await disturb(.unreachable)
        var refusals: [Refusal] = []
        // A connection that was open may carry the first messages, whose outcome is unknown.
        let isKnown = try await eventually(within: subject.waitLimit) {
            let outcomes = try await subject.send(subject.request(0..<2))
            try expectNoSuccess(outcomes, "while nothing answers")
            refusals = outcomes.compactMap { if case .refused(let refusal) = $0 { refusal } else { nil } }
            return refusals.count == outcomes.count
        }
        try expect(isKnown, "what never left is called unknown")
        for refusal in refusals {
            switch refusal.advice {
            case .retry, .slowBackend: break
            default: throw ConformanceFailure("the advice for what never left is \(refusal.advice)")
            }
        }
    }

    private static func agreesOnRepeats(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try expectAccepted(try await subject.send(subject.request(0..<1))[0])
        try await disturb(.lostAnswer)
        let request = subject.request(0..<2)
        let isHarmful = subject.backend.isRepeatHarmful(request.notification)
        for case .unknown(let unknown) in try await subject.send(request) {
            try expect(
                unknown.isRepeatHarmful == isHarmful,
                "the outcome says \(unknown.isRepeatHarmful), the backend says \(isHarmful)"
            )
        }
    }

    private static func seesOutage(_ subject: Subject) async throws {
        // The deadline is short here, so a busy machine may miss it once.
        let isUp = try await eventually(within: subject.waitLimit) {
            if case .accepted = try await subject.send(subject.request(0..<1))[0] { true } else { false }
        }
        try expect(isUp, "no message was accepted while all was well")
        let well = subject.backend.health
        try expect(well.status == .ok, "after a good send it is \(well.status.rawValue): \(well.detail ?? "")")
        try expect(well.inFlight == 0, "after its only send \(well.inFlight) messages are on the wire")
        guard let disturb = subject.disturb else { return }
        try await disturb(.unreachable)
        // A connection that was open may carry the first messages.
        let isSeen = try await eventually(within: subject.waitLimit) {
            _ = try await subject.send(subject.request(0..<1))
            return subject.backend.health.status != .ok
        }
        try expect(isSeen, "nothing answers, and its health is \(subject.backend.health.status.rawValue)")
        try expect(!(subject.backend.health.detail ?? "").isEmpty, "its health says nothing to the operator")
    }

    private static func diagnoses(_ subject: Subject) async throws {
        let backend = subject.backend
        var well: [Diagnosis] = []
        // The deadline is short here, so a busy machine may miss it once.
        let isWell = try await eventually(within: subject.waitLimit) {
            well = try await within(subject.deadline + subject.waitLimit, "the diagnosis did not end") {
                await backend.diagnose()
            }
            return !well.contains { $0.verdict == .failure }
        }
        try expect(isWell, "all is well, and it finds: \(well.map(\.finding))")
        guard !well.isEmpty, let disturb = subject.disturb else { return }
        try await disturb(.unreachable)
        _ = try await subject.send(subject.request(0..<1))
        let ill = try await within(subject.deadline + subject.waitLimit, "the diagnosis did not end") {
            await backend.diagnose()
        }
        let found = ill.first { $0.verdict == .failure }
        try expect(found != nil, "nothing answers, and it finds: \(ill.map(\.finding))")
        try expect(!(found?.fix ?? "").isEmpty, "the finding says nothing about its fix: \(found?.finding ?? "")")
    }

    private static func expectNoSuccess(_ outcomes: [DeliveryOutcome], _ when: String) throws(ConformanceFailure) {
        for outcome in outcomes {
            switch outcome {
            case .accepted: throw ConformanceFailure("a message was accepted \(when)")
            case .unknown: break
            case .refused(let refusal):
                try expect(refusal.kind != .token, "a token is blamed \(when): \(refusal.reason)")
                try expect(refusal.invalidation == nil, "a token was invalidated \(when): \(refusal.reason)")
            }
        }
    }

    // MARK: Endings

    private static func survivesCancellation(_ subject: Subject) async throws {
        // Once cancelled before it begins, once at a random moment.
        for isCancelledFirst in [true, false] {
            let before = await subject.taken?()
            let sending = begin(subject, 0..<5, whenCancelled: isCancelledFirst)
            sending.task.cancel()
            try await within(subject.deadline + subject.waitLimit, "a cancelled send did not end") {
                await sending.task.value
            }
            let accepted = try sending.tally.check().count { if case .accepted = $0 { true } else { false } }
            if let before, let after = await subject.taken?() {
                let isTrue = accepted == 0 || after > before
                try expect(isTrue, "\(accepted) were accepted, and the platform has none of them")
            }
        }
    }

    private static func endsCancelledSend(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try await disturb(.silence)
        let sending = try await start(subject)
        sending.task.cancel()
        try await within(subject.deadline + subject.waitLimit, "a cancelled send was not over by its deadline") {
            await sending.task.value
        }
        try expectNoSuccess(try sending.tally.check(), "without an answer")
    }

    private static func survivesShutdown(_ subject: Subject) async throws {
        let backend = subject.backend
        for _ in 0..<2 {
            try await within(subject.waitLimit, "the shutdown did not end") {
                await backend.shutdown(grace: .seconds(1))
            }
        }
        for outcome in try await subject.send([subject.request(0..<2)]) {
            if case .accepted = outcome { throw ConformanceFailure("a message was accepted after the shutdown") }
        }
    }

    private static func endsSendByShutdown(_ subject: Subject) async throws {
        guard let disturb = subject.disturb else { return }
        try await disturb(.silence)
        let sending = try await start(subject)
        let backend = subject.backend
        try await within(subject.waitLimit, "the shutdown did not end a send to a silent platform") {
            async let first: Void = backend.shutdown(grace: .milliseconds(50))
            async let second: Void = backend.shutdown(grace: .milliseconds(50))
            _ = await (first, second)
            await sending.task.value
        }
        try expectNoSuccess(try sending.tally.check(), "without an answer")
    }

    /// Begins a send and returns its task; with `whenCancelled` the send begins only after the task was cancelled.
    private static func begin(
        _ subject: Subject,
        _ numbers: Range<Int>,
        whenCancelled: Bool = false
    ) -> (task: Task<Void, Never>, tally: SendTally) {
        let requests = [subject.request(numbers)]
        let tally = SendTally(requests)
        let backend = subject.backend
        let task = Task {
            while whenCancelled, !Task.isCancelled { await Task.yield() }
            await backend.send(requests) { tally.take($0) }
        }
        return (task, tally)
    }

    /// Begins a send, and returns once the platform has accepted part of it, where the subject counts that.
    private static func start(_ subject: Subject) async throws -> (task: Task<Void, Never>, tally: SendTally) {
        let before = await subject.taken?()
        let sending = begin(subject, 0..<3)
        if let before, let taken = subject.taken {
            _ = try await eventually(within: subject.waitLimit) { await taken() > before }
        }
        return sending
    }

    private static func endsWatch(_ subject: Subject) async throws {
        let backend = subject.backend
        try await within(subject.waitLimit, "the watch went on after it was cancelled") {
            let watching = Task { await backend.watch() }
            await Task.yield()
            watching.cancel()
            await watching.value
        }
    }

    private static func forgets(_ subject: Subject) async throws {
        let backend = subject.backend
        try await saying("forgetting an unknown device") { () async throws(PushError) in
            try await backend.forget(device: "nobody-\(Subject.marker)")
        }
    }
}
