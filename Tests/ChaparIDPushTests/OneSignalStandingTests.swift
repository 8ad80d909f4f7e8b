import Foundation
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparIDPush
@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// Which devices are registered, who stays out, who comes back, and what is forgotten; over real sockets.
@Suite("OneSignal and IDPush: how devices stand", .timeLimit(.minutes(5)))
struct OneSignalStandingTests {
    /// The three ways to register.
    enum Way: CaseIterable {
        case users, players, idPush
    }

    private func run(
        _ way: Way,
        _ rules: OneSignalSimulator.Rules = .lenient,
        state: MemoryState = MemoryState(),
        adjust: (inout OneSignalOptions) -> Void = { _ in },
        _ body: (Harness, any PushBackend) async throws -> Void
    ) async throws {
        try await Harness.run(
            rules,
            adjust: { options in
                options.deviceAPI = way == .players ? .players : .users
                adjust(&options)
            },
            state: state
        ) { harness in
            try await body(harness, way == .idPush ? harness.idPush : harness.oneSignal)
        }
    }

    private static let google = DeviceToken("fcm-1", service: .iOSFirebase)
    private static let apple = DeviceToken(apnsToken, service: .iOSAPNs)
    private static let huawei = DeviceToken("hms-1", service: .androidHuawei)

    static let choices: [([DeviceToken], String?)] = [
        ([apple], "iOSPush"), ([google, apple], "iOSPush"), ([apple, google], "iOSPush"), ([huawei], "HuaweiPush"),
        ([DeviceToken("fcm-2", service: .androidFirebase), huawei], "AndroidPush"),
        ([DeviceToken(" ", service: .iOSAPNs), huawei], "HuaweiPush"), ([google], nil), ([], nil),
        ([DeviceToken("hms-2", service: .iOSHuawei)], nil),
    ]

    @Test(
        "The first token that OneSignal takes is registered; a device without one is not accepted",
        arguments: Way.allCases
    )
    func firstUsable(way: Way) async throws {
        try await run(way) { harness, backend in
            let devices = try #require(backend.devices)
            for (number, (tokens, type)) in Self.choices.enumerated() {
                for player in harness.simulator.players { harness.simulator.forget(player.id) }
                let record = DeviceRecord(id: "d-\(number)", user: "u", tokens: tokens)
                #expect(devices.accepts(record) == (type != nil))
                let error = await failure { () async throws(PushError) in _ = try await devices.register(record) }
                #expect((error == nil) == (type != nil))
                #expect(harness.simulator.players.map(\.type) == (type.map { [$0] } ?? []))
            }
        }
    }

    @Test("Who turned messages off on the device is left out until the app registers again", arguments: Way.allCases)
    func declined(way: Way) async throws {
        try await run(way) { harness, backend in
            let devices = try #require(backend.devices)
            for number in 0..<4 {
                _ = try await devices.register(.sample("d-\(number)", user: "u\(number)", token: token(number)))
            }
            let everybody = (0..<4).map { Recipient.device("d-\($0)") }
            let id = try #require(try await harness.oneSignal.players.load(device: "d-2")?.platformID)
            harness.simulator.setSubscribed(false, id)
            #expect(await backend.send(.sample, to: everybody)[2].word == "token unsubscribed")
            #expect(harness.notices.all.contains { $0.name == "unsubscribed" && $0.device == "d-2" })
            let before = harness.simulator.counters.createRequests
            #expect(await backend.send(.sample, to: [everybody[2]])[0].word == "token unsubscribed")
            #expect(harness.simulator.counters.createRequests == before, "refused without asking")
            _ = try await devices.register(.sample("d-2", user: "u2", token: token(2)))
            #expect(harness.simulator.player(id)?.isSubscribed == false, "registering opts nobody in")
            harness.simulator.setSubscribed(true, id)
            #expect(await backend.send(.sample, to: everybody).allSatisfy { $0.acceptance != nil })
        }
    }

    @Test("Who is sent to alone is left out as well, once the app id is known to be right")
    func declinedAlone() async throws {
        try await run(.users) { harness, backend in
            let devices = try #require(backend.devices)
            for number in 0..<2 { _ = try await devices.register(.sample("d-\(number)", token: token(number))) }
            let id = try #require(try await harness.oneSignal.players.load(device: "d-1")?.platformID)
            harness.simulator.setSubscribed(false, id)
            func standing() async throws -> PlayerRecord.Subscription? {
                try await harness.oneSignal.players.load(device: "d-1")?.subscription
            }
            _ = await backend.send(.sample, to: [.device("d-1")])
            #expect(try await standing() == .unknown, "a wrong app id looks the same")
            #expect(await backend.send(.sample, to: [.device("d-0")])[0].acceptance != nil)
            _ = await backend.send(.sample, to: [.device("d-1")])
            #expect(try await standing() == .declined)
            let before = harness.simulator.counters.createRequests
            #expect(await backend.send(.sample, to: [.device("d-1")])[0].word == "token unsubscribed")
            #expect(harness.simulator.counters.createRequests == before)
        }
    }

    @Test("Where over half of a chunk declined and a message was made, each of them is left out")
    func declinedInNumbers() async throws {
        try await run(.users) { harness, backend in
            let devices = try #require(backend.devices)
            for number in 0..<4 { _ = try await devices.register(.sample("d-\(number)", token: token(number))) }
            for number in 1..<4 {
                let id = try #require(try await harness.oneSignal.players.load(device: "d-\(number)")?.platformID)
                harness.simulator.setSubscribed(false, id)
            }
            let everybody = (0..<4).map { Recipient.device("d-\($0)") }
            #expect(
                await backend.send(.sample, to: everybody).map { $0.acceptance != nil } == [true, false, false, false]
            )
            #expect(harness.notices.all.contains { $0.name == "mass_refusal" }, "worth a look all the same")
            for number in 1..<4 {
                let record = try await harness.oneSignal.players.load(device: "d-\(number)")
                #expect(record?.subscription == .declined)
            }
        }
    }

    @Test(
        "A language goes out by OneSignal's code: two letters, Chinese by its script",
        arguments: [
            ("zh-TW", "zh-Hant"), ("zh-Hant-HK", "zh-Hant"), ("zh", "zh-Hans"), ("zh_CN", "zh-Hans"), ("fa-IR", "fa"),
        ]
    )
    func languages(tag: String, code: String) async throws {
        var device = DeviceRecord.sample()
        device.language = tag
        #expect(try DeviceFields(device).language == code)
    }

    @Test("An opt-out that was made in the app's SDK outlives whatever the gateway tells", arguments: Way.allCases)
    func optOutInTheSDK(way: Way) async throws {
        try await run(way) { harness, backend in
            let (devices, tags) = (try #require(backend.devices), try #require(backend.tags))
            var device = DeviceRecord.sample(user: "ali")
            let id = try await devices.register(device)
            #expect(harness.simulator.player(id)?.isSubscribed == true, "what is new is subscribed")
            harness.simulator.setSubscribed(false, id)
            device.attributes["app_version"] = "3.5"
            #expect(try await devices.register(device) == id)
            device.user = "sara"
            #expect(try await devices.register(device) == id)
            device.user = nil
            #expect(try await devices.register(device) == id)
            try await tags.setTags(["city": "tehran"], of: device)
            #expect(harness.simulator.player(id)?.isSubscribed == false)
            try await backend.subscriptions?.setStatus(.subscribed, of: device)
            #expect(harness.simulator.player(id)?.isSubscribed == true, "an explicit subscribe is consent")
            harness.simulator.setSubscribed(false, id)
            device.attributes["app_version"] = "3.6"
            #expect(try await devices.register(device) == id)
            #expect(harness.simulator.player(id)?.isSubscribed == false, "consent is not repeated")
        }
    }

    @Test(
        "A gateway that never saw the device finds an opt-out, and keeps it",
        arguments: [Way.users, .players]
    )
    func optOutBeforeTheGateway(way: Way) async throws {
        try await run(way) { harness, backend in
            let devices = try #require(backend.devices)
            let id = try await devices.register(.sample(user: "ali"))
            harness.simulator.setSubscribed(false, id)
            try await backend.forget(device: nil)
            #expect(try await devices.register(.sample(user: "ali")) == id)
            #expect(harness.simulator.player(id)?.isSubscribed == false)
            #expect(await backend.send(.sample, to: [.device("d-1")])[0].acceptance == nil)
        }
    }

    @Test("A user who opted out stays out when IDPush has to add the device again")
    func addedAgain() async throws {
        try await run(.idPush) { harness, backend in
            let devices = try #require(backend.devices)
            for number in 0..<3 { _ = try await devices.register(.sample("d-\(number)", token: token(number))) }
            let id = try #require(try await harness.oneSignal.players.load(device: "d-1")?.platformID)
            harness.simulator.setSubscribed(false, id)
            _ = await backend.send(.sample, to: (0..<3).map { .device("d-\($0)") })
            #expect(try await harness.oneSignal.players.load(device: "d-1")?.subscription == .declined)
            harness.simulator.add([
                FaultRule(
                    match: FaultMatch(listener: "idpush", pathPrefix: "/api/v1/device/edit", count: 1),
                    .answer(FaultAnswer(404))
                )
            ])
            try await backend.tags?.setTags(["city": "tehran"], of: .sample("d-1", token: token(1)))
            #expect(harness.simulator.player(id)?.isSubscribed == false)
        }
    }

    @Test("A log-out leaves the device without a user, a log-in moves it", arguments: Way.allCases)
    func switchesUser(way: Way) async throws {
        try await run(way) { harness, backend in
            let devices = try #require(backend.devices)
            let id = try await devices.register(.sample(user: "ali"))
            for user in [nil, "sara", nil, "ali"] {
                #expect(try await devices.register(.sample(user: user)) == id)
                #expect(harness.simulator.aliases(of: id)["external_id"] == user)
            }
            #expect(harness.simulator.player(id)?.isSubscribed == true)
        }
    }

    @Test("Forgetting tells the platform nothing, and the device is registered anew", arguments: Way.allCases)
    func forgets(way: Way) async throws {
        try await run(way) { harness, backend in
            let devices = try #require(backend.devices)
            var ids: [String] = []
            for number in 0..<3 {
                ids.append(try await devices.register(.sample("d-\(number)", token: token(number))))
            }
            let before = harness.simulator.counters
            try await backend.forget(device: "d-0")
            #expect(await backend.send(.sample, to: [.device("d-0")])[0].word == "token not_registered")
            #expect(await backend.send(.sample, to: [.device("d-1")])[0].acceptance != nil)
            try await backend.forget(device: nil)
            let words = await backend.send(.sample, to: (0..<3).map { .device("d-\($0)") }).map(\.word)
            #expect(words == Array(repeating: "token not_registered", count: 3))
            #expect(harness.simulator.counters.writes == before.writes)
            #expect(harness.simulator.counters.idPushRequests == before.idPushRequests)
            let again = try harness.restarted()
            #expect(await again.send(.sample, to: [.device("d-1")])[0].word == "token not_registered")
            await again.shutdown(grace: .zero)
            #expect(try await devices.register(.sample("d-1", token: token(1))) == ids[1])
            #expect(await backend.send(.sample, to: [.device("d-1")])[0].acceptance != nil)
        }
    }

    @Test(
        "Another entitlement or app is another registration, which the stamp shows",
        arguments: [Way.users, .players]
    )
    func stamps(way: Way) async throws {
        try await run(way) { harness, backend in
            let devices = try #require(backend.devices)
            let id = try await devices.register(.sample())
            let api: OneSignalOptions.DeviceAPI = way == .players ? .players : .users
            let other = try harness.restarted { ($0.deviceAPI, $0.environment) = (api, .development) }
            let registrar = try #require(other.devices)
            #expect(registrar.stamp != devices.stamp && devices.stamp == backend.devices?.stamp)
            #expect(try await registrar.register(.sample()) == id)
            #expect(harness.simulator.player(id)?.testType == 1)
            await other.shutdown(grace: .zero)
        }
    }

    @Test("A change without a field of OneSignal causes no request", arguments: Way.allCases)
    func ignoresOthers(way: Way) async throws {
        try await run(way) { harness, backend in
            var device = DeviceRecord.sample()
            _ = try await #require(backend.devices).register(device)
            let before = harness.simulator.counters
            device.attributes["battery"] = 7
            device.tags = ["vip"]
            _ = try await #require(backend.devices).register(device)
            #expect(harness.simulator.counters == before)
            device.attributes["app_version"] = "3.5"
            _ = try await #require(backend.devices).register(device)
            #expect(harness.simulator.counters != before)
        }
    }

    @Test("Removing what OneSignal has lost already is no error", arguments: Way.allCases)
    func removesLost(way: Way) async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.idPushAnswers404 = true
        try await run(way, rules) { harness, backend in
            let id = try await #require(backend.devices).register(.sample())
            harness.simulator.forget(id)
            try await backend.devices?.remove(.sample())
            #expect(try await harness.oneSignal.players.load(device: "d-1") == nil)
        }
    }

    // MARK: Tags

    @Test("More tags than the plan has are refused with the platform's words", arguments: Way.allCases)
    func planOfTags(way: Way) async throws {
        var rules = OneSignalSimulator.Rules.lenient
        rules.maximumTags = 2
        try await run(way, rules) { harness, backend in
            let device = DeviceRecord.sample(user: "u")
            let id = try await #require(backend.devices).register(device)
            try await backend.tags?.setTags(["a": 1, "b": 2], of: device)
            let error = await failure { () async throws(PushError) in
                try await backend.tags?.setTags(["c": 3], of: device)
            }
            #expect(error?.code == .invalidRequest)
            #expect(error?.message.contains("tags") == true)
            #expect(harness.simulator.tags(of: id) == ["a": "1", "b": "2"])
            try await backend.tags?.setTags(["a": nil, "c": "3"], of: device)
            #expect(harness.simulator.tags(of: id) == ["b": "2", "c": "3"])
        }
    }

    @Test("Wrong tags are found before they are accepted, each with its place", arguments: Way.allCases)
    func findsWrongTags(way: Way) async throws {
        try await run(way) { _, backend in
            let tags: JSONObject = [
                "fine": "x", "user": "x", "a/b~c": ["x": 1], "": 1, "n": nil, "inf": .double(.infinity),
                "long": .string(String(repeating: "x", count: 1025)),
            ]
            let issues = backend.tags?.issues(in: tags, of: .sample()) ?? []
            #expect(Set(issues.map(\.pointer)) == ["#/user", "#/a~1b~0c", "#/", "#/inf", "#/long"])
            #expect(backend.tags?.issues(in: ["city": "تهران", "old": nil], of: .sample()).isEmpty == true)
        }
    }

    @Test("Tags of a user that OneSignal has lost bring the user back, once")
    func lostUser() async throws {
        try await run(.users) { harness, backend in
            let device = DeviceRecord.sample(user: "u")
            _ = try await #require(backend.devices).register(device)
            try await harness.oneSignal.directory.delete(.init(externalID: "u"))
            try await backend.tags?.setTags(["city": "tehran"], of: device)
            let player = try #require(harness.simulator.players.first)
            #expect(harness.simulator.tags(of: player.id) == ["city": "tehran"])
            #expect(harness.simulator.aliases(of: player.id) == ["external_id": "u"])
        }
    }

    @Test("Devices of one user that come at once keep the user's quota of one write a second")
    func userBudget() async throws {
        try await run(.users, OneSignalSimulator.Rules(), adjust: { $0.writeSpacing = .seconds(1) }) {
            harness,
            backend in
            let devices = try #require(backend.devices)
            let errors = await withTaskGroup(of: PushError?.self) { tasks in
                for number in 0..<10 {
                    tasks.addTask {
                        await failure { () async throws(PushError) in
                            _ = try await devices.register(.sample("d-\(number)", user: "u", token: token(number)))
                        }
                    }
                }
                return await tasks.reduce(into: [PushError]()) { if let error = $1 { $0.append(error) } }
            }
            #expect(errors.isEmpty, "\(errors)")
            #expect(harness.simulator.players.count == 10)
        }
    }

    // MARK: IDPush alone

    @Test(
        "A debug build says so: the device's word goes before the backend's",
        arguments: [
            ("production", nil, 2), ("development", nil, 1), ("ad_hoc", nil, 2), ("production", "development", 1),
            ("development", "production", 2),
        ] as [(String, String?, Int)]
    )
    func testType(backend: String, device: String?, expected: Int) async throws {
        try await Harness.run { harness in
            var options = IDPushOptions.sample(harness.simulator)
            options.environment = try #require(OneSignalOptions.Environment(rawValue: backend))
            let context = BackendContext(name: "p", http: harness.transport, time: harness.time, logger: quiet)
            let idPush = try IDPushBackend(options: options, context: context)
            var record = DeviceRecord.sample()
            if let device { record.attributes["environment"] = .string(device) }
            let id = try await #require(idPush.devices).register(record)
            #expect(harness.simulator.player(id)?.testType == expected)
            await idPush.shutdown(grace: .zero)
        }
    }

    @Test("Where the state of a device is unknown, tags leave it as it is")
    func unknownStanding() async throws {
        try await run(.idPush) { harness, backend in
            let id = try await #require(backend.devices).register(.sample())
            for standing in [PlayerRecord.Subscription.unknown, .declined] {
                var record = try #require(try await harness.oneSignal.players.load(device: "d-1"))
                record.subscription = standing
                try await harness.oneSignal.players.save(record)
                harness.simulator.setSubscribed(false, id)
                try await backend.tags?.setTags(["city": "tehran"], of: .sample())
                #expect(harness.simulator.player(id)?.isSubscribed == false)
            }
        }
    }

    @Test("An edit that IDPush refuses is answered by adding the device again, once a day for each device")
    func refusedEdit() async throws {
        try await run(.idPush) { harness, backend in
            _ = try await #require(backend.devices).register(.sample())
            harness.simulator.add([
                FaultRule(match: FaultMatch(listener: "idpush"), .answer(FaultAnswer(200, "project is not active")))
            ])
            func edits() async -> Int {
                let before = harness.simulator.counters.idPushRequests
                let error = await failure { () async throws(PushError) in
                    try await backend.subscriptions?.setStatus(.unsubscribed, of: .sample())
                }
                #expect(error?.reason == "refused_by_idpush")
                return harness.simulator.counters.idPushRequests - before
            }
            #expect(await edits() == 2, "the edit, and an attempt to add")
            #expect(await edits() == 1)
            harness.time.advance(by: .seconds(86401))
            #expect(await edits() == 2)
        }
    }

    @Test("When the edit after an addition fails, only the edit is repeated")
    func halfRegistered() async throws {
        try await run(.idPush) { harness, backend in
            let devices = try #require(backend.devices)
            let edits = FaultMatch(listener: "idpush", pathPrefix: "/api/v1/device/edit", count: 1)
            harness.simulator.add([FaultRule(match: edits, .answer(FaultAnswer(503)))])
            let error = await failure { () async throws(PushError) in
                _ = try await devices.register(.sample(user: "u"))
            }
            #expect(error?.code == .unavailable)
            let before = harness.simulator.counters.idPushRequests
            let id = try await devices.register(.sample(user: "u"))
            #expect(harness.simulator.counters.idPushRequests - before == 1, "one edit")
            #expect(harness.simulator.aliases(of: id) == ["external_id": "u"])
        }
    }

    // MARK: Unreadable answers

    static let unreadable: [[UInt8]] = [
        [], Array("<html><body>504</body></html>".utf8), Array(#"{"subscriptions":[{"id":"#.utf8), Array("[]".utf8),
        Array("7".utf8), Array(#"{"id":4,"subscriptions":"x","identity":[],"success":{},"status":[]}"#.utf8),
        Array(String(repeating: "[", count: 5000).utf8), [0xFF, 0xFE, 0x00],
    ]

    @Test("An unreadable answer registers nothing and has a type", arguments: Way.allCases)
    func unreadableRegistration(way: Way) async throws {
        try await run(way) { harness, backend in
            for body in Self.unreadable {
                harness.simulator.removeFaults()
                harness.simulator.add([FaultRule(.answer(FaultAnswer(200, body: body)))])
                for user in [nil, "u"] {
                    let error = await failure { () async throws(PushError) in
                        _ = try await backend.devices?.register(.sample(user: user))
                    }
                    let isTyped = error?.code == .badAnswer || error?.reason == "subscription_pending"
                    #expect(isTyped, "\(body): \(String(describing: error))")
                }
            }
            #expect(harness.state.values.isEmpty)
        }
    }

    @Test(
        "An unreadable answer is no status, no message and no cancellation",
        arguments: [Way.users, .players]
    )
    func unreadableLooks(way: Way) async throws {
        try await run(way) { harness, backend in
            _ = try await #require(backend.devices).register(.sample(user: "u"))
            for body in Self.unreadable {
                harness.simulator.removeFaults()
                harness.simulator.add([FaultRule(.answer(FaultAnswer(200, body: body)))])
                let id = UUID().uuidString
                let state = await failure { () async throws(PushError) in
                    _ = try await backend.tracking?.state(of: id)
                }
                #expect(state?.code == .badAnswer)
                let cancelled = await failure { () async throws(PushError) in
                    let isCancelled = try await backend.cancellation?.cancel(platformID: id)
                    #expect(isCancelled == false, "a success of another type is none")
                }
                #expect(cancelled == nil || cancelled?.code == .badAnswer)
                let status = await failure { () async throws(PushError) in
                    let status = try await backend.subscriptions?.status(of: .sample(user: "u"))
                    if way == .users { #expect(status == nil) }
                }
                #expect(status == nil || status?.code == .badAnswer)
            }
        }
    }
}
