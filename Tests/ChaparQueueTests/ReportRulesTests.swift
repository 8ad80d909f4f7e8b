import ChaparComposition
import ChaparCore
import ChaparQueue
import Testing

@Suite("The rules of reports about deliveries that have not ended")
struct ReportRulesTests {
    private static let taken = #"{"at":"1","backend":"a","outcome":"accepted","platform_id":"P"}"#
    private static let tried = #"{"at":"2","backend":"c","outcome":"refused","reason":"busy"}"#
    private static let note = #"{"at":"3","outcome":"receipt","reason":"x"}"#
    private static let failure = #"{"at":"3","outcome":"receipt","reason":"x","state":"failed"}"#

    private static func plan(_ report: Escalation.Report = .delivered) -> DeliveryPlan {
        var plan = DeliveryPlan(["a", "b", "c"])
        plan.escalation = Escalation(step: 2, after: .seconds(1), unless: report)
        return plan
    }

    private static func entry(
        _ state: DeliveryState?,
        _ address: ReceiptAddress = ReceiptAddress(delivery: 1),
        _ log: String = note
    ) -> ReceiptEntry {
        ReceiptEntry(address, state: state, logEntry: Array(log.utf8)) { _ in [] }
    }

    @Test(
        "The report that is awaited ends the delivery, any other is noted",
        arguments: [
            (.delivered, .delivered, .end(.delivered)), (.delivered, .opened, .end(.opened)),
            (.opened, .opened, .end(.opened)), (.opened, .delivered, .note(isDue: false)),
            (.delivered, .failed, .note(isDue: true)), (.opened, nil, .note(isDue: false)),
        ] as [(Escalation.Report, DeliveryState?, ReportDecision)]
    )
    func decision(unless: Escalation.Report, state: DeliveryState?, wanted: ReportDecision) {
        let found = ReportRules.decide(Self.entry(state), Self.plan(unless), step: 2, Array(Self.taken.utf8))
        #expect(found == wanted)
    }

    @Test("A failure makes only a delivery due for which no backend has taken over yet")
    func failureLater() {
        let log = Array("\(Self.taken),\(Self.tried)".utf8)
        #expect(ReportRules.decide(Self.entry(.failed), Self.plan(), step: 2, log) == .note(isDue: false))
        #expect(ReportRules.decide(Self.entry(.delivered), Self.plan(), step: 2, log) == .end(.delivered))
    }

    @Test("A report that is in the log is repeated, and one of a long log is not added")
    func repeated() {
        let log = Array("\(Self.taken),\(Self.note)".utf8)
        #expect(ReportRules.decide(Self.entry(nil), Self.plan(), step: 2, log) == .repeated)
        let long = Array((Self.taken + String(repeating: " ", count: 40_000)).utf8)
        #expect(ReportRules.decide(Self.entry(nil), Self.plan(), step: 2, long) == .repeated)
        #expect(ReportRules.decide(Self.entry(.delivered), Self.plan(), step: 2, long) == .end(.delivered))
    }

    @Test("A report about anything else is ignored")
    func ignored() {
        let taken = Array(Self.taken.utf8)
        let entry = Self.entry(.delivered)
        #expect(ReportRules.decide(entry, DeliveryPlan(["a", "b", "c"]), step: 2, taken) == .ignore, "no such plan")
        #expect(ReportRules.decide(entry, Self.plan(), step: 1, taken) == .ignore, "another backend first")
        #expect(ReportRules.decide(entry, Self.plan(), step: 2, []) == .ignore, "nothing was sent")
        #expect(ReportRules.decide(entry, Self.plan(), step: 2, Array(Self.tried.utf8)) == .ignore, "refused")
        let failed = Array("\(Self.taken),\(Self.failure)".utf8)
        #expect(ReportRules.decide(entry, Self.plan(), step: 2, failed) == .ignore, "reported as failed")
        for (backend, id, isMeant) in [("a", "P", true), ("c", "P", false), ("a", "Q", false), ("x", "P", false)] {
            let address = ReceiptAddress(backend: backend, platformID: id, token: nil)
            let found = ReportRules.decide(Self.entry(.delivered, address), Self.plan(), step: 2, taken)
            #expect((found != .ignore) == isMeant, "\(backend) \(id)")
        }
    }

    @Test(
        "A report about a delivery that is claimed, or may have arrived without an answer, has to come again",
        arguments: [
            // The step, what is in the log, whether it is claimed and may have been sent, the backend: the decision.
            (2, taken, true, true, "", .early), (2, taken, true, true, "a", .early),
            (2, taken, true, true, "x", .ignore),
            (2, taken, false, true, "", .end(.delivered)), (0, "", true, false, "", .early),
            (0, "", true, false, "x", .ignore), (0, "", false, true, "b", .early), (0, "", false, false, "", .ignore),
            (2, "\(taken),\(failure)", false, true, "", .early), (2, taken, false, true, "c", .ignore),
        ] as [(Int, String, Bool, Bool, String, ReportDecision)]
    )
    func early(step: Int, log: String, claimed: Bool, sent: Bool, backend: String, wanted: ReportDecision) {
        let found = ReportRules.decide(
            Self.entry(.delivered, ReceiptAddress(delivery: 1, backend: backend)),
            Self.plan(),
            step: step,
            Array(log.utf8),
            isClaimed: claimed,
            mayHaveBeenSent: sent
        )
        #expect(found == wanted)
    }

    @Test("A report with the platform's id about a claimed delivery has to come again where a platform took it")
    func earlyPlatform() {
        for (log, id, wanted) in [
            (Self.taken, "P", ReportDecision.early), (Self.taken, "Q", .ignore), ("", "P", .ignore),
        ] {
            let address = ReceiptAddress(backend: "a", platformID: id, token: nil)
            let entry = Self.entry(.delivered, address)
            let found = ReportRules.decide(entry, Self.plan(), step: 2, Array(log.utf8), isClaimed: true)
            #expect(found == wanted, "\(log) \(id)")
        }
    }

    @Test("A withdrawn delivery ends as accepted only when a platform has it")
    func withdrawn() {
        let (taken, failed) = (Array(Self.taken.utf8), Array("\(Self.taken),\(Self.failure)".utf8))
        #expect(RecordRules.withdrawn(.unknown, taken) == .acceptedByPlatform)
        #expect(RecordRules.withdrawn(.unknown, [], taken) == .acceptedByPlatform)
        #expect(RecordRules.withdrawn(.unknown, failed) == .unknown)
        #expect(RecordRules.withdrawn(.unknown, Array(Self.tried.utf8)) == .unknown)
        #expect(RecordRules.withdrawn(.cancelled, taken) == .cancelled)
    }

    @Test("A delivery goes back to an earlier step of its plan only")
    func reached() {
        for standing in RecordFacts.Standing.allCases {
            let facts = RecordFacts(standing, mayHaveBeenSent: true, isCancelled: true, steps: 3)
            let found = RecordRules.decide(.reached(step: 1), mayHaveBeenSent: false, facts)
            switch standing {
            case .claimed, .settled: #expect(found == .reached(step: 1))
            case .stale: #expect(found == .ignore(.leaseIsOver))
            case .ended: #expect(found == .ignore(.hasEnded))
            }
        }
        let facts = RecordFacts(.claimed, mayHaveBeenSent: true, isCancelled: false, steps: 3)
        #expect(RecordRules.decide(.reached(step: 3), mayHaveBeenSent: false, facts) == .refuse(.step(3)))
        #expect(RecordRules.refusal(of: .reached(step: -1), steps: 3) == .step(-1))
    }

    @Test("The backend that took a message is found in the log")
    func acceptingStep() {
        let skipped = #"{"at":"0","backend":"a","outcome":"skipped","reason":"no_token"}"#
        let second = Self.taken.replacing(#""a""#, with: #""b""#)
        #expect(Self.plan().acceptingStep(Array(Self.taken.utf8)) == 0)
        #expect(Self.plan().acceptingStep(Array("\(skipped),\(second),\(Self.tried)".utf8)) == 1)
        #expect(Self.plan().acceptingStep(Array(skipped.utf8), Array(second.utf8)) == 1)
        #expect(Self.plan().acceptingStep(Array(Self.tried.utf8)) == nil)
        #expect(DeliveryPlan(["a", "b"]).acceptingStep(Array(Self.taken.utf8)) == nil)
    }
}
