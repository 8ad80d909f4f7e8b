import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// gorush's requests, unchanged, over real sockets: each test names the row of the checklist in specs/gorush.md that it
/// covers.
///
/// The rows about `init --from` and OneSignal's export are in `GorushTests` and `OneSignalDevicesTests`.
@Suite("gorush's door over sockets", .timeLimit(.minutes(3)), .about("gorush", "apns", "fcm", "hms"))
struct GorushDoorTests {
    /// A gateway with the door, and curl as its caller.
    struct Rig {
        let rig: SandboxRig
        let url: String

        struct Answer {
            var status: Int
            var head: String
            var body: String
            var json: JSONValue { (try? JSONValue(parsing: Array(body.utf8))) ?? .null }
            var logs: [JSONValue] { json["logs"]?.arrayValue ?? [] }
        }

        /// Calls a path with curl; the body goes as curl sends one, with the type of a form.
        func curl(_ path: String, _ body: String? = nil, _ options: String = "") async throws -> Answer {
            let file = rig.folder.appending(path: "body-\(UUID().uuidString)")
            if let body { try body.write(to: file, atomically: true, encoding: .utf8) }
            let data = body == nil ? "" : "--data-binary @\(file.path)"
            let script = "curl -s -i --max-time 60 \(options) \(data) '\(url)\(path)'"
            let text = try await Script.run(script, in: rig.folder, path: "/usr/bin:/bin")
            let parts = text.replacing("\r\n", with: "\n").split(
                separator: "\n\n",
                maxSplits: 1,
                omittingEmptySubsequences: false
            )
            let head = String(parts[0])
            let status = head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            return Answer(status: status, head: head, body: parts.count > 1 ? String(parts[1]) : "")
        }

        func push(_ entries: String, _ options: String = "") async throws -> Answer {
            try await curl("/gorush/api/push", #"{"notifications":[\#(entries)]}"#, options)
        }
    }

    private static let section = """
        gorush:
          prefix: /gorush
          ios: { production: ios, development: ios-dev, default: production }
          android: android
          huawei: huawei

        """

    /// Runs `body` with a gateway whose configuration has the door, changed by `adjust`.
    private static func run(
        _ more: String = "",
        _ section: String = section,
        configuration: Sandbox.Configuration = Sandbox.Configuration(),
        _ body: (Rig, ServedGateway) async throws -> Void
    ) async throws {
        try await SandboxRig.run(configuration) { rig in
            try door(rig, section)
            try rig.append(more)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            try await body(Rig(rig: rig, url: gateway.url), gateway)
        }
    }

    /// Writes the section, and a second backend for Apple's development host.
    private static func door(_ rig: SandboxRig, _ section: String) throws {
        var text = try String(contentsOfFile: rig.config, encoding: .utf8)
        text = text.replacing(#/(?m)^gorush:.*\n/#, with: "")
        let own = try #require(text.firstMatch(of: #/(?m)^  ios:\n((?:    .*\n)+)/#))
        let apns = rig.sandbox.apns
        let development = String(own.output.1)
            .replacing("production", with: "development", maxReplacements: 1)
            .replacing(apns.url(.production), with: apns.url(.development))
            .replacing(apns.url(.productionManagement), with: apns.url(.developmentManagement))
        text = text.replacing(own.output.0, with: own.output.0 + "  ios-dev:\n" + development)
        try (text + section).write(toFile: rig.config, atomically: true, encoding: .utf8)
    }

    private static func wait(_ what: String, _ condition: () throws -> Bool) async throws {
        try await Program.wait(what) { try condition() ? true : nil }
    }

    @Test("Row 1: iOS, Android and Huawei in one request, once each, and still there after a kill right after the 200")
    func first() async throws {
        try await SandboxRig.run { rig in
            try Self.door(rig, Self.section)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let own = Rig(rig: rig, url: gateway.url)
            let answer = try await own.push(
                #"""
                {"tokens":["token_a","token_b"],"platform":2,"message":"Hello World Android!","title":"Gorush with Android"},
                {"tokens":["\#(SandboxRig.token(1))"],"platform":1,"message":"Hello World iOS!","title":"Gorush with iOS"},
                {"tokens":["h1"],"platform":3,"message":"Hello World Huawei!","title":"Gorush with HMS"}
                """#
            )
            gateway.child.kill()
            #expect(answer.status == 200 && answer.body == #"{"counts":4,"logs":[],"success":"ok"}"#)
            #expect(answer.head.lowercased().contains("x-gorush-version: "))
            let second = try await rig.serve()
            defer { second.child.kill() }
            let box = rig.sandbox
            try await Self.wait("the messages") {
                box.fcm.inbox.count >= 2 && box.apns.inbox.count >= 1 && box.hms.inbox().count >= 1
            }
            #expect(box.fcm.inbox.filter { !$0.isDuplicate }.count == 2)
            let shown = try JSONValue(parsing: box.apns.inbox[0].payload)["aps"]?["alert"]
            #expect(shown == ["title": "Gorush with iOS", "body": "Hello World iOS!"])
        }
    }

    @Test("Rows 2, 3, 4: the refusals of a body, names in capitals without a content type, and unknown platforms")
    func bodies() async throws {
        try await Self.run { own, _ in
            for body in ["{}", #"{"notifications":null}"#, "text", #"{"notifications":[{"mutable_content":1}]}"#] {
                let answer = try await own.curl("/gorush/api/push", body)
                #expect(answer.status == 400, "\(body)")
                #expect(answer.body == #"{"code":400,"message":"Missing notifications field."}"#, "\(body)")
            }
            #expect(
                try await own.push("").body == #"{"code":400,"message":"Notifications field is empty."}"#
            )
            let many = Array(repeating: "{}", count: 101).joined(separator: ",")
            let words = "Number of notifications(101) over limit(100)"
            #expect(try await own.push(many).body == #"{"code":400,"message":"\#(words)"}"#)
            let capitals = #"{"Tokens":["cap"],"Platform":2,"Message":"m","more":[1]}"#
            let taken = try await own.push(capitals, "-H 'Content-Type:'")
            #expect(taken.body == #"{"counts":1,"logs":[],"success":"ok"}"#)
            for entry in [#"{"tokens":["x"],"platform":9}"#, #"{"tokens":["x"]}"#] {
                let answer = try await own.push(entry)
                #expect(answer.status == 200 && answer.json["counts"] == 0 && answer.logs.count == 1, "\(answer.body)")
            }
        }
    }

    @Test("Rows 5, 6: sync tells each failure once with the platform's word, and waits no longer than it may")
    func sync() async throws {
        let section = Self.section + "  sync: true\n  sync_timeout: 2\n"
        var configuration = Sandbox.Configuration()
        configuration.apns.rules.magicDelay = .seconds(20)
        try await Self.run("", section, configuration: configuration) { own, _ in
            let dead = SandboxRig.token(1, prefix: "0410")
            let answer = try await own.push(
                #"""
                {"notif_id":"n","tokens":["\#(SandboxRig.token(2))","\#(dead)"],"platform":1,"message":"m"},
                {"tokens":["good","sim-unregistered-1"],"platform":2,"message":"m"},
                {"tokens":["h1","sim-dead-1"],"platform":3,"message":"m"}
                """#
            )
            #expect(answer.json["counts"] == 6 && answer.logs.count == 3, "\(answer.body)")
            let apple = answer.logs.first { $0["platform"] == "ios" }
            #expect(apple?["token"] == .string(dead) && apple?["error"] == "Unregistered" && apple?["notif_id"] == "n")
            #expect(answer.logs.contains { $0["platform"] == "android" && $0["error"] == "UNREGISTERED" })
            // The receipt of Huawei's partial success: the refused one is logged, the accepted one goes out once.
            #expect(answer.logs.contains { $0["platform"] == "huawei" && $0["token"] == "sim-dead-1" })
            #expect(own.rig.sandbox.hms.inbox().filter { $0.token == "h1" }.count == 1)
            let start = ContinuousClock.now
            let slow = try await own.push(
                #"{"tokens":["\#(SandboxRig.token(3, prefix: "5109"))"],"platform":1,"message":"m"}"#
            )
            let span = start.duration(to: .now)
            #expect(span > .seconds(1.5) && span < .seconds(12), "\(span)")
            #expect(slow.json["counts"] == 1 && slow.logs.isEmpty)
            #expect(slow.head.lowercased().contains("x-chapar-pending: 1"), "\(slow.head)")
        }
    }

    @Test("Rows 7, 8: many tokens, tokens and a topic, a topic, a condition, and data to a topic")
    func audiences() async throws {
        try await Self.run { own, _ in
            let tokens = (0..<600).map { "\"many-\($0)\"" }.joined(separator: ",")
            #expect(try await own.push(#"{"tokens":[\#(tokens)],"platform":2,"message":"m"}"#).json["counts"] == 600)
            let half = (0..<500).map { "\"half-\($0)\"" }.joined(separator: ",")
            let both = #"{"tokens":[\#(half)],"topic":"beside","platform":2,"message":"m"}"#
            #expect(try await own.push(both).json["counts"] == 501)
            let topic = #"{"topic":"/topics/x","platform":2,"data":{"k":"v"}}"#
            #expect(try await own.push(topic).json["counts"] == 1)
            let condition = #"{"condition":"'a' in topics && 'b' in topics","platform":2,"message":"m"}"#
            #expect(try await own.push(condition).json["counts"] == 0)
            let fcm = own.rig.sandbox.fcm
            try await Self.wait("the messages") { fcm.inbox.count == 1103 }
            let toTopic = fcm.inbox.first { $0.target == .topic("x") }
            #expect(toTopic?.message["data"]?["k"] == "v")
            #expect(fcm.inbox.contains { $0.target == .topic("beside") })
            #expect(fcm.inbox.contains { $0.target == .condition("'a' in topics && 'b' in topics") })
        }
    }

    @Test("Row 9: a thousand entries for Apple's two hosts, interleaved, each at its host")
    func hosts() async throws {
        try await Self.run { own, _ in
            for round in 0..<10 {
                let entries = (0..<100).map { place in
                    let number = round * 100 + place
                    let host = number % 2 == 0 ? "production" : "development"
                    let token = SandboxRig.token(number, prefix: number % 2 == 0 ? "aa" : "dd")
                    return #"{"tokens":["\#(token)"],"platform":1,"\#(host)":true,"message":"m"}"#
                }
                let answer = try await own.push(entries.joined(separator: ","))
                #expect(answer.json["counts"] == 100 && answer.logs.isEmpty, "\(answer.body)")
            }
            let apns = own.rig.sandbox.apns
            try await Self.wait("the messages") { apns.inbox.count == 1000 }
            for push in apns.inbox {
                #expect((push.environment == .production) == push.token.hasPrefix("aa"))
            }
        }
    }

    @Test(
        "Rows 10, 11, 12: alert, badge, expiration, priority, push type, sound and Live Activities as Apple gets them"
    )
    func apple() async throws {
        try await Self.run { own, _ in
            let apns = own.rig.sandbox.apns
            var number = 0
            func send(_ members: String) async throws -> (aps: JSONValue, push: APNsDelivery) {
                number += 1
                let token = SandboxRig.token(number)
                let answer = try await own.push(#"{"tokens":["\#(token)"],"platform":1,\#(members)}"#)
                #expect(answer.logs.isEmpty, "\(members): \(answer.body)")
                let push = try await Program.wait(members) { apns.inbox.first { $0.token == token } }
                return (try JSONValue(parsing: push.payload)["aps"] ?? .null, push)
            }
            let subtitle = try await send(#""message":"m","alert":{"subtitle":"s"}"#)
            #expect(subtitle.aps["alert"] == ["subtitle": "s", "body": "m"])
            let plain = try await send(#""message":"m","badge":0,"thread-id":"t","url-args":["u"]"#)
            #expect(plain.aps["badge"] == 0 && plain.aps["thread-id"] == "t" && plain.aps["url-args"] == ["u"])
            #expect(plain.push.header("apns-priority") == "10" && plain.push.header("apns-push-type") == "alert")
            #expect(try await send(#""message":"m","expiration":0"#).push.header("apns-expiration") == "0")
            #expect(try await send(#""message":"m","priority":"normal""#).push.header("apns-priority") == "5")
            #expect(try await send(#""message":"m","priority":"high""#).push.header("apns-priority") == "10")
            let voip = try await send(#""message":"m","push_type":"voip","topic":"\#(Sandbox.topic).voip""#)
            #expect(voip.push.header("apns-push-type") == "voip" && voip.push.topic == Sandbox.topic + ".voip")
            let sound = try await send(#""message":"m","name":"bell","volume":0.5"#)
            #expect(sound.aps["sound"] == ["critical": 1, "name": "bell", "volume": 0.5])
            let background = try await send(#""content_available":true,"data":{"n":9007199254740993}"#)
            #expect(background.push.header("apns-push-type") == "background")
            #expect(try JSONValue(parsing: background.push.payload)["n"] == 9_007_199_254_740_993)
            let topic = Sandbox.topic + ".push-type.liveactivity"
            let activity =
                #""push_type":"liveactivity","topic":"\#(topic)","content-state":{"s":1},"timestamp":1700000000"#
            let update = try await send(activity + #","event":"update""#)
            #expect(update.aps["event"] == "update" && update.aps["content-state"] == ["s": 1])
            #expect(update.push.topic == topic && update.push.header("apns-push-type") == "liveactivity")
            let start = try await send(
                activity + #","event":"start","attributes-type":"A","attributes":{"x":1},"title":"t","message":"m""#
            )
            #expect(start.aps["attributes-type"] == "A" && start.aps["alert"] == ["title": "t", "body": "m"])
        }
    }

    @Test("Rows 13 to 17: Apple's and the web's blocks under platform 2, digits, dry runs, and the older fields")
    func google() async throws {
        try await Self.run { own, _ in
            let fcm = own.rig.sandbox.fcm
            func send(_ token: String, _ members: String) async throws -> JSONValue {
                let answer = try await own.push(#"{"tokens":["\#(token)"],"platform":2,\#(members)}"#)
                #expect(answer.logs.isEmpty, "\(members): \(answer.body)")
                return try await Program.wait(members) { fcm.inbox.first { $0.target == .token(token) }?.message }
            }
            let blocks = try await send(
                "any",
                #""message":"m","content_available":true,"apns":{"payload":{"aps":{"badge":7}}},"webpush":{"headers":{"Urgency":"high"}}"#
            )
            #expect(blocks["apns"]?["payload"]?["aps"]?["badge"] == 7)
            #expect(blocks["apns"]?["payload"]?["aps"]?["content-available"] == 1)
            #expect(blocks["webpush"]?["headers"]?["Urgency"] == "high")
            // gorush's four weeks, less the time that the message waited here.
            let lifetimes = [blocks["webpush"]?["headers"]?["TTL"], blocks["android"]?["ttl"]].compactMap {
                $0?.stringValue.flatMap { Int($0.filter(\.isNumber)) }
            }
            #expect(lifetimes.contains { (2_419_140...2_419_200).contains($0) }, "\(lifetimes)")
            let data = try await send("digits", #""data":{"n":9007199254740993}"#)
            #expect(data["data"]?["n"] == "9007199254740993" && data["android"]?["priority"] == "NORMAL")
            let older = try await send(
                "older",
                ##""message":"m","notification":{"icon":"i","color":"#112233","sound":"s","android_channel_id":"c"}"##
            )
            let shown = older["android"]?["notification"]
            #expect(shown?["icon"] == "i" && shown?["color"] == "#112233")
            #expect(shown?["sound"] == "s" && shown?["channel_id"] == "c")
            let dry = try await own.push(#"{"tokens":["dry"],"platform":2,"message":"m","dry_run":true}"#)
            #expect(dry.json["counts"] == 1 && dry.logs.isEmpty, "\(dry.body)")
            _ = try await send("after", #""message":"m""#)
            #expect(!fcm.inbox.contains { $0.target == .token("dry") })
            let unknown = try await own.push(
                #"{"tokens":["u"],"platform":2,"message":"m","android":{"prioryti":"high"}}"#
            )
            #expect(unknown.logs.first?["error"]?.stringValue?.contains("unknown_override") == true, "\(unknown.body)")
        }
    }

    @Test("Row 18: Huawei's own fields as given, and an app's secret nowhere")
    func huawei() async throws {
        try await Self.run { own, gateway in
            let hms = own.rig.sandbox.hms
            let answer = try await own.push(
                #"""
                {"tokens":["hw1"],"platform":3,"huawei_notification":{"title":"T","body":"B","importance":"HIGH"},
                "huawei_data":"{\"k\":1}","huawei_ttl":"600s","bi_tag":"b","app_id":"1","app_secret":"planted-secret"},
                {"tokens":["hw2"],"platform":3,"title":"T","message":"m"}
                """#
            )
            #expect(answer.json["counts"] == 2 && answer.logs.isEmpty, "\(answer.body)")
            try await Self.wait("the messages") { hms.inbox().count == 2 }
            let first = try JSONValue(
                parsing: Array(try #require(hms.inbox().first { $0.token == "hw1" }).message.utf8)
            )
            #expect(first["data"] == #"{"k":1}"# && first["android"]?["bi_tag"] == "b")
            let ttl = first["android"]?["ttl"]?.stringValue.flatMap { Int($0.dropLast()) }
            #expect((590...600).contains(ttl ?? 0), "\(first.text)")
            let shown = first["android"]?["notification"]
            #expect(shown?["importance"] == "HIGH" && shown?["foreground_show"] == false)
            let other = try JSONValue(
                parsing: Array(try #require(hms.inbox().first { $0.token == "hw2" }).message.utf8)
            )
            let defaults = other["android"]?["notification"]
            #expect(defaults?["foreground_show"] == true && defaults?["visibility"] == "PRIVATE")
            #expect(defaults?["click_action"] == ["type": 1, "action": "Action"])
            #expect(!gateway.child.errors.contains("planted"))
            for file in try FileManager.default.contentsOfDirectory(atPath: own.rig.folder.path)
            where file.hasPrefix("chapar.db") {
                let bytes = try Data(contentsOf: own.rig.folder.appending(path: file))
                #expect(bytes.range(of: Data("planted-secret".utf8)) == nil, "\(file)")
            }
        }
    }

    @Test("Row 20: a full queue is 503 with a code body, and nothing of the request is stored")
    func full() async throws {
        try await SandboxRig.run { rig in
            try Self.door(rig, Self.section)
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
            try text.replacing("  kind: sqlite\n", with: "  kind: sqlite\n  max_waiting: 3\n")
                .write(toFile: rig.config, atomically: true, encoding: .utf8)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let own = Rig(rig: rig, url: gateway.url)
            let answer = try await own.push(#"{"tokens":["f1","f2","f3","f4","f5","f6"],"platform":2,"message":"m"}"#)
            #expect(answer.status == 503 && answer.json["code"] == 503, "\(answer.body)")
            #expect(answer.json["message"]?.stringValue?.isEmpty == false)
            #expect(answer.head.lowercased().contains("retry-after: "))
            let good = try await own.push(#"{"tokens":["g1"],"platform":2,"message":"m"}"#)
            #expect(good.status == 200)
            try await Self.wait("the message") { rig.sandbox.fcm.inbox.contains { $0.target == .token("g1") } }
            #expect(rig.sandbox.fcm.inbox.count == 1)
        }
    }

    @Test("Rows 21, 22: keys as Bearer and Basic, a foreign key, none; shapes of the other paths; no planted secret")
    func access() async throws {
        try await SandboxRig.run { rig in
            try Self.door(rig, Self.section)
            let made = try await Program.run(
                ["keys", "create", "--name", "caller", "--scope", "send", "--scope", "metrics", "--json"],
                in: rig.folder
            )
            let key = try #require(
                try JSONValue(parsing: Array(made.output.utf8))["key"]?.stringValue,
                "\(made.errors)"
            )
            let hash = try #require(try JSONValue(parsing: Array(made.output.utf8))["hash"]?.stringValue)
            try rig.append("auth: { api_keys: [ { name: caller, hash: \"\(hash)\", scopes: [send, metrics] } ] }\n")
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let own = Rig(rig: rig, url: gateway.url)
            let entry = #"{"tokens":["k1"],"platform":2,"message":"m"}"#
            #expect(try await own.push(entry, "-H 'Authorization: Bearer \(key)'").status == 200)
            #expect(try await own.push(entry, "-u 'push:\(key)'").status == 200)
            #expect(try await own.push(entry, "-u '\(key):'").status == 200)
            for options in ["", "-H 'Authorization: Bearer chp_foreign'", "-u 'push:chp_foreign'"] {
                let answer = try await own.push(entry, options)
                #expect(answer.status == 401 && answer.json["code"] == 401, "\(options): \(answer.body)")
                #expect(!answer.head.lowercased().contains("basic"), "a browser must not ask for a password")
            }
            let page = try await own.push(entry, "-u 'push:\(key)' -H 'Origin: https://other.example'")
            #expect(page.status == 403 && page.json["code"] == 403)
            let health = try await own.curl("/gorush/healthz")
            #expect(health.status == 200 && health.body.isEmpty)
            #expect(try await own.curl("/gorush/healthz", nil, "-I").status == 200)
            #expect(try await own.curl("/gorush/version").json["source"] != nil)
            #expect(try await own.curl("/gorush/").json["text"] == "Welcome to notification server.")
            #expect(try await own.curl("/gorush/api/stat/app").status == 401)
            let statistics = try await own.curl("/gorush/api/stat/app", nil, "-u 'x:\(key)'").json
            #expect(statistics["submitted_tasks"] == 3 && statistics["ios"]?["push_success"] == 0)
            #expect(try await own.curl("/gorush/sys/stats", nil, "-u 'x:\(key)'").json["pid"] != nil)
            let metrics = try await own.curl("/gorush/metrics", nil, "-u 'x:\(key)'").body
            let names = metrics.split(separator: "\n").filter { $0.hasPrefix("gorush_") }
            #expect(names.count == 11 && metrics.contains("chapar_ledger_accepted_total"))
            let configuration = try await own.curl("/gorush/api/config", nil, "-u 'x:\(key)'")
            #expect(configuration.status == 403 && configuration.json["code"] == 403)
            let wrong = try await own.curl("/gorush/api/push", nil, "-u 'x:\(key)'")
            #expect(wrong.status == 405 && wrong.json["code"] == 405)
        }
    }

    /// A server of webhooks: it answers the first request with 500 and every other with 200, writes its port to a file,
    /// and prints each request's id and body on a line, until a failed delivery came and a repeat of the first request.
    private static let receiver = """
        import http.server, os, signal
        ids, seen = [], []
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                ids.append(self.headers["webhook-id"])
                seen.append(body)
                print(ids[-1], body, flush=True)
                self.send_response(500 if len(ids) == 1 else 200)
                self.send_header("content-length", "0")
                self.end_headers()
            def log_message(self, *_): pass
        signal.alarm(60)
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        with open("port.new", "w") as file: file.write(str(server.server_port))
        os.rename("port.new", "port")
        while ids.count(ids[0] if ids else "") < 2 or not any("delivery.failed" in body for body in seen):
            server.handle_request()
        """

    @Test(
        "Rows 6, 19: the hook is a webhook: a failure that comes after the answer is told with notif_id, and again after 500",
        .enabled(if: FileManager.default.fileExists(atPath: "/usr/bin/python3"), "needs Python")
    )
    func hook() async throws {
        try await SandboxRig.run { rig in
            try Self.door(rig, Self.section)
            let file = rig.folder.appending(path: "receiver.py")
            try Self.receiver.write(to: file, atomically: true, encoding: .utf8)
            async let received = Script.run("exec python3 receiver.py", in: rig.folder, path: "/usr/bin:/bin")
            let port = try await Program.wait("the receiver") {
                try? String(contentsOf: rig.folder.appending(path: "port"), encoding: .utf8)
            }
            let address = "http://127.0.0.1:\(port)/hook"
            try rig.append("webhooks: { feedback_url: \"\(address)\", allow_networks: [127.0.0.0/8] }\n")
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let own = Rig(rig: rig, url: gateway.url)
            let entry = #"{"notif_id":"n9","tokens":["sim-unregistered-9"],"platform":2,"message":"m"}"#
            #expect(try await own.push(entry).body == #"{"counts":1,"logs":[],"success":"ok"}"#)
            let lines = try await received.split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1) }
            let ids = lines.compactMap(\.first)
            #expect(Set(ids).count < ids.count, "a request that got 500 comes again under its id: \(lines)")
            let bodies = try lines.compactMap(\.last).map { try JSONValue(parsing: Array($0.utf8)) }
            let failure = try #require(bodies.first { $0["type"] == "delivery.failed" }?["data"], "\(lines)")
            #expect(failure["reference"] == "n9" && failure["backend"] == "android", "\(failure.text)")
            #expect(failure["attempt"]?["reason"] == "UNREGISTERED" && failure["state"] == "failed", "\(failure.text)")
        }
    }

    @Test("Row 19: a repetition under the caller's key sends nothing again, and notif_id is the reference")
    func repeated() async throws {
        try await Self.run { own, _ in
            // Its time to live is counted from the request, so that the second makes another message of equal bytes.
            let end = Int(Date().timeIntervalSince1970) + 1000
            let token = SandboxRig.token(7)
            let entry = #"{"notif_id":"n42","tokens":["\#(token)"],"platform":1,"message":"m","expiration":\#(end)}"#
            for round in 0..<2 {
                if round > 0 { try await Task.sleep(for: .milliseconds(1100)) }
                let answer = try await own.push(entry, "-H 'Idempotency-Key: k1'")
                #expect(answer.body == #"{"counts":1,"logs":[],"success":"ok"}"#)
            }
            let other = try await own.push(entry + "," + entry, "-H 'Idempotency-Key: k1'")
            #expect(other.status == 422 && other.json["code"] == 422, "\(other.body)")
            let apns = own.rig.sandbox.apns
            try await Self.wait("the message") { !apns.inbox.isEmpty }
            #expect(apns.inbox.count == 1)
            let events = try await own.curl("/v1/events", nil, "-m 2 -H 'Last-Event-ID: 0'")
            #expect(events.body.contains(#""reference":"n42""#), "\(events.body)")
            let found = try await own.curl("/v1/deliveries?reference=n42")
            #expect(found.json["items"]?.arrayValue?.count == 1, "\(found.body)")
        }
    }
}
