import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Erasing one of two users whose names differ in their form of Unicode only", .timeLimit(.minutes(1)))
struct ErasureFormsTests {
    private static let erased = "ren\u{e9}"
    private static let other = "rene\u{301}"

    @Test("takes nothing out of events about the other")
    func events() {
        let redaction = EventRedaction(UserTraces(user: Self.erased), [:])
        func isRedacted(_ event: String) -> Bool { redaction.redacted(Array(event.utf8), number: 1) != nil }
        for name in [Self.erased, Self.other] {
            let isTheirs = ExactText(name) == ExactText(Self.erased)
            #expect(isRedacted(#"{"type":"x","user":"\#(name)"}"#) == isTheirs)
            #expect(isRedacted(#"{"type":"x","recipient":"user:\#(name)"}"#) == isTheirs)
            let notice = #"{"type":"backend.notice","backend":"crm","detail":{"user":"\#(name)"}}"#
            #expect(isRedacted(notice) == isTheirs)
        }
    }

    @Test("leaves the other's deliveries")
    func deliveries() async throws {
        let rig = try await DispatcherRig()
        defer { try? FileManager.default.removeItem(at: rig.folder) }
        let users = [Self.erased, Self.other].map { Recipient.user($0) }
        let plan = DeliveryPlan(["crm"])
        let own = try await rig.accept([users[0]], plan: plan)
        let others = try await rig.accept([users[1]], plan: plan)
        let shared = try await rig.accept(users, plan: plan)
        try await rig.store.eraseDeliveries(of: UserTraces(user: Self.erased)) { _, _ in
            Array(#"{"type":"delivery"}"#.utf8)
        } state: { _ in
            ("erasure", [])
        } progress: { _ in
        }
        #expect(try await rig.store.notification(own) == nil)
        #expect(try await rig.store.notification(others)?.counts == [.queued: 1])
        let left = try await rig.store.deliveries(of: shared, after: nil, limit: 9)
        #expect(left.map(\.recipient).last == users[1])
        #expect(left.map(\.state).last == .queued)
        await rig.store.close()
    }
}
