import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A store of the program's own around another one, which passes on what that one can do.
@Suite("A store that wraps another one", .timeLimit(.minutes(1)))
struct WrappedStoreTests {
    private static let phone = Recipient.token("4f1c", service: .iOSAPNs)

    private static func backend(_ pacing: Pacing? = nil) -> BackendRegistry.ConfiguredBackend {
        BackendRegistry.ConfiguredBackend(
            name: "a",
            backend: ScriptedBackend { _, _ in .accepted(Acceptance()) },
            pacing: pacing,
            identity: "x"
        )
    }

    @Test("keeps the exchange with other gateways", arguments: EmbeddedGateway.Kind.allCases)
    func nodes(kind: EmbeddedGateway.Kind) async throws {
        let (one, two) = Pair.make()
        one.otherBackends.withLock { $0 = .some(["a"]) }
        let wrap = { @Sendable (base: any WrappingStore.Whole) -> any WrappingStore.Whole in
            WrappingStore(WrappingStore(base) { $0.nodes = one })
        }
        try await EmbeddedGateway.run(kind, [Self.backend()], wrap: wrap) { gateway in
            try await eventually("the backends are declared") { one.declared.withLock { $0 } == ["a"] }
            let until = gateway.state.time.steady + 900
            try await eventually("the note is heard") {
                two.tell(NodeNews.paused(backend: "a", identity: "x", until: until, reason: "Busy").note)
                let answer = try await APIHarness.send(gateway.responder, .get, "/v1/backends").json
                #expect(answer["nodes"]?.arrayValue?.count == 1)
                let worker = answer["backends"]?.arrayValue?.first?["worker"]
                return worker?["pause_reason"]?.stringValue == "Busy"
            }
        }
    }

    @Test("keeps the quotas that gateways share", arguments: EmbeddedGateway.Kind.allCases)
    func quotas(kind: EmbeddedGateway.Kind) async throws {
        let ledger = MemoryLedger(ManualTime())
        let wrap = { @Sendable (base: any WrappingStore.Whole) -> any WrappingStore.Whole in
            WrappingStore(WrappingStore(base) { $0.quotas = ledger })
        }
        try await EmbeddedGateway.run(kind, [Self.backend(Pacing(perSecond: 1_000))], wrap: wrap) { gateway in
            let id = try await gateway.accept(PushNotification(body: "b"), to: [Self.phone]).id
            try await eventually("the message is delivered") {
                try await gateway.states(of: id).map(\.state) == [.acceptedByPlatform]
            }
            #expect(ledger.names == ["a x"])
        }
    }

    @Test("keeps the erasure of a user", arguments: EmbeddedGateway.Kind.allCases)
    func erasure(kind: EmbeddedGateway.Kind) async throws {
        try await EmbeddedGateway.run(kind, [Self.backend()], wrap: { WrappingStore($0) }) { gateway in
            let device = #"{"user":"ada","tokens":{"ios-apns":"4f1c"}}"#
            let put = try await APIHarness.send(gateway.responder, .put, "/v1/devices/phone", device)
            #expect(put.status == 201, "\(put.text)")
            let id = try await gateway.accept(PushNotification(body: "b"), to: [.user("ada")]).id
            try await eventually("the message is delivered") {
                try await gateway.states(of: id).map(\.state) == [.acceptedByPlatform]
            }
            let erased = try await APIHarness.send(gateway.responder, .delete, "/v1/users/ada")
            #expect(erased.status == 200 || erased.status == 202, "\(erased.text)")
            #expect(erased.json["devices"]?.integerValue == 1)
            try await eventually("the erasure is finished") { try await gateway.states(of: id).isEmpty }
            #expect(try await APIHarness.send(gateway.responder, .get, "/v1/devices/phone").status == 404)
        }
        // A store that cannot do it says so.
        let unable = { @Sendable (base: any WrappingStore.Whole) -> any WrappingStore.Whole in
            WrappingStore(base) { $0 = StoreAbilities() }
        }
        try await EmbeddedGateway.run(kind, [Self.backend()], wrap: unable) { gateway in
            let refused = try await APIHarness.send(gateway.responder, .delete, "/v1/users/ada")
            #expect(refused.status == 404)
        }
    }

    @Test("keeps the note that an embedded store takes of a run", arguments: [false, true])
    func serving(isBare: Bool) async throws {
        let notes = Notes()
        let wrap = { @Sendable (base: any WrappingStore.Whole) -> any WrappingStore.Whole in
            WrappingStore(WrappingStore(base) { $0.serving = notes }) { if isBare { $0 = StoreAbilities() } }
        }
        try await EmbeddedGateway.run(.file, [Self.backend()], wrap: wrap) { gateway in
            let id = try await gateway.accept(PushNotification(body: "b"), to: [Self.phone]).id
            try await eventually("the message is delivered") {
                try await gateway.states(of: id).map(\.state) == [.acceptedByPlatform]
            }
        }
        #expect(notes.count.all.count == (isBare ? 0 : 1))
    }

    @Test("with keys of encryption and no search is refused, instead of leaving credentials unencrypted")
    func sealed() async throws {
        try await EmbeddedGateway.run(.memory, [Self.backend()]) { gateway in
            let whole = try #require(gateway.state.store as? any WrappingStore.Whole)
            let bare = WrappingStore(whole) { $0.traces = nil }
            let key = try #require(SealingKey(Secret(Data(repeating: 5, count: 32).base64EncodedString())))
            let keys = SealingKeys(current: key, old: [])
            _ = try await SealedState.prepared(bare, keys: .none, logger: quiet)
            _ = try await SealedState.prepared(WrappingStore(whole), keys: keys, logger: quiet)
            await #expect(throws: StoreError.self) {
                _ = try await SealedState.prepared(bare, keys: keys, logger: quiet)
            }
        }
    }
}

/// Counts the runs that took requests.
private final class Notes: ServingNotes {
    let count = Recorder<Bool>()

    func noteServing() { count.add(true) }
}
