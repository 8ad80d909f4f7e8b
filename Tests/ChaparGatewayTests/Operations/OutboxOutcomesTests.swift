import Foundation
import ChaparCore
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A caller waits at one gateway for what another one does.
@Suite("Outcomes of operations", .timeLimit(.minutes(1)))
struct OutboxOutcomesTests {
    private let now = Date(timeIntervalSince1970: 1_700_000_000)

    private func operation(_ kind: OutboxEntry.Kind = .subscription, age: Double = 1) -> OutboxEntry {
        OutboxEntry(backend: "crm", device: "d1", kind: kind, at: now - age)
    }

    @Test("A caller learns what another gateway did, with its detail or its error")
    func elsewhere() async throws {
        let (one, two) = Pair.make()
        let (here, there) = (OutboxOutcomes(one), OutboxOutcomes(two))
        let (done, failed) = (operation(), operation(.event))
        let ticket = here.listen(for: [done.id, failed.id])
        there.report(done, .done(["subscription": .string("s1")]), at: now)
        let error = PushError(.invalidRequest, "No such program", reason: "BadProgram")
        there.report(failed, .failed(error), at: now)
        let found = await here.wait(ticket, for: .seconds(30), SystemTime())
        guard case .done(let detail)? = found[done.id], case .failed(let heard)? = found[failed.id] else {
            Issue.record("\(found)")
            return
        }
        #expect(detail["subscription"] == .string("s1"))
        #expect(heard.code == .invalidRequest && heard.message == "No such program" && heard.reason == "BadProgram")
    }

    @Test("Others are told only of what one of their callers may wait for")
    func quiet() async {
        let (one, two) = Pair.make()
        let (here, there) = (OutboxOutcomes(one), OutboxOutcomes(two))
        there.report(operation(.register), .done([:]), at: now)
        there.report(operation(.remove), .done([:]), at: now)
        there.report(operation(age: Double(OutboxOutcomes.longestWait) + 1), .done([:]), at: now)
        let own = operation()
        let ticket = there.listen(for: [own.id])
        there.report(own, .done([:]), at: now)
        #expect(await there.wait(ticket, for: .seconds(30), SystemTime()).count == 1)
        #expect(two.notes.isEmpty)
        there.report(operation(), .done([:]), at: now)
        #expect(two.notes.map(\.topic) == ["operation"])
        _ = here
    }
}
