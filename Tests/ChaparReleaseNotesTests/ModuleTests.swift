import Foundation
import ChaparCore
import ChaparModules
import ChaparTesting
import Testing

@testable import ChaparReleaseNotes

/// The HTTP interface: specs/noskhekit.md sections 9 and 10.
@Suite("Release notes: over HTTP", .timeLimit(.minutes(1)))
struct ModuleTests {
    @Test("Paths, methods and who may use them")
    func endpoints() {
        let module = Harness().module
        func endpoint(_ path: String) -> ModuleEndpoint? { module.endpoint(Substring("/v1/apps/" + path)) }
        #expect(
            endpoint("shop/versions.json")
                == ModuleEndpoint("/v1/apps/{app}/versions.json", ["GET": .open], app: "shop")
        )
        #expect(
            endpoint("shop/versions/since/1.3.json")
                == ModuleEndpoint("/v1/apps/{app}/versions/since/{version}.json", ["GET": .open], app: "shop")
        )
        for path in ["versions", "announcements", "reload"] {
            #expect(endpoint("shop/\(path)") == ModuleEndpoint("/v1/apps/{app}/\(path)", ["POST": .admin], app: "shop"))
        }
        for path in ["shop", "shop/", "/versions.json", "shop/versions.xml", "shop/versions/since/.json", "a/b/c/d"] {
            #expect(endpoint(path) == nil, "\(path)")
        }
    }

    @Test("JSON in both shapes, newest first, with what caches need; known content is not sent again")
    func json() async throws {
        let harness = Harness()
        let answer = try await harness.get("shop/versions.json")
        #expect(answer.status == 200)
        #expect(
            answer.text
                == #"{"items":[{"number":"1.10.0","changes":["Faster search"]},"#
                + #"{"number":"1.4.0","changes":["Dark theme","Fixes"]},"#
                + #"{"number":"1.3.2","changes":["First public version"]}]}"#
        )
        #expect(answer.header("content-type") == "application/json; charset=utf-8")
        #expect(answer.header("cache-control") == "public, max-age=300" && answer.header("vary") == "Accept-Language")
        #expect(answer.header("last-modified").flatMap(HTTPDate.parse) != nil)
        let tag = try #require(answer.header("etag"))
        for field in [tag, "W/\(tag)", "\"x\", \(tag)", "*"] {
            let again = try await harness.get("shop/versions.json", headers: [HTTPHeader("if-none-match", field)])
            #expect(again.status == 304 && again.body.isEmpty && again.header("etag") == tag)
        }
        #expect(
            try await harness.get("shop/versions.json", headers: [HTTPHeader("if-none-match", "\"y\"")]).status == 200
        )
        let compiled = try await harness.get("shop/versions.json", ["shape": "compiled"])
        #expect(compiled.json["items"]?.arrayValue?.first?["number"]?["minor"] == 10)
        let since = try await harness.get("shop/versions/since/1.3.2.json", ["shape": "compiled"])
        #expect(since.json["items"]?.arrayValue?.count == 2)
        let other = Harness { $0.shape = .compiled }
        #expect(try await other.get("shop/versions.json").json["items"]?.arrayValue?.first?["number"]?["major"] == 1)
    }

    static let languages: [(query: String?, field: String?, expected: String)] = [
        (nil, nil, "en"), ("fa", nil, "fa"), ("fa-IR", "en", "fa"), ("de", nil, "en"),
        (nil, "de, fa-IR;q=0.8, en;q=0.5", "fa"), (nil, "de", "en"), (nil, "en;q=0, fa;q=0.1", "fa"), (nil, "*", "en"),
    ]

    @Test("The language is the wanted one, the first acceptable one, or the default", arguments: languages)
    func language(query: String?, field: String?, expected: String) async throws {
        let harness = Harness()
        let headers = field.map { [HTTPHeader("accept-language", $0)] } ?? []
        let answer = try await harness.get("shop/versions.json", query.map { ["lang": $0] } ?? [:], headers: headers)
        #expect(answer.header("content-language") == expected)
        #expect(answer.text.contains("پوستهٔ تیره") == (expected == "fa"))
    }

    @Test("Page and text follow the reader's version, direction, theme, width and colours")
    func pages() async throws {
        let harness = Harness()
        let page = try await harness.get("shop/versions.html", ["current": "1.3.2", "dir": "rtl", "theme": "dark"])
        #expect(page.header("content-type") == "text/html; charset=utf-8")
        #expect(page.header("content-security-policy") == NotesPage.policy)
        #expect(page.text.contains("<li class=\"current\" data-version=\"1.3.2\"") && page.text.contains("dir=\"rtl\""))
        #expect(page.text.contains("<li class=\"future\" data-version=\"1.4.0\""))
        #expect(try await harness.get("shop/versions.html", ["lang": "fa"]).text.contains("dir=\"rtl\""))
        let text = try await harness.get("shop/versions.txt", ["width": "20", "color": "always"])
        #expect(text.header("content-type") == "text/plain; charset=utf-8" && text.text.contains("\u{1B}[0;"))
        let guessed = try await harness.get("shop/versions.html", ["current": "latest", "lenient": "1"])
        #expect(
            guessed.header("x-release-notes-problem")
                == "NK105 release notes: current version \"latest\" is not a version"
        )
        #expect(!guessed.text.contains("class=\"current\""))
        let odd = try await harness.get("shop/versions.html", ["current": "۱.۴\r\nx: y", "lenient": "1"])
        #expect(
            odd.header("x-release-notes-problem")
                == "NK105 release notes: current version \"?.???x: y\" is not a version"
        )
        let signed = try await harness.get("shop/versions.html", ["current": "+1.4", "lenient": "1"])
        #expect(signed.header("x-release-notes-problem") == nil && signed.text.contains("class=\"current\""))
    }

    static let wrong: [(String, [String: String], Int)] = [
        ("other/versions.json", [:], 404), ("shop/versions.json", ["shape": "new"], 400),
        ("shop/versions.json", ["lnag": "fa"], 400), ("shop/versions.html", ["current": "latest"], 400),
        ("shop/versions.html", ["dir": "up"], 400), ("shop/versions.txt", ["width": "5"], 400),
        ("shop/versions.txt", ["color": "red"], 400), ("shop/versions/since/x.json", [:], 400),
    ]

    @Test("An unknown or wrong value is refused, not guessed", arguments: wrong)
    func refuses(path: String, query: [String: String], status: Int) async throws {
        let harness = Harness()
        let problem = await harness.problem { () throws(ModuleProblem) in try await harness.get(path, query) }
        #expect(problem?.status == status)
    }

    @Test("Without a default, an unknown language is not found")
    func noDefault() async throws {
        let harness = Harness { $0.defaultLanguage = nil }
        let problem = await harness.problem { () throws(ModuleProblem) in
            try await harness.get("shop/versions.json", ["lang": "de"])
        }
        #expect(problem?.status == 404)
        #expect(try await harness.get("shop/versions.json", ["lang": "fa"]).status == 200)
    }

    @Test("A changed document is read again; a broken one keeps the last good list until it is well")
    func reloading() async throws {
        let harness = Harness()
        let first = try await harness.get("shop/versions.json")
        harness.english.write(#"[{"number":"2","changes":["New"]}]"#)
        #expect(try await harness.get("shop/versions.json").text == first.text, "not looked at within two seconds")
        try await harness.time.sleep(for: .seconds(3))
        let second = try await harness.get("shop/versions.json")
        #expect(second.text.contains("2.0.0") && second.header("etag") != first.header("etag"))
        harness.english.write("{broken")
        let answer = try await harness.post("shop/reload", [:])
        #expect(answer.json["problems"]?["en"]?.arrayValue?.first?.stringValue?.hasPrefix("NK002") ?? false)
        #expect(try await harness.get("shop/versions.json").text == second.text)
        harness.english.write(nil)
        let gone = try await harness.post("shop/reload", [:])
        #expect(gone.json["problems"]?["en"]?.arrayValue?.first?.stringValue?.hasPrefix("NK001") ?? false)
        harness.english.write(Harness.documented)
        _ = try await harness.post("shop/reload", [:])
        #expect(try await harness.get("shop/versions.json").text == first.text)
    }

    @Test("A document that never was good is an error that passes")
    func neverGood() async throws {
        let harness = Harness()
        harness.persian.write("<plist>")
        let problem = await harness.problem { () throws(ModuleProblem) in
            try await harness.get("shop/versions.json", ["lang": "fa"])
        }
        #expect(problem?.status == 503 && problem?.retryAfter != nil)
    }

    @Test("A posted version is new or replaces one, and is there after a restart")
    func posting() async throws {
        let harness = Harness()
        let created = try await harness.post("shop/versions", ["number": "1.5", "changes": [" Maps "], "lang": "en"])
        #expect(created.status == 201 && created.json["number"] == "1.5.0" && created.json["changes"] == ["Maps"])
        #expect(try await harness.post("shop/versions", ["number": "1.4.0", "changes": ["Only fixes"]]).status == 200)
        #expect(try await harness.post("shop/versions", ["number": "1.5.0", "changes": ["Maps"]]).status == 200)
        let list = try await harness.get("shop/versions.json").text
        #expect(list.contains(#"{"number":"1.5.0","changes":["Maps"]},{"number":"1.4.0","changes":["Only fixes"]}"#))
        let restarted = Harness(state: harness.state)
        #expect(try await restarted.get("shop/versions.json").text == list)
    }

    @Test("A posted version that is wrong is refused with everything that is wrong")
    func wrongPosts() async throws {
        let harness = Harness()
        let problem = await harness.problem { () throws(ModuleProblem) in
            try await harness.post("shop/versions", ["number": "v1", "changes": ["a", 2], "lang": "de", "x": 1])
        }
        #expect(problem?.status == 422)
        #expect(problem?.errors.map(\.pointer).sorted() == ["#/changes/1", "#/lang", "#/number", "#/x"])
        let text = await harness.problem { () throws(ModuleProblem) in
            try await harness.module.answer(
                ModuleRequest(method: "POST", path: "/v1/apps/shop/versions", body: Array("{".utf8)),
                through: harness.gate
            )
        }
        #expect(text?.status == 400)
        for body: JSONValue in [["x": 1], [1]] {
            let reload = await harness.problem { () throws(ModuleProblem) in try await harness.post("shop/reload", body)
            }
            #expect(reload?.status == 422)
        }
    }
}
