import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

/// Release notes through a whole gateway and the command line: specs/noskhekit.md sections 10, 13, 14.
@Suite("Release notes through a gateway", .timeLimit(.minutes(2)), .about("release_notes"))
struct ReleaseNotesJourneyTests {
    @Test("Everybody may read them; a version is posted and announced to the older devices, once", .about("apns"))
    func journey() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            let list = try await client.get("/v1/apps/shop/versions.json?shape=compiled")
            #expect(list.json["items"]?.arrayValue?.first?["number"]?["minor"] == 10)
            #expect(try await client.get("/v1/apps/shop/versions.html?lang=fa").status == 200)
            #expect(try await client.get("/v1/apps/other/versions.html").status == 404)
            func post(_ path: String, _ body: JSONValue) async throws -> GatewayClient.Answer {
                try await client.post("/v1/apps/shop/\(path)", body.bytes, idempotencyKey: UUID().uuidString)
            }
            let posted = try await post("versions", ["number": "1.4.0", "changes": ["Only fixes"], "lang": "en"])
            #expect(posted.status == 200)
            for (number, version) in ["1.3.9", "1.4.0", "1.10.0", "garbage"].enumerated() {
                let device: JSONValue = [
                    "tokens": ["ios-apns": .string(SandboxRig.token(number))], "app_version": .string(version),
                ]
                #expect(try await client.put("/v1/devices/d\(number)", device.bytes).status == 201)
            }
            let dry = try await post("announcements", ["version": "1.4.0", "dry_run": true])
            #expect(dry.json["eligible"] == 1 && dry.json["sent"] == 0, "\(dry.json.text)")
            let before = rig.sandbox.apns.inbox.count
            let answer = try await post("announcements", ["version": "1.4.0", "backends": ["ios"]])
            #expect(answer.json["sent"] == 1 && answer.json["per_backend"]?["ios"]?["sent"] == 1, "\(answer.json.text)")
            try await Program.wait("the announcement at Apple") {
                rig.sandbox.apns.inbox.count > before ? true : nil
            }
            let again = try await post("announcements", ["version": "1.4.0"])
            #expect(again.json["sent"] == 0 && again.json["already_announced"] == 1)
            #expect(try await post("announcements", ["version": "1.3.2"]).status == 422)
            await client.close()
        }
    }

    @Test("The command shows a configuration's list or one document, in both directions")
    func command() async throws {
        try await SandboxRig.run { rig in
            let show = ["release-notes", "show", "--config", rig.config]
            let english = try await Program.run(show + ["--current", "1.3.2", "--width", "40"])
            #expect(english.status == 0 && english.errors.isEmpty, "\(english.errors)")
            #expect(english.lines.contains("● What's new in") && english.lines.contains("○ 1.4.0"))
            #expect(english.lines.last == "Rate the app: https://apps.example/app/123?action=write-review")
            let persian = try await Program.run(show + ["--lang", "fa", "--width", "60"])
            #expect(persian.output.contains("\u{2067}۱.۴.۰\u{2069}"))
            let file = rig.folder.appending(path: "Versions-FA.json").path
            let one = try await Program.run(["release-notes", "show", "--file", file, "--rtl", "--plain"])
            #expect(one.status == 0 && one.lines.first == "۱.۱۰.۰ ●")
            let broken = rig.folder.appending(path: "broken.json").path
            try #"[{"number":"x","changes":1},{"number":"1"}]"#.write(toFile: broken, atomically: true, encoding: .utf8)
            let bad = try await Program.run(["release-notes", "show", "--file", broken])
            #expect(bad.status == 1 && bad.errors.contains("item 0") && bad.errors.contains("item 1"))
            let missing = try await Program.run(["release-notes", "show", "--file", "/nowhere/Versions.plist"])
            #expect(missing.status == 1 && missing.errors.contains("NK001"))
        }
    }

    @Test("A wrong section is refused with every mistake and its place")
    func configuration() async throws {
        try await SandboxRig.run { rig in
            let text = try String(contentsOfFile: rig.config, encoding: .utf8)
                .replacingOccurrences(of: "current: \"1.4.0\"", with: "current: latest")
                .replacingOccurrences(of: "default_language: en", with: "default_language: de")
                .replacingOccurrences(of: "isRightToLeft: true", with: "isRightToLeftt: true")
                .replacingOccurrences(of: "name: Chapar Shop", with: "nmae: Chapar Shop")
            try text.write(toFile: rig.config, atomically: true, encoding: .utf8)
            let result = try await Program.run(["check", "--config", rig.config])
            #expect(result.status == 3)
            for words in ["release_notes.apps.shop.current", "default_language", "isRightToLeftt", "nmae"] {
                #expect(result.errors.contains(words), "\(words)")
            }
        }
    }
}
