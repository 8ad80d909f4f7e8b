import Foundation
import ChaparCore
import ChaparSandbox
import Synchronization
import Testing

@testable import ChaparCommands

@Suite("The devices of a gateway, by the command line", .serialized, .timeLimit(.minutes(5)))
struct DevicesTests {
    /// How many devices the import of the memory test has: few enough for a debug build, or what `CHAPAR_DEVICES` says.
    private static let crowd = ProcessInfo.processInfo.environment["CHAPAR_DEVICES"].flatMap { Int($0) } ?? 20_000

    private func run(
        _ arguments: [String],
        _ gateway: ServedGateway,
        input: String? = nil,
        within limit: Duration = .seconds(60)
    ) async throws -> Program.Result {
        try await Program.run(["devices"] + arguments + ["--url", gateway.url], input: input, within: limit)
    }

    @Test("put, get, list and delete say and do the same as the API", .about("apns"))
    func life() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let token = SandboxRig.token(1)
            let put = try await run(
                ["put", "phone:1", "--user", "ali", "--token", "ios-apns:\(token.uppercased())", "--tag", "x"],
                gateway
            )
            #expect(put.status == 0, "\(put.errors)")
            #expect(put.output == "registered phone:1\n")
            let merged = try await run(["put", "phone:1", "--merge", "--locale", "fa", "--json"], gateway)
            let json = try JSONValue(parsing: Array(merged.output.utf8))
            #expect(json["user"] == "ali")
            #expect(json["locale"] == "fa")
            #expect(json["tokens"]?["ios-apns"]?["token"]?.stringValue == token, "in the platform's form")
            let shown = try await run(["get", "phone:1"], gateway)
            #expect(shown.lines.contains("user: ali"))
            #expect(shown.output.contains("ios-apns: \(token), registered "))
            let list = try await run(["list", "--tag", "x"], gateway)
            #expect(list.lines.count == 2)
            #expect(list.lines.last?.hasPrefix("phone:1  ali   -         ios-apns  x     ") == true, "\(list.output)")
            #expect(try await run(["list", "--user", "sara", "--json"], gateway).output.isEmpty)
            #expect(try await run(["delete", "phone:1"], gateway).output == "deleted phone:1\n")
            for arguments in [
                ["get", "phone:1"], ["delete", "phone:1"], ["put", "a", "--time-zone", "Mars/Olympus"],
            ] {
                let result = try await run(arguments, gateway)
                #expect(result.status == 1)
                #expect(!result.errors.isEmpty)
            }
            #expect(try await run(["list", "--platform", "windows"], gateway).status == 1)
        }
    }

    @Test("A message to a user reaches the user's device", .about("apns"))
    func send() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let token = SandboxRig.token(7)
            _ = try await run(["put", "phone", "--user", "ali", "--token", "ios-apns:\(token)"], gateway)
            let client = try gateway.client()
            let answer = try await client.post(
                "/v1/notifications",
                Array(#"{"to":{"users":["ali"]},"content":{"title":"Hello"}}"#.utf8),
                idempotencyKey: "a"
            )
            #expect(answer.status == 202)
            let id = try #require(answer.json["id"]?.stringValue)
            let delivery = try await Program.wait("the delivery") {
                let items = try await client.get("/v1/notifications/\(id)/deliveries").json["items"]?.arrayValue
                return items?.first { DeliveryState(rawValue: $0["state"]?.stringValue ?? "")?.isFinal ?? false }
            }
            await client.close()
            #expect(delivery["state"] == "accepted_by_platform")
            #expect(delivery["recipient"] == "device:phone")
            #expect(rig.sandbox.apns.inbox.map(\.token) == [token])
        }
    }

    @Test("import takes what is right, names what is wrong, and can be repeated", .about("apns"))
    func importing() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let file = rig.folder.appending(path: "people.csv").path
            let rows = """
                id,user,ios-apns,tags
                a,ali,\(SandboxRig.token(1)),plan:pro|"city"
                "b","sa,ra",,
                c d,x,,
                e,x,not hexadecimal,
                f,too,many,,fields
                """
            try rows.write(toFile: file, atomically: true, encoding: .utf8)
            let first = try await run(["import", file], gateway)
            #expect(first.status == 4)
            #expect(first.errors.contains("2 created, 0 replaced, 3 refused"))
            for place in ["line 4: #/devices/2/id", "line 5: #/devices/3/tokens/ios-apns", "line 6 has 5 fields"] {
                #expect(first.errors.contains(place), "\(first.errors)")
            }
            let again = try await run(["import", file, "--json"], gateway)
            let results = try again.lines.map { try JSONValue(parsing: Array($0.utf8)) }
            #expect(results.last == ["created": 0, "replaced": 2, "refused": 3])
            #expect(
                Set(results.compactMap { $0["code"]?.stringValue }) == ["invalid_line", "bad_id", "malformed_token"]
            )
            let shown = try await run(["get", "b", "--json"], gateway)
            #expect(shown.output.contains(#""user":"sa,ra""#))
            let wrong = try await run(["import", "-", "--format", "csv"], gateway, input: "id,usr\na,b\n")
            #expect(wrong.status == 2)
            #expect(wrong.errors.contains("Did you mean \"user\"?"))
            let nonsense = try await run(["import", "-"], gateway, input: "id,user\n")
            #expect(nonsense.status == 1)
            #expect(nonsense.errors.contains("a table is --format csv"), "\(nonsense.errors)")
            let empty = try await run(["import", "-"], gateway, input: "")
            #expect(empty.status == 0)
            #expect(empty.errors.contains("stdin holds no device"), "\(empty.errors)")
        }
    }

    @Test(
        "OneSignal's export is imported, and who unsubscribed gets nothing, also after an earlier import",
        .about("apns", "fcm")
    )
    func oneSignal() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let (kept, left, odd) = (SandboxRig.token(1), SandboxRig.token(2), SandboxRig.token(3))
            func rows(_ state: String) -> String {
                #"""
                device_type,id,identifier,tags,invalid_identifier,external_user_id,last_active,timezone,ad_id,notification_types
                0,a,\#(kept.uppercased()),"{""plan"":""pro"",""city"":""a|b, c"",""vip"":""""}",f,ali,2025-11-20 07:44:06 UTC,12600,x,1
                0,b,\#(left),,\#(state),sara,,,,
                1,c,fcm-token,,f,nima,1700000000,,,-2
                11,d,person@example.com,,f,ali,,,,
                5,e,https://push.example.com/e,,f,ali,,,,
                99,f,x,,f,ali,,,,
                0,g,\#(odd),,maybe,ali,,,,
                0,h,not hexadecimal,,f,ali,,,,
                0,i,\#(odd),plan=pro,f,ali,,,,

                """#
            }
            let first = try await run(["import", "-", "--from", "onesignal"], gateway, input: rows("f"))
            #expect(first.status == 4, "\(first.errors)")
            #expect(
                first.errors.contains(
                    "3 created, 0 replaced, 3 refused; 1 unsubscribed, without user and token; left out: 1 email, 1 unknown_type, 1 web"
                ),
                "\(first.errors)"
            )
            for place in ["line 8 invalid_identifier", "line 9 identifier", "line 10 tags"] {
                #expect(first.errors.contains(place), "\(first.errors)")
            }
            let shown = try JSONValue(parsing: Array(try await run(["get", "a", "--json"], gateway).output.utf8))
            #expect(shown["tokens"]?["ios-apns"]?["token"]?.stringValue == kept && shown["user"] == "ali")
            let tags = shown["tags"]?.arrayValue?.compactMap(\.stringValue).sorted()
            #expect(tags == ["city:a|b, c", "plan:pro", "vip"], "\(shown)")
            #expect(shown["last_seen"]?.stringValue?.hasPrefix("2025-11-20T07:44:06") == true, "\(shown)")
            #expect(shown["attributes"]?["utc_offset"] == "12600" && shown["attributes"]?["ad_id"] == nil, "\(shown)")

            let again = try await run(["import", "-", "--from", "onesignal", "--json"], gateway, input: rows("t"))
            let last = try #require(try again.lines.last.map { try JSONValue(parsing: Array($0.utf8)) })
            #expect(
                last["replaced"] == 3 && last["unsubscribed"] == 2 && last["left_out"]?["web"] == 1,
                "\(again.output)"
            )
            for id in ["b", "c"] {
                let device = try JSONValue(parsing: Array(try await run(["get", id, "--json"], gateway).output.utf8))
                #expect(device["tokens"]?.objectValue?.isEmpty == true && device["user"] == nil, "\(device)")
            }
            let client = try gateway.client()
            let message: JSONValue = ["to": ["users": ["sara", "nima"]], "content": ["body": "x"]]
            #expect(try await client.post("/v1/notifications", message.bytes, idempotencyKey: "a").status == 422)
            await client.close()
            #expect(rig.sandbox.apns.inbox.isEmpty)

            for (input, words) in [
                ("id,identifier\nx,y\n", "no column device_type"),
                ("id,identifier,device_type\nx,y,0\n", "who unsubscribed"),
            ] {
                let refused = try await run(["import", "-", "--from", "onesignal"], gateway, input: input)
                #expect(refused.status == 2 && refused.errors.contains(words), "\(refused.errors)")
            }
            try await laterTokens(gateway)

            let packed = try await run(["import", "users.csv.gz", "--from", "onesignal"], gateway)
            #expect(packed.status == 2 && packed.errors.contains("gunzip -c"), "\(packed.errors)")
        }
    }

    @Test("A browser of OneSignal's export is imported with its keys, and left out without them", .about("webpush"))
    func oneSignalBrowsers() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let text = rig.sandbox.webPush.subscription("moved", at: .mozilla)
            let subscription = try JSONValue(parsing: Array(text.utf8))
            let address = try #require(subscription["endpoint"]?.stringValue)
            let auth = try #require(subscription["keys"]?["auth"]?.stringValue)
            let point = try #require(subscription["keys"]?["p256dh"]?.stringValue)
            let pair = "\(auth),\(point)"
            let rows = """
                id,identifier,device_type,invalid_identifier,external_user_id,web_auth,web_p256
                w1,\(address),8,f,omid,\(pair)
                w2,\(address)-2,5,t,omid,\(pair)
                w3,https://push.example.com/e,5,f,omid,,
                w4,https://push.example.com/e,17,f,omid,abc,
                w5,3f2a,7,f,omid,\(pair)

                """
            let done = try await run(["import", "-", "--from", "onesignal"], gateway, input: rows)
            #expect(done.status == 0, "\(done.errors)")
            #expect(done.errors.contains("1 unsubscribed, without user and token; left out: 3 web"), "\(done.errors)")
            let client = try gateway.client()
            let message: JSONValue = ["to": ["users": ["omid"]], "content": ["title": "We have moved"]]
            let answer = try await client.post("/v1/notifications", message.bytes, idempotencyKey: "moved")
            #expect(answer.json["recipients"]?["count"] == 1, "\(answer.json.text)")
            await client.close()
            let taken = try await Program.wait("the message") { rig.sandbox.webPush.inbox().first }
            #expect(taken.id == "moved" && taken.json?["notification"]?["title"] == "We have moved")
        }
    }

    /// Of two rows with the same token the one that was active later keeps it; a dry run registers neither, and a file
    /// of OneSignal's without its option is recognized.
    private func laterTokens(_ gateway: ServedGateway) async throws {
        let token = SandboxRig.token(4)
        let rows = """
            id,identifier,device_type,invalid_identifier,last_active
            late,\(token),0,f,2025-06-01 00:00:00
            early,\(token.uppercased()),0,f,2025-01-01 00:00:00
            mail,a@example.com,11,f,

            """
        let dry = try await run(["import", "-", "--from", "onesignal", "--dry-run"], gateway, input: rows)
        #expect(dry.status == 0, "\(dry.errors)")
        #expect(dry.errors.contains("dry run: 2 to register, 0 refused; left out: 1 email"), "\(dry.errors)")
        #expect(try await run(["get", "late"], gateway).status == 1)
        #expect(try await run(["import", "-", "--from", "onesignal"], gateway, input: rows).status == 0)
        for (id, held) in [("late", 1), ("early", 0)] {
            let device = try JSONValue(parsing: Array(try await run(["get", id, "--json"], gateway).output.utf8))
            #expect(device["tokens"]?.objectValue?.count == held, "\(device)")
        }
        let plain = try await run(["import", "-", "--format", "csv"], gateway, input: rows)
        #expect(plain.status == 2 && plain.errors.contains("add --from onesignal"), "\(plain.errors)")
    }

    @Test("Exported devices can be imported again unchanged, tombstones included")
    func roundTrip() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let registered = "2026-01-01T00:00:00.000Z"
            let tombstone = #"{"as_of":"2026-02-01T00:00:00.000Z","backend":"ios","reason":"Unregistered"}"#
            let lines = (0..<2500).map { number in
                let token = #"{"token":"\#(SandboxRig.token(number))","registered_at":"\#(registered)""#
                let more = number % 100 == 0 ? #","tombstone":\#(tombstone)}"# : "}"
                return #"{"id":"d\#(number)","user":"u\#(number % 7)","tokens":{"ios-apns":\#(token)\#(more)}}"#
            }
            let input = lines.joined(separator: "\n")
            #expect(try await run(["import", "-"], gateway, input: input).status == 0)
            let file = rig.folder.appending(path: "all.ndjson").path
            let exported = try await run(["export", "--output", file], gateway)
            #expect(exported.status == 0, "\(exported.errors)")
            #expect((FileModes.mode(of: file) ?? 0) & 0o777 == 0o600, "tokens are for the owner only")
            #expect(exported.errors.contains("2500 exported"))
            let text = try String(contentsOfFile: file, encoding: .utf8)
            #expect(text.split(separator: "\n").count == 2500)
            #expect(text.components(separatedBy: #""alive":false"#).count == 26)
            let client = try gateway.client()
            for number in stride(from: 0, to: 2500, by: 10) {
                _ = try await client.delete("/v1/devices/d\(number)")
            }
            await client.close()
            #expect(try await run(["import", file], gateway).errors.contains("250 created, 2250 replaced"))
            func contents(_ text: String) throws -> Set<String> {
                // All but the time of the last change, and the order, which is that of registration.
                Set(
                    try text.split(separator: "\n").map { line in
                        var device = try JSONValue(parsing: Array(line.utf8)).objectValue ?? JSONObject()
                        device["updated_at"] = nil
                        return JSONValue.object(device).text
                    }
                )
            }
            let again = try await run(["export"], gateway)
            #expect(try contents(again.output) == contents(text))
            let csv = try await run(["export", "--format", "csv", "--user", "u0"], gateway)
            #expect(csv.lines.first == DeviceCSV.columns.joined(separator: ","))
            #expect(csv.lines.count == 359)
            #expect(csv.errors.contains("dead tokens were left out"))
        }
    }

    @Test("An export follows no link that was planted at its name, or at the name that it grew under once")
    func links() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            #expect(try await run(["put", "phone-1", "--user", "ali"], gateway).status == 0)
            let folder = rig.folder.appending(path: "exports")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let victim = rig.folder.appending(path: "victim").path
            try "untouched".write(toFile: victim, atomically: true, encoding: .utf8)
            let file = folder.appending(path: "all.ndjson").path
            for link in [file, file + ".part"] {
                try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: victim)
            }
            let exported = try await run(["export", "--output", file], gateway)
            #expect(exported.status == 0, "\(exported.errors)")
            #expect(try String(contentsOfFile: victim, encoding: .utf8) == "untouched")
            // Of the name itself, not of what a link there leads to.
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect(attributes[.type] as? FileAttributeType == .typeRegular)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            #expect(try String(contentsOfFile: file, encoding: .utf8).contains("phone-1"))
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: file + ".part") == victim)
            let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            #expect(left == ["all.ndjson", "all.ndjson.part"])
        }
    }

    @Test("A device whose registration was answered is there after kill -9")
    func killed() async throws {
        try await SandboxRig.run { rig in
            var answered: [String] = []
            for round in 0..<3 {
                let gateway = try await rig.serve()
                let client = try gateway.client()
                let count = Mutex(0)
                let found = try await withThrowingTaskGroup(of: [String].self) { group in
                    for writer in 0..<4 {
                        group.addTask { @Sendable in
                            var own: [String] = []
                            for number in 0..<10_000 {
                                let id = "r\(round)-w\(writer)-\(number)"
                                let body = Array(#"{"user":"u","tags":["x"]}"#.utf8)
                                guard let answer = try? await client.put("/v1/devices/\(id)", body) else { break }
                                guard answer.status == 201 else { continue }
                                own.append(id)
                                count.withLock { $0 += 1 }
                            }
                            return own
                        }
                    }
                    group.addTask { @Sendable in
                        let few = 50 * (round + 1)
                        try await Program.wait("\(few) devices") { count.withLock { $0 >= few } ? true : nil }
                        gateway.child.kill()
                        return []
                    }
                    return try await group.reduce(into: []) { $0 += $1 }
                }
                answered += found
                await client.close()
                _ = try await gateway.child.end()
            }
            #expect(answered.count > 10)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let listed = try await run(["list", "--tag", "x", "--limit", "100000", "--json"], gateway)
            let there = Set(try listed.lines.compactMap { try JSONValue(parsing: Array($0.utf8))["id"]?.stringValue })
            #expect(
                there.isSuperset(of: answered),
                "\(Set(answered).subtracting(there).count) of \(answered.count) lost"
            )
        }
    }

    @Test("An import of many devices leaves the gateway's memory as it was")
    func memory() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let file = rig.folder.appending(path: "crowd.ndjson")
            func crowd(_ name: String) throws -> String {
                var text = ""
                for number in 0..<Self.crowd {
                    text += #"{"id":"\#(name)\#(number)","user":"u\#(number / 2)","tokens":{"ios-apns":""#
                    text += SandboxRig.token(number, prefix: name) + #""},"tags":["t\#(number % 10)"]}"# + "\n"
                }
                try text.write(to: file, atomically: true, encoding: .utf8)
                return file.path
            }
            _ = try await run(["import", try crowd("a")], gateway, within: .seconds(240))
            let before = try gateway.child.residentKilobytes()
            let result = try await run(["import", try crowd("b")], gateway, within: .seconds(240))
            let after = try gateway.child.residentKilobytes()
            #expect(result.errors.contains("\(Self.crowd) created, 0 replaced, 0 refused"), "\(result.errors)")
            print("import of \(Self.crowd) devices after as many: \(before) KiB before, \(after) KiB after")
            #expect(after < before + 24 << 10, "\(before) KiB before, \(after) KiB after")
        }
    }
}
