import Foundation
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparChabok

/// Installations, tags, attributes, events and reports: specs/chabok.md sections 10 to 13 and 17.
@Suite("Chabok: devices and users", .timeLimit(.minutes(1)))
struct ChabokDeviceTests {
    // MARK: Installations

    @Test("Registering twice is one request, and a new token one small one")
    func registration() async throws {
        let state = MemoryState()
        try await Harness.run(state: state) { harness in
            let installations = harness.backend.installations
            let id = try await installations.register(.sample(tags: ["gold"]))
            #expect(try await installations.register(.sample(tags: ["gold"])) == id)
            #expect(harness.calls == ["POST installations"])
            let expected = try JSONValue.parsed(
                """
                {"appId":"shop","userId":"u-1","deviceType":"ios","deviceToken":"9f3c","tokenStatus":"ALLOWED",
                "subscriptions":["default"],"clientVersion":"3.3.1","osVersion":"17.5",
                "deviceModel":"iPhone 15","timeZone":"Asia/Tehran"}
                """
            )
            #expect(harness.bodies("installations") == [expected])
            #expect(try await installations.register(.sample(token: "aa11", tags: ["gold"])) == id)
            #expect(harness.calls.last == "POST installations/updateDeviceToken")
            #expect(harness.simulator.installations()[id]?["deviceToken"] == "aa11")
            #expect(try await installations.register(.sample(user: "u-2", token: "aa11")) == id)
            #expect(harness.calls.last == "PUT installations/\(id)")
            #expect(harness.simulator.installations()[id]?["userId"] == "u-2")
            let words = harness.notices.all.map(\.name).filter { $0 == "registered" }
            #expect(words.count == 3)
        }
    }

    @Test("An installation that Chabok has forgotten is made anew", arguments: [true, false])
    func forgotten(changesOnlyToken: Bool) async throws {
        try await Harness.run { harness in
            let installations = harness.backend.installations
            let old = try await installations.register(.sample())
            harness.simulator.forget(old)
            let changed = changesOnlyToken ? DeviceRecord.sample(token: "bb22") : .sample(user: "u-9")
            let new = try await installations.register(changed)
            #expect(new != old)
            let step = changesOnlyToken ? "POST installations/updateDeviceToken" : "PUT installations/\(old)"
            #expect(harness.calls == ["POST installations", step, "POST installations"])
        }
    }

    @Test("The registry's tags are written once: a user's by the calls for tags, a guest's with the installation")
    func tagsOnce() async throws {
        try await Harness.run { harness in
            let editor = try #require(harness.backend.tags)
            let user = DeviceRecord.sample(tags: ["vip", "city:tehran", "level:1"])
            let id = try await harness.backend.installations.register(user)
            // As a gateway writes the tags of its registry.
            let tags: JSONObject = ["city": "tehran", "level": "1", "vip": "1"]
            _ = try await editor.edit(tags, of: user, as: OutboxAttempt(at: Date()))
            #expect(harness.simulator.tags(of: "u-1") == ["vip": "", "city": "tehran", "level": "1"])
            #expect(harness.simulator.installations()[id]?["tags"] == nil)
            let guest = DeviceRecord.sample("d-2", user: nil, token: "aa", tags: ["vip", "city:tehran"])
            let own = try await harness.backend.installations.register(guest)
            #expect(harness.simulator.installations()[own]?["tags"] == ["vip", "city_tehran", "CHABOK_GUEST"])
            // After the log-in the installation is no guest, and the user has the tags.
            _ = try await harness.backend.installations.register(.sample("d-2", token: "aa", tags: ["vip"]))
            #expect(harness.simulator.installations()[own]?["tags"] == [])
            #expect(harness.simulator.installations()[own]?["isGuest"] == false)
        }
    }

    @Test("Removing is done once; one that is gone is no error")
    func removal() async throws {
        try await Harness.run { harness in
            let installations = harness.backend.installations
            let id = try await installations.register(.sample())
            harness.simulator.forget(id)
            try await installations.remove(.sample())
            try await installations.remove(.sample())
            #expect(harness.calls == ["POST installations", "DELETE installations/\(id)"])
        }
    }

    @Test("A guest is registered as one, and a bad user id is refused and told")
    func guests() async throws {
        try await Harness.run { harness in
            _ = try await harness.backend.installations.register(.sample(user: nil))
            let body = try #require(harness.bodies("installations").first)
            #expect(body["userId"] == nil && body["isGuest"] == true && body["tags"] == ["CHABOK_GUEST"])
            let error = await failure { () throws(PushError) in
                _ = try await harness.backend.installations.register(.sample("d-2", user: "a#b"))
            }
            #expect(error?.reason == "bad_user")
            #expect(harness.notices.all.contains { $0.name == "registration_failed" })
        }
    }

    @Test("Tokens of a user come without placeholders and refused ones")
    func tokens() async throws {
        try await Harness.run { harness in
            let rows: [JSONObject] = [
                ["deviceType": "ios", "deviceToken": "t1", "tokenStatus": "ALLOWED"],
                ["deviceType": "android", "deviceToken": "t2"], ["deviceType": "web", "deviceToken": "t3"],
                ["deviceType": "ios", "deviceToken": "NOT_EXIST"],
                ["deviceType": "ios", "deviceToken": "t4", "tokenStatus": "DENIED"],
            ]
            for row in rows { harness.simulator.addInstallation(of: "a@b.c", row) }
            let tokens = try await harness.backend.installations.deviceTokens(ofUser: "a@b.c")
            #expect(
                tokens == [DeviceToken("t1", service: .iOSAPNs), DeviceToken("t2", service: .androidFirebase)]
            )
            #expect(try await harness.backend.installations.fetch("nobody") == nil)
        }
    }

    // MARK: Repeats

    @Test("Safe calls are repeated after Retry-After or a growing pause; calls that would count twice are not")
    func repeats() async throws {
        try await Harness.run { harness in
            let users = harness.backend.users
            harness.simulator.addInstallation(of: "u-1")
            harness.simulator.add([FaultRule(match: FaultMatch(count: 2), .answer(FaultAnswer(503)))])
            let reached = try await users.addTags(["gold"], to: "u-1")
            #expect(reached == 1)
            #expect(harness.calls.count == 3)
            harness.simulator.add([FaultRule(match: FaultMatch(count: 3), .answer(FaultAnswer(500)))])
            let fault = await failure { () throws(PushError) in _ = try await users.addTags(["x"], to: "u-1") }
            #expect(fault?.reason == "server_fault")
            #expect(harness.calls.count == 5, "one repeat for a fault of the server")
            harness.simulator.removeFaults()
            harness.simulator.add([FaultRule(match: FaultMatch(count: 1), .answer(FaultAnswer(429, retryAfter: 900)))])
            let limited = await failure { () throws(PushError) in _ = try await users.addTags(["x"], to: "u-1") }
            #expect(limited?.code == .rateLimited && limited?.retryAfter == .seconds(900))
            #expect(harness.calls.count == 6)
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .end(.reset))])
            let again = try await users.addTags(["x"], to: "u-1")
            #expect(again == 1)
            #expect(harness.calls.count == 8, "a tag may be set twice")
            harness.simulator.add([FaultRule(at: .processed, match: FaultMatch(count: 1), .end(.reset))])
            let lost = await failure { () throws(PushError) in
                try await harness.backend.tracker.track(.init("buy", by: .user("u-1")))
            }
            #expect(lost?.code == .unknownOutcome)
            #expect(harness.calls.count == 9, "an event may not")
        }
    }

    // MARK: Tags and attributes

    @Test("Six calls for tags, with names of any letters, each with the number of devices")
    func tags() async throws {
        try await Harness.run { harness in
            let users = harness.backend.users
            harness.simulator.addInstallation(of: "u/1 ü")
            harness.simulator.addInstallation(of: "u/1 ü")
            let escaped = try await users.addTag("نو/a", to: "u/1 ü")
            #expect(escaped == 2)
            let plain = try await users.addTags(["gold", "teen"], to: "u/1 ü")
            #expect(plain == 2)
            let valued = try await users.addTag("city", value: "Yazd", to: "u/1 ü")
            #expect(valued == 2)
            #expect(harness.simulator.tags(of: "u/1 ü") == ["نو/a": "", "gold": "", "teen": "", "city": "Yazd"])
            let unescaped = try await users.removeTag("نو/a", of: "u/1 ü")
            #expect(unescaped == 2)
            let fewer = try await users.removeTags(["gold"], of: "u/1 ü")
            #expect(fewer == 2)
            let unvalued = try await users.removeValueTag("city", of: "u/1 ü")
            #expect(unvalued == 2)
            #expect(harness.simulator.tags(of: "u/1 ü") == ["teen": ""])
            let left = try await harness.backend.installations.tags(ofUser: "u/1 ü")
            #expect(left == ["teen"])
            #expect(harness.calls[0] == "GET installations/addTag/u%2F1%20%C3%BC/%D9%86%D9%88%2Fa")
        }
    }

    @Test("A gateway's tags become tags, tags with values, removals and attributes")
    func edit() async throws {
        try await Harness.run { harness in
            let editor = try #require(harness.backend.tags)
            harness.simulator.addInstallation(of: "u-1")
            let tags: JSONObject = ["gold": true, "city": "Yazd", "age": 41, "old": nil, "attributes": ["lvl": 3]]
            #expect(editor.issues(in: tags, of: .sample()).isEmpty)
            let answer = try await editor.edit(tags, of: .sample(), as: OutboxAttempt(at: Date()))
            #expect(answer == ["devices": 1])
            #expect(harness.simulator.tags(of: "u-1") == ["gold": "", "city": "Yazd", "age": "41"])
            #expect(harness.bodies("installations/attributes") == [["userId": "u-1", "attributes": ["lvl": 3]]])
            #expect(harness.bodies("installations/removeValueTag") == [["userId": "u-1", "tag": "old"]])
            let wrong: JSONObject = ["list": ["a"], "attributes": ["x": ["y": 1]]]
            #expect(editor.issues(in: wrong, of: .sample()).map(\.pointer) == ["#/list", "#/attributes/x"])
            #expect(editor.issues(in: [:], of: .sample(user: nil)).map(\.code) == ["user_missing"])
        }
    }

    // MARK: Events

    @Test("2,500 events are three requests, and a failing one says which it held")
    func bulk() async throws {
        try await Harness.run { harness in
            let at = Date(millisecondsSince1970: 1_767_225_600_000)
            let events = (0..<2_500).map { number in
                ChabokTracker.Behaviour(
                    "add",
                    by: .installation("a1b2"),
                    at: at,
                    data: ["sku": .integer(Int64(number))]
                )
            }
            let result = try await harness.backend.tracker.track(events)
            #expect(result.accepted == 2_500 && result.failures.isEmpty)
            let bodies = harness.bodies("installations/trackBulk")
            #expect(bodies.map { $0.arrayValue?.count } == [1000, 1000, 500])
            let first: JSONValue = [
                "eventName": "add", "installationId": "a1b2", "eventTime": 1_767_225_600_000, "eventData": ["sku": 0],
            ]
            #expect(bodies[0].arrayValue?.first == first)
            harness.simulator.add([FaultRule(match: FaultMatch(requests: 2...2), .answer(FaultAnswer(400)))])
            let partial = try await harness.backend.tracker.track(events)
            #expect(partial.accepted == 1_500)
            #expect(partial.failures.map(\.range) == [1000..<2000])
        }
    }

    @Test("Purchases have a name and revenue, revenue alone has no name")
    func revenue() async throws {
        try await Harness.run { harness in
            let tracker = harness.backend.tracker
            try await tracker.trackPurchase(.init("renew", by: .user("u-1")), revenue: 150_000, currency: "IRR")
            try await tracker.trackRevenue(1.5, by: .installation("i1"))
            #expect(
                harness.bodies("installations/trackPurchase")
                    == [["eventName": "renew", "userId": "u-1", "revenue": 150_000, "currency": "IRR"]]
            )
            #expect(harness.bodies("installations/trackRevenue") == [["installationId": "i1", "revenue": 1.5]])
            let bad = await failure { () throws(PushError) in
                try await tracker.track(.init("x", by: .user("u"), data: ["deep": ["a": 1]]))
            }
            #expect(bad?.code == .invalidRequest)
        }
    }

    @Test(
        "A click comes back to the event stream, and goes on to Chabok where that is wanted",
        arguments: [true, false]
    )
    func clicks(forwards: Bool) async throws {
        try await Harness.run(adjust: { $0.forwardsClicks = forwards }) { harness in
            let id = harness.simulator.addInstallation(of: "u-1")
            let at = Date(millisecondsSince1970: 1_767_225_600_000)
            let read = try await harness.backend.tracker.click(
                ["message": ["id": "m7", "trackId": "t", "data": ["order": 41]]],
                actionIdentifier: "map",
                installation: id,
                user: "u-1",
                at: at
            )
            #expect(read.action == .button("map") && read.customData == ["order": 41])
            let event = harness.bodies("installations/events").first?["eventData"]
            let expected: JSONValue = [
                [
                    "type": 1, "actionType": "ACTION_TAKEN", "msgId": "m7", "trackId": "t", "actionId": "map",
                    "actionTs": 1_767_225_600_000,
                ]
            ]
            if forwards { #expect(event == expected) } else { #expect(harness.calls.isEmpty) }
            #expect(await harness.events().contains(.messageReceived(read)))
        }
    }

    @Test("A click tells what the device shows, by the client's rules or the app's own", arguments: [true, false])
    func display(isOverridden: Bool) async throws {
        try await Harness.run(
            display: isOverridden ? ChabokDisplayPolicy { ChabokDisplayPlan(body: $0["id"]?.stringValue) } : .init()
        ) { harness in
            let reader = try #require(harness.backend.clicks)
            let at = Date(millisecondsSince1970: 1_767_225_600_000)
            func shown(_ payload: JSONObject) async throws -> JSONValue? {
                try await reader.read(ReportedClick(payload, action: nil, at: at)).notification["display"]
            }
            let message: JSONObject = ["id": "m1", "content": "Hi", "channel": "news", "notification": ["title": "T"]]
            let plain: JSONValue = ["title": "T", "body": "Hi", "group": "news"]
            #expect(try await shown(["message": .object(message)]) == (isOverridden ? ["body": "m1"] : plain))
            var silent = message
            silent["silent"] = true
            #expect(try await shown(["message": .object(silent)]) == (isOverridden ? ["body": "m1"] : nil))
            #expect(try await shown(["aps": ["alert": "Hi"]]) == nil, "the system shows it")
        }
    }

    @Test("Wishes by channel travel to the installation, and what is not named stays")
    func channelSettings() async throws {
        try await Harness.run { harness in
            let installations = harness.backend.installations
            let id = harness.simulator.addInstallation(of: "u-1")
            try await installations.setChannels(["news": .init(sound: "bell.caf"), "ads": .init(alert: false)], of: id)
            try await installations.setChannels(["news": .init(sound: "")], of: id)
            let found = try #require(try await installations.fetch(id))
            #expect(found.channels == ["news": .init(sound: ""), "ads": .init(alert: false)])
            let body = harness.bodies("installations/\(id)").last
            #expect(body == ["notificationSettings": ["ads": ["alert": false], "news": ["alert": true, "sound": ""]]])
            let error = await failure { () async throws(PushError) in
                try await installations.setChannels([:], of: "nobody")
            }
            #expect(error?.reason == "unknown_installation")
        }
    }

    @Test("Attributes of one installation change one by one, and numbers are added to")
    func attributeChanges() async throws {
        try await Harness.run { harness in
            let id = harness.simulator.addInstallation(of: "u-1")
            let users = harness.backend.users
            try await users.setAttributes(["level": 1, "old": "x", "shelf": ["tea"]], of: .installation(id))
            let birthday = Date(timeIntervalSince1970: 0)
            try await users.update(
                [
                    "city": .set("تهران"), "born": .setDate(birthday), "old": .unset, "shelf": .add(["saffron"]),
                ],
                of: id
            )
            try await users.update(["shelf": .remove(["tea"])], of: id)
            try await users.increment(["level": 2, "visits": 1], of: id)
            let info = try #require(try await harness.backend.installations.fetch(id)?.raw["userInfo"])
            let expected: JSONValue = [
                "level": 3, "shelf": ["saffron"], "city": "تهران", "born": "1970-01-01T00:00:00.000Z", "visits": 1,
            ]
            #expect(info == expected)
            #expect(
                harness.bodies("installations/userInfo").first == [
                    "installationId": .string(id), "data": ["born": "1970-01-01T00:00:00.000Z", "city": "تهران"],
                    "__meta": [
                        "keys": [
                            "born": ["type": "date"], "old": ["operation": "unset"],
                            "shelf": ["type": "array", "operation": "addToArray", "value": ["saffron"]],
                        ]
                    ],
                ]
            )
            let wrong = await failure { () async throws(PushError) in
                try await users.update(["a": .set(["b": 1])], of: id)
            }
            #expect(wrong?.reason == "wrong_type")
        }
    }

    @Test("A gateway's clicks are read, found by device, told and forwarded; wrong contexts are refused")
    func reportedClicks() async throws {
        try await Harness.run(adjust: { $0.forwardsClicks = true }) { harness in
            let reader = try #require(harness.backend.clicks)
            let id = try await harness.backend.installations.register(.sample())
            let at = Date(millisecondsSince1970: 1_767_225_600_000)
            let payload: JSONObject = ["message": ["id": "m7", "data": ["order": 41]]]
            let click = ReportedClick(payload, action: "map", device: "d-1", at: at)
            let taken = try await reader.read(click)
            #expect(
                taken.receipt
                    == DeliveryReceipt(.opened, platformID: "m7", token: "user:u-1", reason: "action_taken", at: at)
            )
            #expect(taken.notification["action_id"] == "map" && taken.notification["custom_data"] == ["order": 41])
            if case .success? = taken.forwarding {} else { Issue.record("not forwarded") }
            let body = try #require(harness.bodies("installations/events").first)
            #expect(body["installationId"] == .string(id) && body["userId"] == "u-1" && body["deviceType"] == "ios")
            let context: JSONObject = ["origin": "local", "os_major": 9, "app_state": "foreground"]
            let old = try await reader.read(ReportedClick(payload, action: nil, at: at, context: context))
            #expect(old.receipt?.event == .opened && old.notification["arrival"]?["is_click"] == true)
            guard case .failure(let missing)? = old.forwarding else {
                Issue.record("a click of an unknown installation was forwarded")
                return
            }
            #expect(missing.reason == "installation_missing")
            let shown = try await reader.read(ReportedClick(payload, action: nil, at: at))
            #expect(shown.receipt?.event == .delivered && shown.notification["arrival"] == nil)
            for context: JSONObject in [
                ["origin": "above"], ["origin": "local"], ["origin": "local", "os_major": 9, "app_state": "x"],
                ["x": 1],
            ] {
                let error = await failure { () throws(PushError) in
                    _ = try await reader.read(ReportedClick(payload, action: nil, at: at, context: context))
                }
                #expect(error?.reason == "bad_context")
            }
            harness.simulator.add([FaultRule(.answer(FaultAnswer(400)))])
            let refused = try await reader.read(click)
            if case .failure(let error)? = refused.forwarding {
                #expect(error.code == .invalidRequest)
            } else {
                Issue.record("a refusal is told")
            }
        }
    }

    @Test("An app's report to the gateway becomes an event of the installation")
    func reports() async throws {
        try await Harness.run { harness in
            let events = try #require(harness.backend.events)
            let id = try await harness.backend.installations.register(.sample())
            #expect(try events.platformID(in: ["message": ["id": "m7"]]) == "m7")
            #expect(try events.platformID(in: ["aps": ["alert": "B"]]) == nil)
            #expect(throws: PushError.self) { try events.platformID(in: ["message": ["content": "no id"]]) }
            try await events.report(.opened, platformID: "m7", device: .sample())
            let body = try #require(harness.bodies("installations/events").first)
            #expect(body["installationId"] == .string(id) && body["userId"] == "u-1" && body["deviceType"] == "ios")
            #expect(body["eventData"]?.arrayValue?.first?["actionType"] == "OPENED")
            let stranger = await failure { () throws(PushError) in
                try await events.report(.opened, platformID: "m7", device: .sample("d-9"))
            }
            #expect(stranger?.reason == "not_registered")
        }
    }

    // MARK: Reports

    @Test("A message's state follows what devices did, and its time")
    func status() async throws {
        try await Harness.run(.demonstration) { harness in
            let backend = harness.backend
            let life = PushNotification(body: "B", timeToLive: .seconds(60))
            let id = try #require(await backend.send(life, to: [.user("a")])[0].acceptance?.platformID)
            #expect(try await backend.messages.state(of: id) == .acceptedByPlatform)
            try await harness.time.sleep(for: .seconds(61))
            #expect(try await backend.messages.state(of: id) == .expired)
            harness.simulator.mark(id, "delivered", by: "a")
            #expect(try await backend.messages.state(of: id) == .delivered)
            harness.simulator.mark(id, "dismiss", by: "a")
            #expect(try await backend.messages.status(of: id)?.state == .dismissed)
            harness.simulator.mark(id, "seen", by: "a")
            #expect(try await backend.messages.state(of: id) == .opened)
            #expect(try await backend.messages.state(of: "m999") == nil)
        }
        let odd = ChabokMessages.Status(
            ["seen": ["a", 7, ["userId": "b"], ["deviceId": "c"], ["at": 1]]],
            now: Date()
        )
        #expect(odd.seen == ["a", "7", "b", "c", #"{"at":1}"#])
    }

    @Test("The report of uninstalled devices is read page by page, and backwards it is refused")
    func uninstalls() async throws {
        try await Harness.run { harness in
            harness.simulator.addUninstalls(
                (0..<7).map { number -> JSONObject in
                    [
                        "time": .string("2026-01-0\(number + 1)T22:30:18.148Z"),
                        "installationId": .string("i\(number)"),
                        "deviceType": "android", "userId": "u",
                    ]
                }
            )
            let from = Date(timeIntervalSince1970: 1_767_000_000)
            let to = Date(timeIntervalSince1970: 1_768_000_000)
            let found = try await harness.backend.messages.uninstalls(from: from, to: to, churnOnly: true, page: 3)
            #expect(found.map(\.installation) == (0..<7).map { "i\($0)" })
            #expect(harness.simulator.requests.map { $0.query["offset"] } == ["0", "3", "6"])
            #expect(harness.simulator.requests.allSatisfy { $0.query["type"] == "churn" })
            let error = await failure { () throws(PushError) in
                _ = try await harness.backend.messages.uninstalls(from: to, to: from)
            }
            #expect(error?.reason == "bad_span")
        }
    }

    @Test("A report that never ends is given up, whatever its rows are")
    func endlessReport() async throws {
        let rows = Array(repeating: "{}", count: 5_000).joined(separator: ",")
        let page = Array(#"{"count":9223372036854775807,"data":[\#(rows)]}"#.utf8)
        let transport = ScriptedTransport { _ in .success(HTTPAnswer(status: 200, body: page)) }
        var options = ChabokOptions(appID: "shop", environment: .sandbox, accessToken: Secret("t"))
        options.requestsPerSecond = 10_000
        let context = BackendContext(name: "chabok", http: transport, time: InstantTime(), logger: quiet)
        let backend = try ChabokBackend(options: options, context: context)
        let error = await failure { () throws(PushError) in
            _ = try await backend.messages.uninstalls(from: .distantPast, to: Date())
        }
        #expect(error?.reason == "report_too_large")
        #expect(transport.calls.count <= 21, "pages beyond the most rows")
        await backend.shutdown(grace: .zero)
    }

    @Test("An id that names a step of the path causes no request", arguments: ["", ".", ".."])
    func steps(word: String) async throws {
        let transport = ScriptedTransport()
        let options = ChabokOptions(appID: "shop", environment: .sandbox, accessToken: Secret("t"))
        let context = BackendContext(name: "chabok", http: transport, time: InstantTime(), logger: quiet)
        let backend = try ChabokBackend(options: options, context: context)
        let errors = [
            await failure { () throws(PushError) in _ = try await backend.users.addTag(word, to: "ali") },
            await failure { () throws(PushError) in _ = try await backend.users.removeTag("vip", of: word) },
            await failure { () throws(PushError) in _ = try await backend.messages.requestCode(for: word) },
        ]
        #expect(errors.allSatisfy { $0?.reason == "bad_path_segment" } && transport.calls.isEmpty)
        await backend.shutdown(grace: .zero)
    }

    @Test("A code is asked for and verified")
    func verification() async throws {
        try await Harness.run { harness in
            let isSent = try await harness.backend.messages.requestCode(for: "98912")
            #expect(isSent)
            let isRight = try await harness.backend.messages.verify("4410", of: "98912")
            #expect(isRight)
            let isWrongTaken = try await harness.backend.messages.verify("1", of: "98912")
            #expect(isWrongTaken == false)
        }
    }
}
