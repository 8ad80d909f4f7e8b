import Foundation
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparIDPush
@testable import ChaparIDPushSDK

/// The seed's class, over real sockets.
@Suite("IDPush: the facade", .timeLimit(.minutes(5)))
struct IDPushFacadeTests {
    @Test("A device is added, subscribed, tagged and edited")
    func actions() async throws {
        try await OneSignalBench.run { harness in
            let idPush = try harness.facade()
            idPush.setup(projectID: "  \(harness.simulator.rules.projectID)\n")
            #expect(idPush.projectID == harness.simulator.rules.projectID)
            let added = await idPush.perform(.addDevice(token: apnsToken))
            #expect(added.error == nil)
            let id = try #require(idPush.getPlayerID())
            #expect(added.data?["player_id"]?.stringValue == id)
            var player = try #require(harness.simulator.player(id))
            #expect(player.token == apnsToken && player.testType == 1 && player.isSubscribed)
            #expect(player.fields["game_version"] == "3.4.1" && player.fields["device_model"] == "iPhone14,2")
            #expect(await idPush.perform(.unsubscribe).error == nil)
            #expect(harness.simulator.player(id)?.notificationTypes == -2)
            #expect(await idPush.perform(.subscribe).error == nil)
            #expect(harness.simulator.player(id)?.notificationTypes == 1)
            #expect(await idPush.perform(.setTags(tags: ["city": "تهران", "level": 7])).error == nil)
            #expect(harness.simulator.tags(of: id) == ["city": "تهران", "level": "7"])
            #expect(await idPush.perform(.editDevice(parameters: ["language": "fa"])).error == nil)
            player = try #require(harness.simulator.player(id))
            #expect(player.fields["language"] == "fa")
            #expect(harness.simulator.counters.idPushRequests == 5)
        }
    }

    @Test("Setting tags subscribes, as the original does")
    func tagsSubscribe() async throws {
        try await OneSignalBench.run { harness in
            let idPush = try harness.facade()
            idPush.setup(projectID: harness.simulator.rules.projectID)
            _ = await idPush.perform(.addDevice(token: apnsToken))
            _ = await idPush.perform(.unsubscribe)
            _ = await idPush.perform(.setTags(tags: [:]))
            #expect(harness.simulator.players[0].isSubscribed)
        }
    }

    @Test("A blank project id changes nothing; another replaces the first", arguments: ["", "  ", "\n"])
    func setup(blank: String) async throws {
        try await OneSignalBench.run { harness in
            let printed = Recorder<String>()
            let idPush = try harness.facade { printed.add($0) }
            idPush.setup(projectID: blank)
            #expect(!idPush.isConfigured)
            #expect(printed.all.count == 1)
            #expect(await idPush.perform(.subscribe) == .init(error: .isNotConfigured, data: nil))
            idPush.setup(projectID: "first")
            idPush.setup(projectID: blank)
            #expect(idPush.isConfigured && idPush.projectID == "first")
            idPush.setup(projectID: "second")
            #expect(idPush.projectID == "second")
            #expect(harness.simulator.counters.idPushRequests == 0)
        }
    }

    @Test("An action that cannot be sent calls back once, immediately, and is printed")
    func validation() async throws {
        try await OneSignalBench.run { harness in
            let printed = Recorder<String>()
            let told = Recorder<IDPushActionError?>()
            let idPush = try harness.facade { printed.add($0) }
            idPush.perform(.subscribe) { error, data in
                #expect(data == nil)
                told.add(error)
            }
            idPush.setup(projectID: "p")
            idPush.perform(.addDevice(token: " \n")) { error, _ in told.add(error) }
            idPush.perform(.unsubscribe) { error, _ in told.add(error) }
            #expect(told.all == [.isNotConfigured, .missingDeviceToken, .missingPlayerID])
            #expect(printed.all == told.all.compactMap { $0?.description })
            #expect(harness.simulator.counters.idPushRequests == 0)
        }
    }

    @Test("The player id outlives the program: the trap of the original")
    func restart() async throws {
        try await OneSignalBench.run { harness in
            let path = FileManager.default.temporaryDirectory.appending(path: "idpush-\(UUID())/id.json").path
            defer { try? FileManager.default.removeItem(atPath: path) }
            let first = try harness.facade(store: FilePlayerIDStore(path))
            first.setup(projectID: harness.simulator.rules.projectID)
            _ = await first.perform(.addDevice(token: apnsToken))
            let again = try harness.facade(store: FilePlayerIDStore(path))
            again.setup(projectID: harness.simulator.rules.projectID)
            #expect(await again.perform(.unsubscribe).error == nil)
            #expect(again.getPlayerID() == first.getPlayerID())
            #expect(harness.simulator.players.map(\.notificationTypes) == [-2])
        }
    }

    @Test("A store that fails turns no success into an error")
    func failingStore() async throws {
        struct Broken: PlayerIDStore {
            func read() throws -> String? { throw CancellationError() }
            func write(_ playerID: String) throws { throw CancellationError() }
        }
        try await OneSignalBench.run { harness in
            let printed = Recorder<String>()
            let idPush = try harness.facade(store: Broken()) { printed.add($0) }
            idPush.setup(projectID: harness.simulator.rules.projectID)
            #expect(await idPush.perform(.addDevice(token: apnsToken)).error == nil)
            #expect(printed.all.count == 1, "told, once")
            #expect(idPush.getPlayerID() != nil, "memory has it")
        }
    }

    static let faults: [(FaultAnswer, JSONValue?)] = [
        (FaultAnswer(200, "project is not active"), ["status": 0, "message": "project is not active"]),
        (FaultAnswer(500, "oops"), ["status": 0, "message": "oops"]), (.htmlPage, nil), (FaultAnswer(204), nil),
        (FaultAnswer(200, body: Array(#"{"status":1,"pla"#.utf8)), #"{"status":1,"pla"#),
        (FaultAnswer(200, body: []), nil), (FaultAnswer(302), nil),
    ]

    @Test("An answer that is no good is handed over, and nothing is stored", arguments: faults)
    func badAnswers(answer: FaultAnswer, data: JSONValue?) async throws {
        try await OneSignalBench.run { harness in
            harness.simulator.add([FaultRule(match: FaultMatch(listener: "idpush"), .answer(answer))])
            let idPush = try harness.facade()
            idPush.setup(projectID: harness.simulator.rules.projectID)
            let result = await idPush.perform(.addDevice(token: apnsToken))
            #expect(result.error == .invalidResponse)
            if let data { #expect(result.data == data) }
            #expect(idPush.getPlayerID() == nil)
        }
    }

    @Test("No answer is an error of its own, with nothing beside it")
    func noAnswer() async throws {
        try await OneSignalBench.run { harness in
            harness.simulator.add([FaultRule(match: FaultMatch(listener: "idpush"), .end(.reset))])
            let idPush = try harness.facade()
            idPush.setup(projectID: harness.simulator.rules.projectID)
            let result = await idPush.perform(.addDevice(token: apnsToken))
            guard case .custom(let message)? = result.error else {
                Issue.record("\(result)")
                return
            }
            #expect(!message.isEmpty && result.data == nil)
        }
    }

    @Test("A cancelled action calls back once")
    func cancelled() async throws {
        try await OneSignalBench.run { harness in
            harness.simulator.add([FaultRule(match: FaultMatch(listener: "idpush"), .delay(.milliseconds(300)))])
            let idPush = try harness.facade()
            idPush.setup(projectID: harness.simulator.rules.projectID)
            let told = Recorder<IDPushActionError?>()
            let task = idPush.perform(.addDevice(token: apnsToken)) { error, _ in told.add(error) }
            task.cancel()
            await task.value
            #expect(told.all.count == 1)
        }
    }

    @Test("The seed's spellings reach a shared instance; a set-up before it counts")
    func spellings() async throws {
        try await OneSignalBench.run { harness in
            let told = Recorder<IDPushActionError?>()
            IDPush.Perform(action: .subscribe) { error, _ in told.add(error) }
            #expect(told.all == [.isNotConfigured])
            IDPush.Setup(projectID: "  ")
            IDPush.Perform(action: .subscribe) { error, _ in told.add(error) }
            #expect(told.all.last == .isNotConfigured, "a blank id sets nothing up")
            IDPush.Setup(projectID: " \(harness.simulator.rules.projectID)\n")
            IDPush.Perform(action: .subscribe) { error, data in
                #expect(data == nil)
                told.add(error)
            }
            guard case .custom(let message)?? = told.all.last else {
                Issue.record("not told that there is no instance: \(told.all)")
                return
            }
            #expect(message.contains("IDPush.shared"))
            #expect(IDPush.GetPlayerID() == nil)
            let own = try harness.facade()
            IDPush.shared = own
            defer { IDPush.shared = nil }
            #expect(own.projectID == harness.simulator.rules.projectID, "the set-up came before the instance")
            // As code written for the pod has it.
            let answer: String? = await withCheckedContinuation { continuation in
                IDPush.Perform(action: .addDevice(token: apnsToken)) { (error: IDPushActionError?, data: Any?) in
                    told.add(error)
                    continuation.resume(returning: (data as? [String: Any])?["player_id"] as? String)
                }
            }
            #expect(told.all.last == .some(nil))
            #expect(answer == harness.simulator.players[0].id)
            #expect(IDPush.GetPlayerID() == answer)
        }
    }

    @Test("Dictionaries of anything are taken, and answers of the server given, in Swift's own types")
    func anything() async throws {
        let nothing: String? = nil
        let tags: [String: Any] = [
            "city": "تهران", "level": 7, "rate": 1.5, "vip": true, "shelf": ["tea", 2], "deep": ["a": NSNull()],
            "none": nothing as Any, "some": Optional("x") as Any, "part": "abc".dropFirst(), "far": UInt64.max,
        ]
        let expected: JSONObject = [
            "city": "تهران", "level": 7, "rate": 1.5, "vip": true, "shelf": ["tea", 2], "deep": ["a": nil],
            "none": nil, "some": "x", "part": "bc", "far": "18446744073709551615",
        ]
        #expect(IDPushAction.setTags(tags: tags) == .setTags(tags: expected))
        #expect(IDPushAction.editDevice(parameters: tags) == .editDevice(parameters: expected))
        let plain = try #require(JSONValue.object(expected).plain as? [String: Any])
        #expect(plain["city"] as? String == "تهران" && plain["level"] as? Int == 7 && plain["vip"] as? Bool == true)
        #expect(plain["rate"] as? Double == 1.5 && (plain["shelf"] as? [Any])?.count == 2)
        #expect((plain["deep"] as? [String: Any])?["a"] is NSNull)
        try await OneSignalBench.run { harness in
            let idPush = try harness.facade()
            idPush.setup(projectID: harness.simulator.rules.projectID)
            _ = await idPush.perform(.addDevice(token: apnsToken))
            let own: [String: Any] = ["city": "Yazd", "level": 3]
            #expect(await idPush.perform(.setTags(tags: own)).error == nil)
            #expect(harness.simulator.tags(of: harness.simulator.players[0].id) == ["city": "Yazd", "level": "3"])
        }
    }

    @Test("Address, routes and key are the seed's")
    func literals() throws {
        #expect(playerIDKey == "IDPush_PreviousPlayerID")
        let base = IDPushClient.address
        let (add, edit) = (
            try IDPushRequest(.addDevice(token: "t"), projectID: "p", playerID: nil, facts: .phone),
            try IDPushRequest(.subscribe, projectID: "p", playerID: "42", facts: .phone)
        )
        #expect("\(base.endpoint)\(base.path(add.path))" == "https://idpush.top/api/v1/device/add")
        #expect("\(base.endpoint)\(base.path(edit.path))" == "https://idpush.top/api/v1/device/edit/42")
        let path = FileManager.default.temporaryDirectory.appending(path: "idpush-\(UUID())/id.json").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try FilePlayerIDStore(path).write("42")
        let kept = try JSONValue(parsing: Array(Data(contentsOf: URL(filePath: path))))
        #expect(kept == ["IDPush_PreviousPlayerID": "42"])
    }

    @Test("Many actions at once are each answered once")
    func concurrent() async throws {
        try await OneSignalBench.run { harness in
            let idPush = try harness.facade()
            idPush.setup(projectID: harness.simulator.rules.projectID)
            let errors = await withTaskGroup(of: IDPushActionError?.self) { tasks in
                for number in 0..<20 {
                    tasks.addTask { await idPush.perform(.addDevice(token: token(number))).error }
                }
                return await tasks.reduce(into: []) { $0.append($1) }
            }
            #expect(errors.count == 20 && errors.allSatisfy { $0 == nil })
            #expect(harness.simulator.players.contains { $0.id == idPush.playerID })
        }
    }
}
