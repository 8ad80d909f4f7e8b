import Foundation
import GRDB
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("An erasure that its call does not finish", .timeLimit(.minutes(2)))
struct UnfinishedErasureTests {
    @Test("The gateway erases deliveries that were being sent, after a restart too", arguments: [false, true])
    func finished(restarted: Bool) async throws {
        try await ErasureRig.run { rig in
            let id = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada now")
            let claims = try await rig.store.claim(backend: "ios", limit: 10, wait: .zero)
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 202)
            let second = GatewayState(
                snapshot: rig.state.snapshot,
                store: rig.store,
                devices: rig.store,
                time: rig.time
            )
            let (state, erasures) = restarted ? (second, UserErasures()) : (rig.state, rig.api.own.erasures)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await erasures.run(state, quiet) }
                #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 200, "still being sent")
                try await rig.store.record(
                    claims.map { claim in
                        let event = EventJSON.delivery(claim, state: .acceptedByPlatform, at: rig.time.now)
                        return Resolution(of: claim, .end(.acceptedByPlatform), event: event)
                    }
                )
                try await rig.waitUntilFinished()
                #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404)
                erasures.finish()
                try await group.waitForAll()
            }
            let events = try await rig.events()
            #expect(!events.contains { event in ErasureRig.traces.contains { event.contains($0) } })
        }
    }

    @Test("An erasure that a failing store has interrupted is finished by the gateway itself")
    func interrupted() async throws {
        try await ErasureRig.run { rig in
            let id = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada")
            try await rig.deliver(10)
            let database = try DatabaseQueue(path: rig.path)
            try await database.write { db in
                try db.execute(
                    sql: """
                        CREATE TRIGGER refuse BEFORE UPDATE ON events
                        BEGIN SELECT RAISE(ABORT, 'refused by the test'); END
                        """
                )
            }
            // The store notes a second after a commit how far it is.
            var looks = 0
            try await eventually("nothing waits on the clock", every: .milliseconds(50)) {
                looks += 1
                if looks > 1, rig.time.sleeping == 0 { return true }
                rig.time.advance(by: .seconds(2))
                return false
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                // It looks for what an earlier process has left at its start, which is not how it is to find this one.
                group.addTask { await rig.api.own.erasures.run(rig.state, quiet) }
                try await eventually("it waits for its next round") { rig.time.sleeping > 0 }
                #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 503)
                #expect(try await rig.call(.get, "/v1/devices/phone-a").status == 404, "the way to the rest is gone")
                try await database.write { db in try db.execute(sql: "DROP TRIGGER refuse") }
                try database.close()
                try await rig.waitUntilFinished()
                rig.api.own.erasures.finish()
                try await group.waitForAll()
            }
            #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404)
            let events = try await rig.events()
            #expect(!events.contains { event in ErasureRig.traces.contains { event.contains($0) } })
        }
    }

    @Test("A search that takes longer than a caller waits goes on after the answer, which says so")
    func manyEvents() async throws {
        try await ErasureRig.run { rig in
            _ = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada")
            try await rig.deliver(10)
            let others = Array(#"{"type":"device.seen","user":"eve","device":"phone-e"}"#.utf8)
            for _ in 0..<100 { try await rig.store.publish(Array(repeating: others, count: 500)) }
            try await rig.store.publish([Array(#"{"type":"device.seen","user":"ada-lovelace"}"#.utf8)])
            let isAnswered = Atomic(false)
            async let answer = {
                defer { isAnswered.store(true, ordering: .releasing) }
                return try await rig.call(.delete, "/v1/users/ada-lovelace")
            }()
            try await eventually("the call is answered", within: .seconds(60), every: .milliseconds(2)) {
                if isAnswered.load(ordering: .acquiring) { return true }
                rig.time.advance(by: .seconds(10))
                return false
            }
            let reply = try await answer
            #expect(reply.status == 202, "\(reply.text)")
            #expect(reply.json["complete"]?.boolValue == false)
            #expect(reply.json["stays"]?.arrayValue?.first?.stringValue?.contains("the gateway goes on") == true)
            #expect(try await rig.call(.get, "/v1/devices/phone-a").status == 404, "nothing is sent there any more")
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await rig.api.own.erasures.run(rig.state, quiet) }
                try await rig.waitUntilFinished()
                rig.api.own.erasures.finish()
                try await group.waitForAll()
            }
            let events = try await rig.store.events(after: 0, limit: 60_000, wait: .zero)
            #expect(events.count > 50_000)
            let texts = events.map { String(decoding: $0.json, as: UTF8.self) }
            #expect(!texts.contains { text in ErasureRig.traces.contains { text.contains($0) } })
        }
    }

    @Test("A removal is stored with the record of it: events are found even after a crash")
    func removalsOnRecord() async throws {
        try await ErasureRig.run { rig in
            let ids = Mutex<Set<Int64>>([])
            for number in 0..<3 {
                let id = try await rig.send(#"{"devices":["phone-a"]}"#, "For Ada \(number)")
                ids.withLock { _ = $0.insert(NotificationID(id)?.rawValue ?? 0) }
            }
            // One has ended, and is in the archive.
            try await rig.deliver(1)
            var traces = UserTraces(user: "ada-lovelace")
            traces.recipients.insert(Recipient.device("phone-a").storedForm)
            let known = traces
            for _ in 0..<2 {
                // Two parts, each the last thing that a process does.
                try? await rig.store.eraseDeliveries(of: known) { _, _ in
                    Array("{}".utf8)
                } state: { removed in
                    ids.withLock { $0.subtract(removed) }
                    return (name: "removed \(removed.min() ?? 0)", value: Array("\(removed.sorted())".utf8))
                } progress: { _ async throws(StoreError) in
                    throw .closed
                }
            }
            #expect(ids.withLock { $0.isEmpty })
            #expect(try await rig.store.stateNames(beginningWith: "removed ").count == 2)
        }
    }

    @Test("Calls that overlap keep a record each, and what a stop leaves of both is erased by the next start")
    func overlapping() async throws {
        try await ErasureRig.run { rig in
            let id = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada")
            try await rig.deliver(10)
            let hash = try await rig.hash()
            let store = SteeredStore(rig.store)
            store.isHeld.withLock { $0 = true }
            let reports = try await withThrowingTaskGroup(of: UserErasure.Report?.self) { group in
                group.addTask { try await rig.api.own.erasures.erase("ada-lovelace", rig.state, store).report }
                try await eventually("the first search is held") { store.holding.withLock { $0 > 0 } }
                group.addTask { try await rig.api.own.erasures.erase("ada-lovelace", rig.state, store).report }
                try await eventually("both are on record") {
                    try await rig.erasure(in: rig.store).records(of: hash).count >= 2
                }
                rig.api.own.erasures.finish()
                return try await group.reduce(into: [UserErasure.Report?]()) { $0.append($1) }
            }
            #expect(reports.count == 2 && reports.allSatisfy { $0?.isSearching == true })
            #expect(reports.compactMap { $0?.devices }.reduce(0, +) == 2)
            #expect(try await rig.erasure(in: rig.store).records(of: hash).count == 2)
            #expect(try await rig.erasure(in: rig.store).resume(hash: hash) == true)
            #expect(try await UserErasure.unfinished(in: rig.store).isEmpty)
            #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404)
            let events = try await rig.events()
            #expect(!events.contains { event in ErasureRig.traces.contains { event.contains($0) } })
        }
    }

    @Test("A call that is cut while devices are removed leaves to a device's next owner what came to it since")
    func cutAtRemoval() async throws {
        try await ErasureRig.run { rig in
            let hash = try await rig.hash()
            let end = try await rig.store.tracesEnd()
            // As a process leaves it that ends after it has removed a device.
            #expect(try await rig.store.delete("phone-a"))
            let record = #"""
                {"user":"ada-lovelace","devices":["phone-a"],"recipients":["device:phone-a"],
                "last_delivery":\#(end.delivery),"last_event":\#(end.event),"phase":"removing"}
                """#
            try await rig.store.saveState("erasures/\(hash)/1", Array(record.utf8))
            let body = #"{"user":"eve","tokens":{"ios-apns":"\#(String(repeating: "aaaa", count: 16))"}}"#
            #expect(try await rig.call(.put, "/v1/devices/phone-a", body).status == 201)
            let new = try await rig.send(#"{"devices":["phone-a"]}"#, "For Eve")
            try await rig.store.publish([Array(#"{"type":"device.seen","device":"phone-a"}"#.utf8)])
            try await rig.deliver(10)
            #expect(try await rig.erasure(in: rig.store).resume(hash: hash) == true)
            #expect(try await rig.call(.get, "/v1/devices/tablet-a").status == 404)
            #expect(try await rig.call(.get, "/v1/devices/phone-a").status == 200)
            #expect(try await rig.call(.get, "/v1/notifications/\(new)").status == 200)
            #expect(try await rig.events().contains { $0.contains("device.seen") && $0.contains("phone-a") })
        }
    }

    @Test("Room on disk that a failing store did not clear is cleared by the gateway itself")
    func cutAtClearing() async throws {
        try await ErasureRig.run { rig in
            _ = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada")
            try await rig.deliver(10)
            let hash = try await rig.hash()
            let store = SteeredStore(rig.store)
            let erasure = rig.erasure(in: store)
            let done = try await erasure.begin("ada-lovelace", hash: hash)
            store.isFailing.withLock { $0 = true }
            await #expect(throws: StoreError.self) { _ = try await erasure.run(erasure.calls(hash), done) }
            #expect(try await UserErasure.unfinished(in: rig.store) == [hash])
            let name = try #require(try await erasure.records(of: hash).first)
            let record = try #require(try await rig.store.loadState(name))
            let text = String(decoding: record, as: UTF8.self)
            #expect(!ErasureRig.traces.contains { text.contains($0) }, "the record goes after the clearing")
            store.isFailing.withLock { $0 = false }
            #expect(try await erasure.resume(hash: hash) == true)
            #expect(store.cleared.withLock { $0 } == 1)
            #expect(try await UserErasure.unfinished(in: rig.store).isEmpty)
        }
    }

    @Test("The end of the gateway ends a search, which the next start makes good")
    func endOfGateway() async throws {
        try await ErasureRig.run { rig in
            let id = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada")
            try await rig.deliver(10)
            let hash = try await rig.hash()
            _ = try await rig.erasure(in: rig.store).begin("ada-lovelace", hash: hash)
            let store = SteeredStore(rig.store)
            store.isHeld.withLock { $0 = true }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await rig.api.own.erasures.run(rig.state, store, quiet) }
                try await eventually("the search is held") { store.holding.withLock { $0 > 0 } }
                rig.api.own.erasures.finish()
                try await group.waitForAll()
            }
            #expect(try await UserErasure.unfinished(in: rig.store) == [hash])
            #expect(try await rig.erasure(in: rig.store).resume(hash: hash) == true)
            #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404)
        }
    }

    @Test("An erasure that an earlier version has begun is finished", arguments: [false, true])
    func earlierVersion(isComplete: Bool) async throws {
        try await ErasureRig.run { rig in
            let id = try await rig.send(#"{"devices":["phone-a"]}"#, "For Ada")
            try await rig.deliver(1)
            let hash = try await rig.hash()
            #expect(try await rig.store.delete("phone-a"))
            let end = try await rig.store.tracesEnd()
            let complete = isComplete ? #","complete":true"# : ""
            let record = #"""
                {"user":"ada-lovelace","devices":["phone-a"],"recipients":["device:phone-a"],
                "last_delivery":\#(end.delivery),"last_event":\#(end.event)\#(complete)}
                """#
            try await rig.store.saveState("erasing/\(hash)", Array(record.utf8))
            #expect(try await UserErasure.unfinished(in: rig.store) == [hash])
            let store = SteeredStore(rig.store)
            #expect(try await rig.erasure(in: store).resume(hash: hash) == true)
            #expect(store.cleared.withLock { $0 } == (isComplete ? 2 : 1))
            #expect(try await UserErasure.unfinished(in: rig.store).isEmpty)
            if !isComplete { #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404) }
            #expect(try await !rig.events().contains { $0.contains("phone-a") })
        }
    }

    @Test("While sixteen calls for a user are unfinished a further one is told so, and removes nothing")
    func bound() async throws {
        try await ErasureRig.run { rig in
            let hash = try await rig.hash()
            for number in 0..<16 {
                let record = #"{"user":"ada-lovelace","last_delivery":0,"last_event":0,"phase":"searching"}"#
                try await rig.store.saveState("erasures/\(hash)/\(number)", Array(record.utf8))
            }
            let refused = try await rig.call(.delete, "/v1/users/ada-lovelace")
            #expect(refused.status == 429 && refused.json["code"] == "erasures_unfinished", "\(refused.text)")
            #expect(refused.headers[.retryAfter] == "30")
            #expect(try await rig.call(.get, "/v1/devices/phone-a").status == 200)
            #expect(try await rig.call(.delete, "/v1/users/eve").status == 200, "another user")
            #expect(try await rig.erasure(in: rig.store).resume(hash: hash) == true)
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").json["devices"]?.integerValue == 2)
        }
    }
}

/// A store of which a test holds searches through events until they are cancelled, and makes the cleaning fail.
private final class SteeredStore: TraceStore {
    let isHeld = Mutex(false)
    let isFailing = Mutex(false)
    /// How many searches were held.
    let holding = Mutex(0)
    /// How often room on disk was cleared.
    let cleared = Mutex(0)
    private let store: SQLiteStore
    private let never = AsyncSignal()

    init(_ store: SQLiteStore) { self.store = store }

    func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { try await store.loadState(name) }

    func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) {
        try await store.saveState(name, value)
    }

    func tracesEnd() async throws(StoreError) -> UserTraces.End { try await store.tracesEnd() }

    func eraseDeliveries(
        of traces: UserTraces,
        event: @escaping @Sendable (ClaimedDelivery, DeliveryState) -> [UInt8],
        state: @escaping @Sendable (_ removed: Set<Int64>) -> (name: String, value: [UInt8]),
        progress: (ErasedDeliveries) async throws(StoreError) -> Void
    ) async throws(StoreError) {
        try await store.eraseDeliveries(of: traces, event: event, state: state, progress: progress)
    }

    func redactEvents(_ redact: @escaping @Sendable (Int64, [UInt8]) -> [UInt8]?) async throws(StoreError) -> Int {
        if isHeld.withLock({ $0 }) {
            holding.withLock { $0 += 1 }
            await never.wait(after: .start)
            throw .closed
        }
        return try await store.redactEvents(redact)
    }

    func stateNames(beginningWith prefix: String) async throws(StoreError) -> [String] {
        try await store.stateNames(beginningWith: prefix)
    }

    func clearRemoved() async throws(StoreError) {
        if isFailing.withLock({ $0 }) { throw .failed("the test says so") }
        try await store.clearRemoved()
        cleared.withLock { $0 += 1 }
    }
}
