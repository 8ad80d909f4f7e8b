import Foundation
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// Devices, subscriptions and tags in both models, over real sockets.
@Suite("OneSignal: devices", .timeLimit(.minutes(5)))
struct OneSignalDeviceTests {
    static let models = OneSignalOptions.DeviceAPI.allCases

    private func run(
        _ model: OneSignalOptions.DeviceAPI,
        _ rules: OneSignalSimulator.Rules = .lenient,
        adjust: (inout OneSignalOptions) -> Void = { _ in },
        _ body: (Harness, OneSignalBackend) async throws -> Void
    ) async throws {
        try await Harness.run(
            rules,
            adjust: { options in
                options.deviceAPI = model
                adjust(&options)
            }
        ) { harness in try await body(harness, harness.oneSignal) }
    }

    @Test("A device is registered once, and again only when something has changed", arguments: models)
    func registers(model: OneSignalOptions.DeviceAPI) async throws {
        try await run(model) { harness, backend in
            let devices = try #require(backend.devices)
            let id = try await devices.register(.sample(user: "cust-8812"))
            let player = try #require(harness.simulator.player(id))
            #expect(player.type == "iOSPush" && player.token == apnsToken && player.testType == nil)
            #expect(harness.simulator.aliases(of: id) == ["external_id": "cust-8812"])
            let writes = harness.simulator.counters.writes
            #expect(try await devices.register(.sample(user: "cust-8812")) == id)
            #expect(harness.simulator.counters.writes == writes, "nothing to do")
            #expect(try await devices.register(.sample(user: "cust-1")) == id)
            #expect(harness.simulator.aliases(of: id) == ["external_id": "cust-1"])
            #expect(await backend.send(.sample, to: [.device("d-1")])[0].acceptance != nil)
            try await devices.remove(.sample())
            #expect(harness.simulator.player(id) == nil)
            try await devices.remove(.sample())
            #expect(await backend.send(.sample, to: [.device("d-1")])[0].word == "token not_registered")
        }
    }

    @Test("Registering again and tags opt no user in", arguments: models)
    func noOptIn(model: OneSignalOptions.DeviceAPI) async throws {
        try await run(model) { harness, backend in
            let devices = try #require(backend.devices)
            let id = try await devices.register(.sample(user: "u"))
            try await backend.subscriptions?.setStatus(.unsubscribed, of: .sample(user: "u"))
            let expected = model == .users ? -31 : -2
            #expect(harness.simulator.player(id)?.notificationTypes == expected)
            #expect(try await backend.subscriptions?.status(of: .sample(user: "u")) == .unsubscribed)
            let again = try await devices.register(.sample(user: "u", token: token(7)))
            #expect(harness.simulator.player(again)?.isSubscribed == false)
            try await backend.tags?.setTags(["city": "tehran"], of: .sample(user: "u"))
            #expect(harness.simulator.player(again)?.isSubscribed == false)
            try await backend.subscriptions?.setStatus(.subscribed, of: .sample(user: "u", token: token(7)))
            #expect(harness.simulator.player(again)?.isSubscribed == true)
            #expect(try await backend.subscriptions?.status(of: .sample(user: "u")) == .subscribed)
        }
    }

    @Test("A device that OneSignal has lost is registered again, and the operation done", arguments: models)
    func lost(model: OneSignalOptions.DeviceAPI) async throws {
        try await run(model) { harness, backend in
            let id = try await #require(backend.devices).register(.sample())
            harness.simulator.forget(id)
            try await backend.subscriptions?.setStatus(.unsubscribed, of: .sample())
            #expect(harness.simulator.players.count == 1)
            #expect(harness.simulator.players[0].isSubscribed == false)
            #expect(try await backend.players.load(device: "d-1")?.platformID == harness.simulator.players[0].id)
        }
    }

    @Test("Tags become texts, an empty one removes, and large sets are split", arguments: models)
    func setsTags(model: OneSignalOptions.DeviceAPI) async throws {
        try await run(model) { harness, backend in
            let device = DeviceRecord.sample(user: "u")
            let id = try await #require(backend.devices).register(device)
            let tags = try #require(backend.tags)
            try await tags.setTags(["city": "تهران", "level": 7, "vip": true, "old": "x", "rate": 1.5], of: device)
            try await tags.setTags(["old": nil], of: device)
            #expect(
                harness.simulator.tags(of: id) == ["city": "تهران", "level": "7", "vip": "true", "rate": "1.5"]
            )
            var many = JSONObject()
            for number in 0..<250 { many["tag-\(number)"] = .integer(Int64(number)) }
            let before = harness.simulator.counters.writes
            try await tags.setTags(many, of: device)
            #expect(harness.simulator.counters.writes - before == 3)
            #expect(harness.simulator.tags(of: id).count == 254)
        }
    }

    static let badTags: [(JSONObject, String)] = [
        (["a": ["b": 1]], "bad_tag_value"), (["a": [1]], "bad_tag_value"), (["user": "x"], "reserved_tag"),
        (["": "x"], "bad_tag_name"), ([" ": "x"], "bad_tag_name"),
        (["a": .string(String(repeating: "x", count: 2000))], "bad_tag_value"),
    ]

    @Test("Tags that cannot be are refused with their name, and nothing is sent", arguments: badTags)
    func refusesTags(tags: JSONObject, reason: String) async throws {
        try await run(.users) { harness, backend in
            let device = DeviceRecord.sample(user: "u")
            _ = try await #require(backend.devices).register(device)
            let before = harness.simulator.counters.writes
            let error = await failure { () async throws(PushError) in try await backend.tags?.setTags(tags, of: device)
            }
            #expect(error?.reason == reason)
            #expect(harness.simulator.counters.writes == before)
        }
    }

    static let badDevices: [(DeviceRecord, String)] = [
        (DeviceRecord(id: "d"), "missing_device_token"), (.sample(token: " \n"), "missing_device_token"),
        (.sample(service: .iOSFirebase), "wrong_token_service"), (.sample(user: "undefined"), "bad_user"),
        (.sample(user: ""), "bad_user"),
    ]

    @Test("A device that cannot be registered is refused before anything is sent", arguments: badDevices)
    func refusesDevices(device: DeviceRecord, reason: String) async throws {
        try await run(.users) { harness, backend in
            let error = await failure { () async throws(PushError) in _ = try await backend.devices?.register(device) }
            #expect(error?.reason == reason)
            #expect(harness.simulator.counters.writes == 0)
        }
    }

    static let environments: [(OneSignalOptions.Environment, String?, Int?)] = [
        (.production, nil, nil), (.development, nil, 1), (.adHoc, nil, 2), (.production, "development", 1),
        (.development, "production", nil),
    ]

    @Test("The entitlement comes from the device, else from the backend", arguments: environments)
    func testType(backend: OneSignalOptions.Environment, device: String?, expected: Int?) async throws {
        for model in Self.models {
            try await run(model, adjust: { $0.environment = backend }) { harness, backend in
                var record = DeviceRecord.sample()
                if let device { record.attributes["environment"] = .string(device) }
                let id = try await #require(backend.devices).register(record)
                #expect(harness.simulator.player(id)?.testType == expected)
            }
        }
    }

    @Test("An id that shows only later is waited for; one that never shows is not made up", arguments: [2, 100])
    func delayedWrite(seconds: Int) async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.writeDelay = .seconds(seconds)
        try await run(.users, rules) { harness, backend in
            let error = await failure { () async throws(PushError) in
                _ = try await backend.devices?.register(.sample(user: "u"))
            }
            #expect(error?.reason == (seconds == 2 ? nil : "subscription_pending"))
            let record = try await backend.players.load(device: "d-1")
            #expect((record == nil) == (seconds == 100), "nothing is stored without an id")
        }
    }

    @Test("An answer that shows no subscription leads to a look at the user")
    func untold() async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.returnsSubscriptions = false
        try await run(.users, rules) { harness, backend in
            let id = try await #require(backend.devices).register(.sample())
            #expect(harness.simulator.player(id) != nil)
            #expect(harness.simulator.counters.views == 1)
        }
    }

    @Test("The 21st subscription of a user is refused with the reason")
    func tooMany() async throws {
        try await run(.users) { harness, backend in
            for number in 0..<20 {
                _ = try await backend.devices?.register(.sample("d-\(number)", user: "u", token: token(number)))
            }
            let error = await failure { () async throws(PushError) in
                _ = try await backend.devices?.register(.sample("d-20", user: "u", token: token(20)))
            }
            #expect(error?.reason == "subscription_limit")
        }
    }

    @Test("An unsubscribe that OneSignal finds contradictory is made again without the number")
    func subscription9() async throws {
        try await run(.users) { harness, backend in
            let id = try await #require(backend.devices).register(.sample())
            let body = Array(#"{"errors":[{"code":"subscription-9","title":"no"}]}"#.utf8)
            harness.simulator.add([
                FaultRule(
                    match: FaultMatch(pathPrefix: "/apps/\(harness.simulator.rules.appID)/subscriptions", count: 1),
                    .answer(FaultAnswer(400, body: body))
                )
            ])
            try await backend.subscriptions?.setStatus(.unsubscribed, of: .sample())
            #expect(harness.simulator.player(id)?.isEnabled == false)
        }
    }

    @Test("One phone, two accounts: the newer registration has the id")
    func newerWins() async throws {
        try await run(.users) { harness, backend in
            let devices = try #require(backend.devices)
            let first = try await devices.register(.sample("old", user: "a"))
            let second = try await devices.register(.sample("new", user: "b"))
            #expect(first == second)
            #expect(try await backend.players.load(device: "old") == nil)
            #expect(try await backend.players.device(platformID: first) == "new")
        }
    }

    @Test("Writes of one device keep their distance; a store that fails is said")
    func spacing() async throws {
        try await run(.users, adjust: { $0.writeSpacing = .seconds(1) }) { harness, backend in
            let device = DeviceRecord.sample(user: "u")
            _ = try await #require(backend.devices).register(device)
            try await backend.subscriptions?.setStatus(.unsubscribed, of: device)
            #expect(harness.time.slept.withLock { $0.reduce(.zero, +) } > .milliseconds(500))
            harness.state.fails = true
            let error = await failure { () async throws(PushError) in
                try await backend.subscriptions?.setStatus(.subscribed, of: device)
            }
            #expect(error?.reason == "store_failed")
        }
    }

    @Test("Users are read, named, and deleted, and subscriptions move between them")
    func directory() async throws {
        try await run(.users) { harness, backend in
            let id = try await #require(backend.devices).register(.sample(user: "a/b@c"))
            _ = try await backend.devices?.register(.sample("d-2", user: "other", token: token(2)))
            let directory = backend.directory
            let user = try #require(try await directory.user(.init(externalID: "a/b@c")))
            #expect(user.aliases["external_id"] == "a/b@c")
            #expect(user.subscriptions.map(\.id) == [id] && user.subscriptions[0].isSubscribed)
            try await directory.name(ownerOf: id, [.init("crm", "77")])
            let aliases = try await directory.aliases(ownerOf: id)
            #expect(aliases?["crm"] == "77")
            let conflict = await failure { () async throws(PushError) in
                try await directory.name(ownerOf: id, [.init(externalID: "other")])
            }
            #expect(conflict?.reason == "conflicting_aliases")
            try await directory.move(id, to: .init(externalID: "other"))
            let other = try await directory.user(.init(externalID: "other"))
            #expect(other?.subscriptions.count == 2)
            try await directory.delete(.init(externalID: "other"))
            try await directory.delete(.init(externalID: "other"))
            let (gone, orphan) = (
                try await directory.user(.init(externalID: "other")), try await directory.aliases(ownerOf: id)
            )
            #expect(gone == nil && orphan == nil)
        }
    }

    // MARK: Messages

    @Test("A scheduled message is seen and cancelled, a sent one is too late, an unknown one is unknown")
    func cancels() async throws {
        try await Harness.run(adjust: { $0.schedulesOnPlatform = true }) { harness in
            #expect(harness.oneSignal.schedulesMessages)
            let ids = harness.simulator.addPlayers(2)
            var later = PushNotification.sample
            later.sendAt = harness.time.now.addingTimeInterval(3600)
            let scheduled = try #require(await harness.send(ids, later)[0].acceptance?.platformID)
            let sent = try #require(await harness.send(ids)[0].acceptance?.platformID)
            let (cancel, track) = (harness.oneSignal.cancellation, harness.oneSignal.tracking)
            #expect(try await track?.state(of: scheduled) == .scheduled)
            #expect(try await track?.state(of: sent) == .acceptedByPlatform)
            #expect(try await track?.state(of: UUID().uuidString) == DeliveryState?.none)
            #expect(try await cancel?.cancel(platformID: scheduled) == true)
            #expect(try await cancel?.cancel(platformID: scheduled) == true, "again is harmless")
            #expect(try await cancel?.cancel(platformID: sent) == false)
            #expect(try await track?.state(of: scheduled) == .cancelled)
            let unknown = await failure { () async throws(PushError) in
                _ = try await cancel?.cancel(platformID: UUID().uuidString)
            }
            #expect(unknown?.reason == "not_found")
            let report = try #require(try await harness.oneSignal.messages.report(of: sent))
            #expect(report.successful == 2 && report.remaining == 0)
            #expect(try await harness.oneSignal.messages.list().map(\.id) == [sent, scheduled])
            #expect(try await harness.oneSignal.messages.shortfall(of: sent, expected: 5) == 3)
            #expect(try await harness.oneSignal.messages.shortfall(of: scheduled, expected: 5) == nil)
        }
    }

    @Test("A success that is a text counts as one")
    func textualSuccess() async throws {
        try await Harness.run { harness in
            harness.simulator.add([FaultRule(.answer(FaultAnswer(200, body: Array(#"{"success":"true"}"#.utf8))))])
            let isCancelled = try await harness.oneSignal.messages.cancel(platformID: UUID().uuidString)
            #expect(isCancelled)
        }
    }

    @Test("Views keep within one a second, and none meets 429")
    func viewBudget() async throws {
        try await Harness.run(.init()) { harness in
            let start = harness.time.now
            for _ in 0..<20 { _ = try await harness.oneSignal.tracking?.state(of: UUID().uuidString) }
            #expect(harness.time.now.timeIntervalSince(start) >= 18)
            #expect(harness.simulator.counters.views == 20)
        }
    }

    @Test("Messages that no recipient can express are created directly")
    func direct() async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.segments = ["VIP": TagFilter(all: ["vip"])]
        try await Harness.run(rules) { harness in
            let ids =
                harness.simulator.addPlayers(3) + harness.simulator.addPlayers(2, tags: ["vip": "1", "level": "9"])
            let messages = harness.oneSignal.messages
            let key = UUID()
            let audience = OneSignalAudience.segments(["All"], excluding: ["VIP"])
            let first = try await messages.create(.sample, to: audience, key: key)
            guard case .made(let id, _, let isReplay) = first else { Issue.record("\(first)"); return }
            #expect(!isReplay)
            #expect(harness.simulator.messages[0].players.count == 3)
            let again = try await messages.create(.sample, to: audience, key: key)
            #expect(again == .made(id: id, invalid: [], isReplay: true))
            let filters: [OneSignalFilter] = [.tag("level", .greater, "5"), .or, .tag("plan", .equal, "pro")]
            _ = try await messages.create(.sample, to: .filters(filters), key: UUID())
            #expect(harness.simulator.messages[1].players.count == 2)
            let nobody = try await messages.create(.sample, to: .filters([.tag("x", .exists)]), key: UUID())
            guard case .nobody = nobody else { Issue.record("\(nobody)"); return }
            _ = try await messages.create(.sample, to: .subscriptions(ids), key: UUID())
            for bad in [[OneSignalFilter](), [.or], [.tag("a", .exists), .or]] {
                let error = await failure { () async throws(PushError) in
                    _ = try await messages.create(.sample, to: .filters(bad), key: UUID())
                }
                #expect(error?.reason == "bad_filters")
            }
        }
    }

    @Test("The doctor sees a key that is no good")
    func doctor() async throws {
        try await Harness.run { harness in
            #expect(await harness.oneSignal.diagnose().map(\.verdict) == [.ok])
            harness.simulator.rules.apiKey = nil
            #expect(await harness.oneSignal.diagnose().map(\.verdict) == [.failure])
        }
    }
}
