import Foundation
import GRDB
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Erasing a user", .timeLimit(.minutes(2)))
struct UserErasureTests {
    /// A store with an API in front of it and no workers: deliveries stay waiting.
    private struct Rig {
        let time = ManualTime(Date(timeIntervalSince1970: 1_800_000_000))
        let path: String
        let store: SQLiteStore
        let state: GatewayState
        let api: GatewayAPI

        init(_ folder: URL) throws {
            path = folder.appending(path: "test.db").path
            store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time, logger: quiet)
            var configuration = GatewayConfiguration.keyless
            configuration.audit = GatewayConfiguration.Audit(path: folder.appending(path: "audit.jsonl").path)
            let snapshot = GatewaySnapshot(
                configuration: configuration,
                backends: [StubBackend.ios, .crm].map { .init(name: $0.name, backend: $0) }
            )
            state = GatewayState(snapshot: snapshot, store: store, devices: store, time: time)
            api = GatewayAPI(
                state: state,
                workers: StubWorkers(),
                metrics: GatewayMetrics(),
                knownKinds: ["apns", "altcraft"],
                logger: quiet
            )
        }

        /// An erasure of whose removals no platform is told.
        func erasure(in store: any StateStore & TraceStore) -> UserErasure {
            UserErasure(store: store, devices: self.store, outbox: nil, time: time, apps: [:])
        }

        func hash() async throws -> String { try await KeyedHash(store)("user", "ada-lovelace") }

        func call(_ method: HTTPRequest.Method, _ path: String, _ body: String? = nil) async throws -> APIHarness.Reply
        {
            try await APIHarness.send(api.responder, method, path, body)
        }

        func send(_ to: String, _ title: String, backend: String = "ios") async throws -> String {
            let body = #"{"to":\#(to),"content":{"title":"\#(title)"},"backend":"\#(backend)"}"#
            let reply = try await call(.post, "/v1/notifications", body)
            #expect(reply.status == 202, "\(reply.text)")
            return try #require(reply.json["id"]?.stringValue)
        }

        /// Ends some deliveries as sent, with the events of that.
        func deliver(_ limit: Int, backend: String = "ios") async throws {
            let claims = try await store.claim(backend: backend, limit: limit, wait: .zero)
            try await store.record(
                claims.map { claim in
                    let accepted = DeliveryOutcome.accepted(Acceptance())
                    let attempt = EventJSON.attempt(accepted, backend: backend, at: time.now, retryAt: nil)
                    let event = EventJSON.delivery(claim, state: .acceptedByPlatform, at: time.now, attempt: attempt)
                    return Resolution(of: claim, .end(.acceptedByPlatform), attempt: attempt, event: event)
                }
            )
        }

        /// Moves the clock until no erasure is unfinished.
        func waitUntilFinished() async throws {
            try await eventually("no erasure is unfinished", every: .milliseconds(10)) {
                if try await UserErasure.unfinished(in: store).isEmpty { return true }
                time.advance(by: .seconds(1))
                return false
            }
        }

        func events() async throws -> [String] {
            try await store.events(after: 0, limit: 10_000, wait: .zero).map {
                String(decoding: $0.json, as: UTF8.self)
            }
        }
    }

    private func run(_ body: (Rig) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let rig = try Rig(folder)
        for (id, user, token) in [
            ("phone-a", "ada-lovelace", "aaaa"), ("tablet-a", "ada-lovelace", "abab"), ("phone-e", "eve", "eeee"),
        ] {
            let body = #"{"user":"\#(user)","tokens":{"ios-apns":"\#(String(repeating: token, count: 16))"}}"#
            #expect(try await rig.call(.put, "/v1/devices/\(id)", body).status == 201)
        }
        try await body(rig)
        await rig.store.close()
    }

    /// What names the user anywhere.
    private static let traces = ["ada-lovelace", "phone-a", "tablet-a", "aaaaaaaa", "abababab", "For Ada"]

    @Test("is on record under the hash that the store's key makes of the id, and not under the id")
    func record() async throws {
        try await run { rig in
            let reply = try await rig.call(.delete, "/v1/users/ada-lovelace")
            let hash = try await KeyedHash(rig.store)("user", "ada-lovelace")
            #expect(reply.headers[.auditSubject] == hash)
            let path = URL(filePath: rig.path).deletingLastPathComponent().appending(path: "audit.jsonl")
            let text = try String(contentsOf: path, encoding: .utf8)
            #expect(text.contains(#""route":"/v1/users/{id}","target":"\#(hash)","status":200"#))
            #expect(!text.contains("ada-lovelace"))
        }
    }

    @Test(
        "Nothing of the user is left: devices, what waits, what was sent, events, in memory and in every page of the file"
    )
    func everything() async throws {
        try await run { rig in
            let token = String(repeating: "aaaa", count: 16)
            let plain = try await rig.send(#"{"tokens":[{"token":"\#(token)","service":"ios-apns"}]}"#, "For Ada too")
            try await rig.deliver(1)
            let own = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada alone")
            try await rig.deliver(1)
            let long = String(repeating: "For Ada at length ", count: 200)
            for _ in 0..<40 { _ = try await rig.send(#"{"devices":["phone-a"]}"#, long) }
            try await rig.deliver(100)
            let single = try await rig.send(#"{"devices":["phone-a"]}"#, "For Ada once")
            try await rig.deliver(10)
            let shared = try await rig.send(#"{"devices":["phone-e","phone-a"]}"#, "For both")
            try await rig.deliver(1)
            let direct = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada there", backend: "crm")
            let waiting = try await rig.send(#"{"devices":["tablet-a"]}"#, "For Ada later")
            let others = try await rig.send(#"{"devices":["phone-e"]}"#, "For Eve")
            try await rig.store.publish([
                Array(#"{"type":"operation.done","user":"ada-lovelace","device":"phone-a"}"#.utf8)
            ])
            let count = try await rig.events().count

            let reply = try await rig.call(.delete, "/v1/users/ada-lovelace")
            #expect(reply.status == 200, "\(reply.text)")
            #expect(reply.json["complete"]?.boolValue == true)
            #expect(reply.json["devices"]?.integerValue == 2)
            #expect(reply.json["tokens"]?.integerValue == 2)
            #expect(reply.json["deliveries"]?["cancelled"]?.integerValue ?? 0 >= 2, "\(reply.text)")
            #expect(reply.json["stays"]?.arrayValue?.count ?? 0 >= 3)

            for id in [plain, own, single, direct, waiting] {
                #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404, "\(id)")
            }
            #expect(try await rig.call(.get, "/v1/notifications/\(others)").status == 200)
            let story = try await rig.call(.get, "/v1/notifications/\(shared)/deliveries")
            #expect(story.text.contains("phone-e") && story.text.contains("erased:"))
            let page = try await rig.call(.get, "/v1/devices")
            #expect(page.json["items"]?.arrayValue?.count == 1)

            let events = try await rig.events()
            #expect(events.count >= count, "numbers of events stay")
            #expect(!events.contains { event in Self.traces.contains { event.contains($0) } }, "\(events)")
            #expect(events.contains { $0.contains("For Eve") } && events.contains { $0.contains("phone-e") })
            #expect(try await rig.store.claim(backend: "crm", limit: 10, wait: .zero).isEmpty)

            // A copy has every page as it is, free ones too, with what the log has of them.
            let copy = rig.path + ".copy"
            _ = try StoreBackup(of: rig.path, to: copy).write()
            let file = try Data(contentsOf: URL(filePath: copy))
            for trace in Self.traces { #expect(file.range(of: Data(trace.utf8)) == nil, "\(trace)") }
            #expect(file.range(of: Data(repeating: 0xAA, count: 16)) == nil, "the token, packed")
            #expect(file.range(of: Data("For Eve".utf8)) != nil)
        }
    }

    @Test("What was being sent is erased by the gateway itself, after a restart too", arguments: [false, true])
    func finished(restarted: Bool) async throws {
        try await run { rig in
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
            #expect(!events.contains { event in Self.traces.contains { event.contains($0) } })
        }
    }

    @Test("An erasure that a failing store has interrupted is finished by the gateway itself")
    func interrupted() async throws {
        try await run { rig in
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
            #expect(!events.contains { event in Self.traces.contains { event.contains($0) } })
        }
    }

    @Test("A search that takes longer than a caller waits goes on after the answer, which says so")
    func manyEvents() async throws {
        try await run { rig in
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
            #expect(!texts.contains { text in Self.traces.contains { text.contains($0) } })
        }
    }

    @Test("What backends announced about the user is found at any place, and nobody else's is")
    func notices() async throws {
        try await run { rig in
            let notices = [
                #""backend":"chabok","detail":{"installation":"i125","user":"ada-lovelace"}"#,
                #""backend":"chabok","detail":{"parts":[{"ids":["tablet-a"]}]}"#,
                #""backend":"ios","device":"phone-a""#,
                #""backend":"chabok","detail":{"installation":"i126","user":"eve"}"#,
            ]
            try await rig.store.publish(notices.map { Array(#"{"type":"backend.notice",\#($0)}"#.utf8) })
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 200)
            let events = try await rig.events()
            #expect(!events.contains { event in Self.traces.contains { event.contains($0) } })
            #expect(events.filter { $0.contains("backend.notice") }.count == 4)
            #expect(events.contains { $0.contains("i126") } && !events.contains { $0.contains("i125") })
        }
    }

    @Test("A user of another app with the same name keeps what that app's backends announced")
    func noticesOfApps() {
        var traces = UserTraces(user: "shop/ada")
        traces.devices = ["shop/phone"]
        let (shop, forum) = (AppName(rawValue: "shop"), AppName(rawValue: "forum"))
        let redaction = EventRedaction(traces, ["ours": shop, "theirs": forum])
        func isRedacted(_ about: String) -> Bool {
            redaction.redacted(Array(#"{"type":"backend.notice",\#(about)}"#.utf8), number: 1) != nil
        }
        #expect(isRedacted(#""backend":"ours","detail":{"user":"ada"}"#))
        #expect(isRedacted(#""backend":"ours","device":"phone""#))
        #expect(isRedacted(#""backend":"gone","detail":{"user":"ada"}"#), "of no known app")
        #expect(!isRedacted(#""backend":"theirs","detail":{"user":"ada"}"#))
        #expect(!isRedacted(#""backend":"ours","reason":"ada""#))
    }

    @Test("Events of the calls that tell platforms of the removal are redacted, those of a new owner not")
    func told() async throws {
        try await run { rig in
            let erasure = UserErasure(
                store: rig.store,
                devices: rig.store,
                outbox: rig.time.now,
                time: rig.time,
                apps: [:]
            )
            let done = try await erasure.begin("ada-lovelace", hash: "h")
            let report = try await erasure.run(erasure.calls("h"), done)
            #expect(report.isComplete && !report.isFinished && report.pendingEntries == 2)
            #expect(try await erasure.resume(hash: "h") == false, "the platforms were not told")
            let changes = try await rig.store.unplannedChanges(limit: 10, wait: .zero)
            try await rig.store.record(changes.map { OutboxPlan(change: $0.number, []) })
            let body = #"{"user":"eve","tokens":{"ios-apns":"\#(String(repeating: "caca", count: 16))"}}"#
            #expect(try await rig.call(.put, "/v1/devices/tablet-a", body).status == 201)
            try await rig.store.publish(
                [
                    #"{"type":"operation.done","device":"phone-a","user":"ada-lovelace","kind":"unregister"}"#,
                    #"{"type":"backend.notice","backend":"chabok","detail":{"user":"ada-lovelace"}}"#,
                    #"{"type":"operation.done","device":"tablet-a","user":"eve","kind":"register"}"#,
                ].map { Array($0.utf8) }
            )
            #expect(try await erasure.resume(hash: "h") == true)
            #expect(try await erasure.resume(hash: "h") == nil, "nothing is on record any more")
            #expect(try await UserErasure.unfinished(in: rig.store).isEmpty)
            let events = try await rig.events()
            #expect(!events.contains { $0.contains("ada-lovelace") || $0.contains("phone-a") })
            #expect(events.contains { $0.contains("tablet-a") && $0.contains("eve") })
        }
    }

    @Test("A user who registered again keeps what is new, when the rest of an erasure is made up for")
    func registeredAgain() async throws {
        try await run { rig in
            let old = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada now")
            let claims = try await rig.store.claim(backend: "ios", limit: 10, wait: .zero)
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 202)
            let body = #"{"user":"ada-lovelace","tokens":{"ios-apns":"\#(String(repeating: "aaaa", count: 16))"}}"#
            #expect(try await rig.call(.put, "/v1/devices/phone-a", body).status == 201)
            let new = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada again")
            try await rig.store.publish([
                Array(#"{"type":"device.seen","user":"ada-lovelace","device":"phone-a"}"#.utf8)
            ])
            try await rig.store.record(
                claims.map { claim in
                    let event = EventJSON.delivery(claim, state: .acceptedByPlatform, at: rig.time.now)
                    return Resolution(of: claim, .end(.acceptedByPlatform), event: event)
                }
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await rig.api.own.erasures.run(rig.state, quiet) }
                try await rig.waitUntilFinished()
                rig.api.own.erasures.finish()
                try await group.waitForAll()
            }
            #expect(try await rig.call(.get, "/v1/notifications/\(old)").status == 404)
            #expect(try await rig.call(.get, "/v1/devices/phone-a").status == 200)
            #expect(try await rig.store.claim(backend: "ios", limit: 10, wait: .zero).count == 1)
            #expect(try await rig.call(.get, "/v1/notifications/\(new)").status == 200)
            let events = try await rig.events().filter { $0.contains("ada-lovelace") }
            #expect(events.contains { $0.contains("device.seen") })
            #expect(!events.contains { $0.contains(old) })
            // Asked for again, it takes all.
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").json["devices"]?.integerValue == 1)
        }
    }

    @Test("An erasure ends, although the user is sent to all the time")
    func sentTo() async throws {
        try await run { rig in
            for number in 0..<20 { _ = try await rig.send(#"{"devices":["phone-a"]}"#, "For Ada \(number)") }
            try await rig.deliver(5)
            var traces = UserTraces(user: "ada-lovelace")
            traces.devices = ["phone-a"]
            traces.recipients.insert(Recipient.device("phone-a").storedForm)
            traces.end = try await rig.store.tracesEnd()
            var parts = 0
            try await rig.store.eraseDeliveries(of: traces) { _, _ in
                Array("{}".utf8)
            } state: { _ in
                (name: "test", value: [])
            } progress: { _ async throws(StoreError) in
                parts += 1
                // One that ended without a row is found in the archive.
                guard parts < 100 else { return }
                _ = try? await rig.send(#"{"devices":["phone-a"]}"#, "For Ada meanwhile")
                try? await rig.deliver(1)
            }
            #expect(parts < 30)
        }
    }

    @Test("What was removed is on record together with its removal: a crash after it leaves the way to its events")
    func removalsOnRecord() async throws {
        try await run { rig in
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

    @Test("Two first erasures at the same time give hashes by the same key")
    func oneKey() async throws {
        try await run { rig in
            async let first = rig.call(.delete, "/v1/users/ada-lovelace")
            async let second = rig.call(.delete, "/v1/users/eve")
            let hashes = try await [first, second].map { $0.headers[.auditSubject] }
            let hash = try await KeyedHash(rig.store)
            #expect(hashes == [hash("user", "ada-lovelace"), hash("user", "eve")])
        }
    }

    @Test("What is being sent is cancelled, and erased by the next call, although the devices are gone by then")
    func inFlight() async throws {
        try await run { rig in
            let id = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada now")
            let claims = try await rig.store.claim(backend: "ios", limit: 10, wait: .zero)
            #expect(claims.count == 2)
            let first = try await rig.call(.delete, "/v1/users/ada-lovelace")
            #expect(first.status == 202)
            #expect(first.json["complete"]?.boolValue == false)
            #expect(first.json["deliveries"]?["in_flight"]?.integerValue == 2)
            try await rig.store.record(
                claims.map { claim in
                    let event = EventJSON.delivery(claim, state: .acceptedByPlatform, at: rig.time.now)
                    return Resolution(of: claim, .end(.acceptedByPlatform), event: event)
                }
            )
            let second = try await rig.call(.delete, "/v1/users/ada-lovelace")
            #expect(second.status == 200, "\(second.text)")
            #expect(second.json["devices"]?.integerValue == 0)
            #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 404)
            let events = try await rig.events()
            #expect(!events.contains { event in Self.traces.contains { event.contains($0) } })
            let third = try await rig.call(.delete, "/v1/users/ada-lovelace")
            #expect(third.status == 200)
            #expect(third.json["deliveries"]?["removed"]?.integerValue == 0)
        }
    }

    @Test("Calls that overlap keep a record each, and what a stop leaves of both is erased by the next start")
    func overlapping() async throws {
        try await run { rig in
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
            #expect(!events.contains { event in Self.traces.contains { event.contains($0) } })
        }
    }

    @Test("Who has a device next keeps what came to it, however often the first owner is erased again")
    func nextOwner() async throws {
        try await run { rig in
            _ = try await rig.send(#"{"users":["ada-lovelace"]}"#, "For Ada")
            // They are being sent: the first call stays on record.
            let claims = try await rig.store.claim(backend: "ios", limit: 10, wait: .zero)
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 202)
            let body = #"{"user":"eve","tokens":{"ios-apns":"\#(String(repeating: "aaaa", count: 16))"}}"#
            #expect(try await rig.call(.put, "/v1/devices/phone-a", body).status == 201)
            let new = try await rig.send(#"{"devices":["phone-a"]}"#, "For Eve there")
            try await rig.deliver(1)
            try await rig.store.publish([Array(#"{"type":"device.seen","user":"eve","device":"phone-a"}"#.utf8)])
            let events = try await rig.events().filter { $0.contains("phone-a") && $0.contains(new) }
            #expect(!events.isEmpty)
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 202)
            try await rig.store.record(
                claims.map { claim in
                    let event = EventJSON.delivery(claim, state: .acceptedByPlatform, at: rig.time.now)
                    return Resolution(of: claim, .end(.acceptedByPlatform), event: event)
                }
            )
            let hash = try await rig.hash()
            #expect(try await rig.erasure(in: rig.store).resume(hash: hash) == true)
            let story = try await rig.call(.get, "/v1/notifications/\(new)/deliveries")
            #expect(story.status == 200 && story.text.contains("phone-a") && !story.text.contains("erased:"))
            #expect(try await rig.call(.get, "/v1/devices/phone-a").status == 200)
            let left = try await rig.events()
            #expect(events.allSatisfy { left.contains($0) })
            #expect(left.contains { $0.contains("device.seen") && $0.contains("phone-a") })
            #expect(!left.contains { $0.contains("ada-lovelace") || $0.contains("For Ada") })
        }
    }

    @Test("A call that is cut while devices are removed leaves to a device's next owner what came to it since")
    func cutAtRemoval() async throws {
        try await run { rig in
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
        try await run { rig in
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
            #expect(!Self.traces.contains { text.contains($0) }, "the record goes after the clearing")
            store.isFailing.withLock { $0 = false }
            #expect(try await erasure.resume(hash: hash) == true)
            #expect(store.cleared.withLock { $0 } == 1)
            #expect(try await UserErasure.unfinished(in: rig.store).isEmpty)
        }
    }

    @Test("The end of the gateway ends a search, which the next start makes good")
    func endOfGateway() async throws {
        try await run { rig in
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

    @Test("What an earlier version has begun is ended", arguments: [false, true])
    func earlierVersion(isComplete: Bool) async throws {
        try await run { rig in
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
        try await run { rig in
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

extension UserErasure {
    /// Goes on with what is on record, as the gateway does; returns whether it is finished, nil when none is on record.
    fileprivate func resume(hash: String) async throws(StoreError) -> Bool? {
        let calls = try await calls(hash)
        guard !calls.isEmpty else { return nil }
        return try await run(calls).isFinished
    }
}

/// A store of which a test holds searches through events until they are cancelled, and makes the cleaning fail.
private final class SteeredStore: StateStore, TraceStore {
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
