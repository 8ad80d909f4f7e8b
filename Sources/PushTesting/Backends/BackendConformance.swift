public import PushCore
internal import Synchronization

/// What every `PushBackend` promises, as checks that a plugin's tests run against their own simulator.
///
/// Each check gets a fresh subject. Nothing here knows a platform; what a platform cannot do is left nil in the subject, and
/// the checks about it pass without looking.
public enum BackendConformance {
    /// A backend with what the checks need to know about the world behind it.
    public struct Subject: Sendable {
        /// The backend, able to send.
        public var backend: any PushBackend
        /// The recipient of a number, from 0: different ones, all of which the platform takes messages for.
        public var recipient: @Sendable (Int) -> Recipient
        /// A recipient whose token the platform declares dead.
        public var deadRecipient: Recipient?
        /// A recipient of a form or service that the backend cannot address.
        public var foreignRecipient: Recipient?
        /// How many messages the platform has taken so far.
        public var taken: (@Sendable () async -> Int)?
        /// The largest payload in bytes; nil when the platform has no such limit.
        public var payloadLimit: Int?
        /// Whether an acceptance carries the platform's id.
        public var givesPlatformIDs: Bool

        /// Makes a subject.
        public init(
            backend: any PushBackend,
            recipient: @escaping @Sendable (Int) -> Recipient,
            deadRecipient: Recipient? = nil,
            foreignRecipient: Recipient? = nil,
            taken: (@Sendable () async -> Int)? = nil,
            payloadLimit: Int? = nil,
            givesPlatformIDs: Bool = true
        ) {
            self.backend = backend
            self.recipient = recipient
            self.deadRecipient = deadRecipient
            self.foreignRecipient = foreignRecipient
            self.taken = taken
            self.payloadLimit = payloadLimit
            self.givesPlatformIDs = givesPlatformIDs
        }

        func request(_ numbers: Range<Int>, title: String = "Conformance") -> PushRequest {
            PushRequest(
                PushNotification(title: .plain(title), body: "A message that any platform takes."),
                to: numbers.map { Addressee(recipient($0)) }
            )
        }
    }

    /// A check of this kit.
    public typealias Check = ConformanceCheck<Subject>

    /// All checks.
    public static let checks: [Check] = [
        Check("has a kind that can stand in a metric label", run: hasName),
        Check("can address its own recipients", run: addresses),
        Check("returns at once from a send of nothing", run: sendsNothing),
        Check("reports every recipient of every request exactly once", run: reportsOnce),
        Check("gives an id with each acceptance", run: givesIDs),
        Check("takes the same message a second time, for that is what a retry is", run: takesRepeats),
        Check("keeps concurrent sends apart", run: keepsSendsApart),
        Check("refuses a dead recipient alone", run: refusesDead),
        Check("refuses a recipient that it cannot address, and no other", run: refusesForeign),
        Check("sends nothing in a dry run", run: dryRun),
        Check("finds no fault with a small message", run: findsNoFault),
        Check("never lets out a message that is too large", run: refusesLarge),
        Check("reports everyone when its task is cancelled", run: survivesCancellation),
        Check("names no token in a refusal", run: keepsTokensQuiet),
        Check("reports everyone after its shutdown, twice over", run: survivesShutdown),
    ]

    // MARK: Who it is

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

    // MARK: Reports

    private static func sendsNothing(_ subject: Subject) async throws {
        let tally = Tally([])
        await subject.backend.send([]) { tally.take($0) }
        let empty = [PushRequest(PushNotification(title: "Nobody"), to: [])]
        await subject.backend.send(empty) { tally.take($0) }
        try tally.check()
    }

    private static func reportsOnce(_ subject: Subject) async throws {
        let requests = [subject.request(0..<3), subject.request(3..<4), subject.request(4..<7)]
        let tally = Tally(requests)
        await subject.backend.send(requests) { tally.take($0) }
        for outcome in try tally.check() { try expectAccepted(outcome) }
    }

    private static func givesIDs(_ subject: Subject) async throws {
        guard subject.givesPlatformIDs else { return }
        var ids: Set<String> = []
        for outcome in await send(subject, [subject.request(0..<4)]) {
            let id = try expectAccepted(outcome).platformID
            try expect(id.map { !$0.isEmpty } ?? false, "an acceptance came without the platform's id")
            ids.insert(id ?? "")
        }
        try expect(ids.count == 4, "four messages got \(ids.count) different ids")
    }

    private static func takesRepeats(_ subject: Subject) async throws {
        var request = subject.request(0..<1)
        _ = try await expectAccepted(send(subject, [request])[0])
        request.recipients[0].isReplay = true
        _ = try await expectAccepted(send(subject, [request])[0])
    }

    private static func keepsSendsApart(_ subject: Subject) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for number in 0..<8 {
                tasks.addTask {
                    let requests = [subject.request(number..<(number + 1), title: "Send \(number)")]
                    let tally = Tally(requests)
                    await subject.backend.send(requests) { tally.take($0) }
                    for outcome in try tally.check() { try expectAccepted(outcome) }
                }
            }
            try await tasks.waitForAll()
        }
    }

    // MARK: Refusals

    private static func refusesDead(_ subject: Subject) async throws {
        guard let dead = subject.deadRecipient else { return }
        var request = subject.request(0..<2)
        request.recipients.insert(Addressee(dead), at: 1)
        let outcomes = await send(subject, [request])
        _ = try expectAccepted(outcomes[0])
        _ = try expectAccepted(outcomes[2])
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
        let outcomes = await send(subject, [request])
        guard case .refused(let refusal) = outcomes[0] else {
            throw ConformanceFailure("a foreign recipient was not refused: \(outcomes[0])")
        }
        try expect(refusal.advice == .never, "the advice for a foreign recipient is \(refusal.advice)")
        try expect(refusal.invalidation == nil, "the token of another service was invalidated")
        for outcome in outcomes.dropFirst() { try expectAccepted(outcome) }
    }

    private static func keepsTokensQuiet(_ subject: Subject) async throws {
        let recipients = [subject.deadRecipient, subject.foreignRecipient].compactMap { $0 }
        guard !recipients.isEmpty else { return }
        let request = PushRequest(PushNotification(title: "Quiet"), to: recipients.map { Addressee($0) })
        for (recipient, outcome) in zip(recipients, await send(subject, [request])) {
            guard case .token(let token) = recipient, case .refused(let refusal) = outcome else { continue }
            let words = refusal.reason + (refusal.detail ?? "")
            try expect(!words.contains(token.value), "a refusal's words hold the device token")
            try expect(!refusal.reason.isEmpty && refusal.reason.utf8.count <= 64, "a reason is unfit for a label")
        }
    }

    // MARK: Before sending

    private static func dryRun(_ subject: Subject) async throws {
        var request = subject.request(0..<2)
        request.notification.isDryRun = true
        let before = await subject.taken?() ?? 0
        for outcome in await send(subject, [request]) {
            try expect(try expectAccepted(outcome).isDryRun, "a dry run was accepted as a real message")
        }
        let after = await subject.taken?() ?? before
        try expect(after == before, "a dry run reached the platform as \(after - before) messages")
    }

    private static func findsNoFault(_ subject: Subject) async throws {
        let notification = subject.request(0..<1).notification
        let check = subject.backend.check(notification, for: subject.recipient(0).form)
        try expect(check.faults.isEmpty, "a small message has faults: \(check.faults.map(\.detail))")
    }

    private static func refusesLarge(_ subject: Subject) async throws {
        guard let limit = subject.payloadLimit else { return }
        var request = subject.request(0..<2)
        request.notification.body = .plain(String(repeating: "x", count: limit + 1))
        let check = subject.backend.check(request.notification, for: subject.recipient(0).form)
        try expect(!check.faults.isEmpty, "a message over \(limit) bytes passes the check before acceptance")
        let before = await subject.taken?() ?? 0
        for outcome in await send(subject, [request]) {
            guard case .refused(let refusal) = outcome else {
                throw ConformanceFailure("a message over \(limit) bytes was not refused: \(outcome)")
            }
            try expect(refusal.kind == .message, "the refusal of a large message blames \(refusal.kind.rawValue)")
            try expect(refusal.advice == .never, "the advice for a large message is \(refusal.advice)")
        }
        let after = await subject.taken?() ?? before
        try expect(after == before, "a message over \(limit) bytes reached the platform")
    }

    // MARK: Endings

    private static func survivesCancellation(_ subject: Subject) async throws {
        let requests = [subject.request(0..<5)]
        let tally = Tally(requests)
        let sending = Task { await subject.backend.send(requests) { tally.take($0) } }
        sending.cancel()
        await sending.value
        try tally.check()  // Sent or not sent, but told.
    }

    private static func survivesShutdown(_ subject: Subject) async throws {
        await subject.backend.shutdown(grace: .seconds(1))
        await subject.backend.shutdown(grace: .seconds(1))
        let requests = [subject.request(0..<2)]
        let tally = Tally(requests)
        await subject.backend.send(requests) { tally.take($0) }
        for outcome in try tally.check() {
            if case .accepted = outcome { throw ConformanceFailure("a message was accepted after the shutdown") }
        }
    }

    // MARK: Tools

    private static func send(_ subject: Subject, _ requests: [PushRequest]) async -> [DeliveryOutcome] {
        await subject.backend.send(requests).flatMap { $0 }
    }

    @discardableResult
    private static func expectAccepted(_ outcome: DeliveryOutcome) throws(ConformanceFailure) -> Acceptance {
        guard case .accepted(let acceptance) = outcome else {
            throw ConformanceFailure("a message to a good recipient was not accepted: \(outcome)")
        }
        return acceptance
    }
}

/// Counts the reports of one send.
private final class Tally: Sendable {
    private struct State {
        var outcomes: [[DeliveryOutcome?]]
        var mistakes: [String] = []
    }

    private let state: Mutex<State>

    init(_ requests: [PushRequest]) {
        state = Mutex(State(outcomes: requests.map { Array(repeating: nil, count: $0.recipients.count) }))
    }

    func take(_ reports: [DeliveryReport]) {
        state.withLock { state in
            for report in reports {
                guard state.outcomes.indices.contains(report.request),
                    state.outcomes[report.request].indices.contains(report.recipient)
                else {
                    state.mistakes.append("a report for request \(report.request), recipient \(report.recipient)")
                    continue
                }
                if state.outcomes[report.request][report.recipient] != nil {
                    state.mistakes.append(
                        "a second report for request \(report.request), recipient \(report.recipient)"
                    )
                }
                state.outcomes[report.request][report.recipient] = report.outcome
            }
        }
    }

    /// The outcomes in order, once `send` has returned.
    @discardableResult
    func check() throws(ConformanceFailure) -> [DeliveryOutcome] {
        let state = state.withLock { $0 }
        if let mistake = state.mistakes.first { throw ConformanceFailure(mistake) }
        let flat = state.outcomes.flatMap { $0 }
        let told = flat.compactMap { $0 }
        try expect(
            told.count == flat.count,
            "send returned with \(flat.count - told.count) of \(flat.count) not reported"
        )
        return told
    }
}
