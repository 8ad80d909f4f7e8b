import Crypto
import Foundation
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// What can be said of the page without a browser; the rest is in Tests/Dashboard.
@Suite("The dashboard's page", .timeLimit(.minutes(1)))
struct DashboardPageTests {
    let markup = String(decoding: PackageResources.dashboard_html, as: UTF8.self)
    let script = String(decoding: PackageResources.dashboard_js, as: UTF8.self)
    let style = String(decoding: PackageResources.dashboard_css, as: UTF8.self)

    /// The table of texts: by language, by key.
    static func texts() throws -> [String: [String: String]] {
        try JSONDecoder().decode(
            [String: [String: String]].self,
            from: Data(PackageResources.dashboard_texts_json)
        )
    }

    /// What stands at the places of a regular expression's first group.
    private static func found(_ pattern: String, in text: String) throws -> Set<String> {
        let expression = try Regex(pattern, as: (Substring, Substring).self)
        return Set(text.matches(of: expression).map { String($0.output.1) })
    }

    @Test("has the same texts in English and in Persian, with the same values in them")
    func languages() throws {
        let texts = try Self.texts()
        #expect(texts.keys.sorted() == ["en", "fa"])
        let (english, persian) = (try #require(texts["en"]), try #require(texts["fa"]))
        #expect(Set(english.keys).symmetricDifference(persian.keys).isEmpty)
        for (key, text) in english {
            let other = persian[key] ?? ""
            #expect(!text.isEmpty && !other.isEmpty, "\(key)")
            let pattern = #"\{(\w+)\}"#
            #expect(try Self.found(pattern, in: text) == Self.found(pattern, in: other), "\(key)")
        }
        // A text without a letter of its language was forgotten, or is only a frame for values.
        let untranslated = persian.filter { key, text in
            key != "language.other" && !text.unicodeScalars.contains { (0x600...0x6FF).contains($0.value) }
        }
        #expect(untranslated.keys.sorted() == ["backend.nothing_waits", "notification.count"])
    }

    @Test("takes every text from the table, and uses every text of it")
    func keys() throws {
        let known = Set(try #require(try Self.texts()["en"]).keys)
        var used = try Self.found(#"data-(?:text|label)="([^"]+)""#, in: markup)
        used.formUnion(try Self.found(#"text\("([a-z_.]+[a-z_])""#, in: script))
        used.formUnion(try Self.found(#"(?:askForKey\(|\? |: |key = )"((?:key|backend)\.[a-z_]+)""#, in: script))
        used.formUnion(try Self.found(#"Reason = "(key\.[a-z_]+)""#, in: script))
        used.formUnion(try Self.found(#"(?:\?|:) "((?:steps|trouble|backend|key)\.[a-z_]+)""#, in: script))
        #expect(used.subtracting(known).isEmpty, "not in the table")
        // Keys that end in a value: a state, a kind of event, of expiry, of credential, of connection.
        let composed = ["state.", "note.", "expiry.", "credential.", "connection."]
        let unused = known.subtracting(used).filter { key in !composed.contains { key.hasPrefix($0) } }
        #expect(unused.isEmpty, "in the table for nothing")
        for prefix in composed { #expect(script.contains("\"\(prefix)\" +"), "\(prefix)") }
        for state in DeliveryState.allCases { #expect(known.contains("state.\(state.rawValue)")) }
    }

    @Test("has no words in its markup but commands, and what is said where no script runs")
    func words() throws {
        let parts = ["<title>[^<]*</title>", "<noscript>.*?</noscript>", "<code [^>]*>[^<]*</code>", "<[^>]*>"]
        var rest = markup
        for part in parts { rest = rest.replacing(try Regex(part).dotMatchesNewlines(), with: "") }
        let words = rest.filter { !$0.isWhitespace }
        #expect(words.isEmpty)
        #expect(!markup.contains("aria-label=") && !markup.contains("placeholder=") && !markup.contains("title="))
    }

    @Test("runs its own script and style, and nothing else")
    func policy() throws {
        let page = DashboardPage()
        for (element, content) in [("script", script), ("style", style)] {
            let hash = Data(SHA256.hash(data: Data(content.utf8))).base64EncodedString()
            #expect(page.policy.contains("\(element)-src 'sha256-\(hash)'"))
            #expect(page.text.contains("<\(element)>\(content)</\(element)>"))
            #expect(!content.contains("</\(element)"), "it would end there")
        }
        #expect(page.policy.hasPrefix("default-src 'none'; script-src 'sha256-"))
        #expect(!page.policy.contains("unsafe"))
        let texts = try #require(page.text.firstRange(of: "id=\"texts\">"))
        let json = page.text[texts.upperBound...].prefix { $0 != "<" }
        #expect(try JSONValue(parsing: Array(json.utf8)).objectValue?.count == 2)
    }
}
