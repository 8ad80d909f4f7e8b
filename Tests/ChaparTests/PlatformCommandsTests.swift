import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// The state that platforms keep, from the command line over a gateway to simulators on sockets.
@Suite("Platforms' topics, channels, tokens and messages, by the command line", .serialized, .timeLimit(.minutes(3)))
struct PlatformCommandsTests {
    private func run(
        _ arguments: [String],
        _ gateway: ServedGateway,
        input: String? = nil
    ) async throws -> Program.Result {
        try await Program.run(arguments + ["--url", gateway.url], input: input)
    }

    private func serving(_ body: (SandboxRig, ServedGateway, GatewayClient) async throws -> Void) async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            try await body(rig, gateway, client)
            await client.close()
        }
    }

    private func post(_ client: GatewayClient, _ path: String, _ body: JSONValue) async throws -> GatewayClient.Answer {
        try await client.post(path, body.bytes, idempotencyKey: UUID().uuidString)
    }

    @Test("backends lists abilities by the names of the API, of a file and of a gateway", .about("onesignal"))
    func abilities() async throws {
        try await serving { rig, gateway, _ in
            let commands = [["--config", rig.config], ["--url", gateway.url]]
            for address in commands {
                let lines = try await Program.run(["backends", "--json"] + address).lines
                let backends = try lines.map { try JSONValue(parsing: Array($0.utf8)) }
                let sender = try #require(backends.first { $0["kind"] == "onesignal" }, "\(address): \(lines)")
                let abilities = (sender["abilities"]?.arrayValue ?? []).compactMap(\.stringValue)
                #expect(Set(abilities).isSuperset(of: ["cancellation", "tracking"]), "\(address): \(abilities)")
                let table = try await Program.run(["backends"] + address)
                let row = table.lines.first { $0.contains(" onesignal ") }
                #expect(row?.contains("cancellation") == true && row?.contains("tracking") == true, "\(table)")
            }
        }
    }

    @Test("Devices and tokens join Google's topics, get what is sent to one, and leave", .about("fcm"))
    func googleTopics() async throws {
        try await serving { rig, gateway, client in
            let fcm = rig.sandbox.fcm
            fcm.register(tokens: ["a:APA91b1", "a:APA91b2", "a:APA91b3"])
            fcm.setDevice(FCMDevice(state: .unregistered), token: "a:gone")
            let device: JSONValue = ["user": "ali", "tokens": ["android-firebase": "a:APA91b1"]]
            #expect(try await client.put("/v1/devices/phone", device.bytes).status == 201)

            let topic = ["topics", "subscribe", "news", "--backend", "android"]
            let joined = try await run(topic + ["--device", "phone"], gateway)
            #expect(joined.status == 0 && joined.output == "news at android: 1 done, 0 refused\n", "\(joined)")
            let file = "a:APA91b2\n\n a:gone \nweb-firebase:a:APA91b3\n"
            let some = try await run(topic + ["--file", "-"], gateway, input: file)
            #expect(some.status == 4, "\(some)")
            #expect(some.errors.contains("refused: number 2: NOT_FOUND"))
            #expect(fcm.members(of: "news") == ["a:APA91b1", "a:APA91b2", "a:APA91b3"])
            let none = try await run(topic + ["--token", "a:gone", "--json"], gateway)
            #expect(none.status == 1 && none.lines.last == #"{"done":0,"refused":1}"#, "\(none)")
            #expect(none.output.contains(#""dead":true"#) && !none.output.contains("a:gone"))

            let list = try await run(["topics", "list", "phone", "--backend", "android"], gateway)
            #expect(list.lines.count == 2 && list.output.contains("android-firebase  news   "), "\(list)")
            let token = try await run(
                ["topics", "list", "--token", "-", "--backend", "android", "--json"],
                gateway,
                input: "a:APA91b2\n"
            )
            #expect(token.output.contains(#""topics":[{"name":"news""#), "\(token)")

            let message: JSONValue = ["to": ["topic": "news"], "content": ["title": "Hi"], "backend": "android"]
            let id = try #require(try await post(client, "/v1/notifications", message).json["id"]?.stringValue)
            try await Program.wait("the message to the topic") {
                let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
                return counts?["accepted_by_platform"] == 1 ? true : nil
            }
            #expect(fcm.inbox.last?.target == .topic("news"))

            let leave = ["topics", "unsubscribe", "news", "--backend", "android", "--user", "ali"]
            let left = try await run(leave, gateway)
            #expect(left.status == 0, "\(left)")
            #expect(fcm.members(of: "news") == ["a:APA91b2", "a:APA91b3"])
            let wrong = try await run(topic + ["--device", "phone", "--user", "ali"], gateway)
            #expect(wrong.status == 2 && wrong.errors.contains("Give one of --device"))
            let unable = try await run(["topics", "list", "phone", "--backend", "ios"], gateway)
            #expect(unable.status == 1 && unable.errors.contains("The backend ios (apns) keeps no topics"), "\(unable)")
        }
    }

    @Test("Google's refusals of a whole call are the answer's", .about("fcm"))
    func googleRefuses() async throws {
        try await serving { rig, _, client in
            let path = "/v1/backends/android/topics/news/subscribe"
            let listener = FCMListener.instanceID.name
            rig.sandbox.fcm.add(FaultRule(match: FaultMatch(listener: listener), .answer(FaultAnswer(429))))
            let limited = try await post(client, path, ["tokens": ["a:APA91b1"]])
            #expect(limited.status == 503 && limited.code == "rate_limited", "\(limited)")
            #expect(limited.retryAfter == .seconds(60))
            rig.sandbox.fcm.removeRules()
            rig.sandbox.fcm.add(FaultRule(match: FaultMatch(listener: listener), .answer(FaultAnswer(401))))
            let refused = try await post(client, path, ["tokens": ["a:APA91b1"]])
            #expect(refused.status == 502 && refused.code == "credentials_refused", "\(refused)")
            let name = try await post(client, "/v1/backends/android/topics/a%20b/subscribe", ["tokens": ["a:APA91b1"]])
            #expect(name.status == 422 && name.code == "invalid_request", "\(name)")
        }
    }

    @Test("Devices join Huawei's topics; its iPhones cannot", .about("hms"))
    func huaweiTopics() async throws {
        try await serving { rig, gateway, client in
            rig.sandbox.hms.setDevice(HMSDevice(), tokens: ["IQAAAACy0sampleA"])
            let path = "/v1/backends/huawei/topics/news/subscribe"
            let tokens: JSONValue = ["tokens": ["IQAAAACy0sampleA", "sim-dead-1"]]
            let joined = try await post(client, path, tokens)
            #expect(joined.json["done"] == 1, "\(joined)")
            #expect(joined.json["refused"]?.arrayValue?.first?["reason"] == "invalid token")
            #expect(rig.sandbox.hms.subscribers(of: "news") == ["IQAAAACy0sampleA"])
            let apple: JSONValue = ["tokens": [["token": "x", "service": "ios-huawei"]]]
            #expect(try await post(client, path, apple).code == "wrong_service")
            let list = try await run(["topics", "list", "--token", "IQAAAACy0sampleA", "--backend", "huawei"], gateway)
            #expect(list.output.contains("android-huawei  news   2026-01-01"), "\(list)")
            rig.sandbox.hms.add(
                FaultRule(match: FaultMatch(listener: HMSSimulator.push), .answer(FaultAnswer(200, "82000012")))
            )
            let unset = try await post(client, path, ["tokens": ["IQAAAACy0sampleA"]])
            #expect(unset.status == 502, "\(unset)")
            #expect(unset.json["detail"]?.stringValue?.contains("AppGallery") == true, "\(unset)")
        }
    }

    @Test("A channel is made, gets a broadcast, and is deleted", .about("apns"))
    func channels() async throws {
        try await serving { rig, gateway, client in
            let own = ["--backend", "ios"]
            let made = try await run(["channels", "create", "--storage", "none"] + own, gateway)
            #expect(made.status == 0, "\(made)")
            let id = try #require(made.lines.first)
            #expect(try await run(["channels", "list"] + own, gateway).lines == [id])
            let shown = try await run(["channels", "show", id] + own, gateway)
            #expect(shown.output == "\(id): keeps none\n", "\(shown)")
            let update: JSONValue = [
                "to": ["platform_ids": [.string(id)]], "backend": "ios", "content": ["title": "Goal"],
                "overrides": [
                    "apns": [
                        "headers": ["apns-push-type": "liveactivity"],
                        "payload": ["aps": ["timestamp": 1, "event": "update", "content-state": ["goals": 1]]],
                    ]
                ],
            ]
            let sent = try await post(client, "/v1/notifications", update)
            let notification = try #require(sent.json["id"]?.stringValue, "\(sent)")
            try await Program.wait("the broadcast") {
                let counts = try await client.get("/v1/notifications/\(notification)").json["counts"]
                return counts?["accepted_by_platform"] == 1 ? true : nil
            }
            #expect(rig.sandbox.apns.counters.broadcasts == 1)
            #expect(try await run(["channels", "delete", id] + own, gateway).status == 0)
            let gone = try await run(["channels", "show", id] + own, gateway)
            #expect(gone.status == 1 && gone.errors.contains("no channel of this id"), "\(gone)")
            // Ids are base64: one of 64 begins with a slash.
            let foreign = try await run(["channels", "show", "/Kc6NaY8AWigAc7wRnQXMA=="] + own, gateway)
            #expect(foreign.status == 1 && foreign.errors.contains("no channel of this id"), "\(foreign)")
            #expect(try await run(["channels", "create", "--storage", "all"] + own, gateway).status == 2)
            rig.sandbox.apns.add(FaultRule(.answer(FaultAnswer(429, "TooManyRequests"))))
            let limited = try await run(["channels", "list"] + own, gateway)
            #expect(limited.status == 75, "\(limited)")
        }
    }

    @Test("Google is asked about a token, and makes tokens of Apple's", .about("fcm"))
    func tokens() async throws {
        try await serving { rig, gateway, _ in
            rig.sandbox.fcm.register(tokens: ["a:APA91b1"])
            rig.sandbox.fcm.setDevice(FCMDevice(state: .unregistered), token: "a:gone")
            let own = ["--backend", "android"]
            let known = try await run(["tokens", "lookup", "-"] + own, gateway, input: "a:APA91b1\n")
            #expect(known.status == 0 && known.lines.contains("platform: ANDROID"), "\(known)")
            let gone = try await run(["tokens", "lookup", "a:gone"] + own, gateway)
            #expect(gone.status == 1 && gone.errors.contains("knows no such token"), "\(gone)")
            let apple = SandboxRig.token(7)
            let file = rig.folder.appending(path: "apns.txt").path
            try "\(apple)\nnot-hexadecimal\n".write(toFile: file, atomically: true, encoding: .utf8)
            let imported = try await run(
                ["tokens", "import", file, "--application", "com.example.app", "--development"] + own,
                gateway
            )
            #expect(imported.status == 4, "\(imported)")
            #expect(imported.lines == ["\(apple)\timported:APA91b\(String(apple.reversed()))"])
            #expect(imported.errors.contains("refused: number 2: INVALID_ARGUMENT"))
            #expect(imported.errors.contains("1 imported, 1 refused"))
        }
    }

    private func sent(_ client: GatewayClient, _ to: JSONObject, through backend: String) async throws -> String {
        let body: JSONValue = ["to": .object(to), "content": ["title": "Hi"], "backend": .string(backend)]
        let answer = try await post(client, "/v1/notifications", body)
        let id = try #require(answer.json["id"]?.stringValue, "\(answer)")
        try await Program.wait("the message") {
            let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
            return counts?["accepted_by_platform"] == 1 ? true : nil
        }
        return id
    }

    @Test("Chabok asks the user's devices to take a message away, by a notification or by the ids", .about("chabok"))
    func chabokRecalls() async throws {
        try await serving { rig, gateway, client in
            rig.sandbox.chabok.addInstallation(of: "u-7")
            let id = try await sent(client, ["users": ["u-7"]], through: "chabok")
            let message = try #require(rig.sandbox.chabok.messages().last?.id)
            let plain = try await run(["cancel", id], gateway)
            #expect(plain.output == "gateway: 0 cancelled, 0 in flight, 1 too late\n", "\(plain)")
            let cancelled = try await run(["cancel", id, "--platform"], gateway)
            #expect(cancelled.status == 0 && cancelled.lines.last?.contains("1 requested") == true, "\(cancelled)")
            let wish = try #require(rig.sandbox.chabok.messages().last)
            #expect(wish.user == "u-7" && wish.body["data"] == ["gw_op": "cancel", "ids": [.string(message)]])
            let all = try await post(client, "/v1/backends/chabok/messages/cancel", ["user": "u-7", "all": true])
            #expect(all.status == 200 && all.json["requested"] == true, "\(all)")
            #expect(rig.sandbox.chabok.messages().last?.body["data"] == ["gw_op": "cancelAll"])
        }
    }

    @Test("All waiting messages of a key, or without a key, are cancelled by its name", .about("apns"))
    func cancelsByKey() async throws {
        try await serving { _, gateway, client in
            let at = RFC3339.string(Date() + 7_200)
            let body: JSONValue = [
                "to": ["tokens": [["token": "abcdef01", "service": "ios-apns"]]], "content": ["title": "Hi"],
                "options": ["send_at": .string(at)],
            ]
            var id = ""
            for _ in 0..<3 {
                let answer = try await post(client, "/v1/notifications", body)
                id = try #require(answer.json["id"]?.stringValue, "\(answer)")
            }
            let other = try await run(["cancel", "--key", "shop"], gateway)
            #expect(other.status == 0 && other.output == "gateway: 0 cancelled, 0 in flight\n", "\(other)")
            let all = try await run(["cancel", "--key", ""], gateway)
            #expect(all.status == 0 && all.output == "gateway: 3 cancelled, 0 in flight\n", "\(all)")
            #expect(try await client.get("/v1/notifications/\(id)").json["status"] == "cancelled")
            let told = try await run(["cancel", "--key", "", "--json"], gateway)
            #expect(told.output == #"{"key":"","cancelled":0,"in_flight":0,"complete":true}"# + "\n", "\(told)")
            for wrong in [[], [id, "--key", "shop"], ["--key", "shop", "--platform"]] {
                #expect(try await run(["cancel"] + wrong, gateway).status == 2, "\(wrong)")
            }
        }
    }

    @Test("OneSignal says that it was too late for a message that it has sent", .about("onesignal"))
    func oneSignalCancels() async throws {
        try await serving { rig, _, client in
            let player = rig.sandbox.oneSignal.addPlayers(1)[0]
            let id = try await sent(client, ["platform_ids": [.string(player)]], through: "campaigns")
            let answer = try await client.delete("/v1/notifications/\(id)?platform=true")
            #expect(answer.status == 200 && answer.json["platform"]?["too_late"] == 1, "\(answer)")
            let message = try #require(rig.sandbox.oneSignal.messages.last?.id)
            let direct = try await post(
                client,
                "/v1/backends/campaigns/messages/cancel",
                ["ids": [.string(message)]]
            )
            #expect(direct.json["platform"]?["too_late"] == 1, "\(direct)")
        }
    }
}
