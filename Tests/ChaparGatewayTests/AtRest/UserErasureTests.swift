import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Erasing a user", .timeLimit(.minutes(2)))
struct UserErasureTests {
    @Test("is on record under the hash that the store's key makes of the id, and not under the id")
    func record() async throws {
        try await ErasureRig.run { rig in
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
        try await ErasureRig.run { rig in
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
            #expect(!events.contains { event in ErasureRig.traces.contains { event.contains($0) } }, "\(events)")
            #expect(events.contains { $0.contains("For Eve") } && events.contains { $0.contains("phone-e") })
            #expect(try await rig.store.claim(backend: "crm", limit: 10, wait: .zero).isEmpty)

            // A copy has every page as it is, free ones too, with what the log has of them.
            let copy = rig.path + ".copy"
            _ = try StoreBackup(of: rig.path, to: copy).write()
            let file = try Data(contentsOf: URL(filePath: copy))
            for trace in ErasureRig.traces { #expect(file.range(of: Data(trace.utf8)) == nil, "\(trace)") }
            #expect(file.range(of: Data(repeating: 0xAA, count: 16)) == nil, "the token, packed")
            #expect(file.range(of: Data("For Eve".utf8)) != nil)
        }
    }

    @Test("The user's data in backends' notices is erased at any place, other users' data is kept")
    func notices() async throws {
        try await ErasureRig.run { rig in
            let notices = [
                #""backend":"chabok","detail":{"installation":"i125","user":"ada-lovelace"}"#,
                #""backend":"chabok","detail":{"parts":[{"ids":["tablet-a"]}]}"#,
                #""backend":"ios","device":"phone-a""#,
                #""backend":"chabok","detail":{"installation":"i126","user":"eve"}"#,
            ]
            try await rig.store.publish(notices.map { Array(#"{"type":"backend.notice",\#($0)}"#.utf8) })
            #expect(try await rig.call(.delete, "/v1/users/ada-lovelace").status == 200)
            let events = try await rig.events()
            #expect(!events.contains { event in ErasureRig.traces.contains { event.contains($0) } })
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
        try await ErasureRig.run { rig in
            let erasure = UserErasure(
                store: rig.store,
                devices: rig.store,
                audiences: nil,
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
        try await ErasureRig.run { rig in
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
        try await ErasureRig.run { rig in
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

    @Test("Two first erasures at the same time give hashes by the same key")
    func oneKey() async throws {
        try await ErasureRig.run { rig in
            async let first = rig.call(.delete, "/v1/users/ada-lovelace")
            async let second = rig.call(.delete, "/v1/users/eve")
            let hashes = try await [first, second].map { $0.headers[.auditSubject] }
            let hash = try await KeyedHash(rig.store)
            #expect(hashes == [hash("user", "ada-lovelace"), hash("user", "eve")])
        }
    }

    @Test("Deliveries being sent are cancelled, and erased by the next call, although the devices are gone")
    func inFlight() async throws {
        try await ErasureRig.run { rig in
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
            #expect(!events.contains { event in ErasureRig.traces.contains { event.contains($0) } })
            let third = try await rig.call(.delete, "/v1/users/ada-lovelace")
            #expect(third.status == 200)
            #expect(third.json["deliveries"]?["removed"]?.integerValue == 0)
        }
    }

    @Test("Who has a device next keeps what came to it, however often the first owner is erased again")
    func nextOwner() async throws {
        try await ErasureRig.run { rig in
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
}
