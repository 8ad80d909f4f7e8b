import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The checks of the page that need no browser; the others are in Tests/Dashboard.
@Suite("The dashboard's page", .timeLimit(.minutes(1)))
struct DashboardPageTests {
    let markup = String(decoding: EmbeddedDocuments.markup, as: UTF8.self)
    let style = String(decoding: EmbeddedDocuments.style, as: UTF8.self)
    let page = DashboardPage.shared

    /// The texts by language and group; a text that counts has a form for each plural category.
    static func texts() throws -> [String: [String: JSONValue]] {
        var texts: [String: [String: JSONValue]] = [:]
        for (language, bytes) in EmbeddedDocuments.texts {
            for (group, entries) in try #require(try JSONValue(parsing: bytes).objectValue) {
                for (name, text) in try #require(entries.objectValue) {
                    texts[language, default: [:]]["\(group).\(name)"] = text
                }
            }
        }
        return texts
    }

    /// The forms of a text, by plural category; a text that does not count has one.
    static func forms(_ text: JSONValue?) -> [String: String] {
        if let plain = text?.stringValue { return ["": plain] }
        return Dictionary(
            uniqueKeysWithValues: (text?.objectValue ?? [:]).compactMap { category, form in
                form.stringValue.map { (category, $0) }
            }
        )
    }

    /// The places of values in a text.
    private static func places(_ text: String) -> Set<String> {
        Set(text.matches(of: #/\{(\w+)\}/#).map { String($0.output.1) })
    }

    @Test("has the same texts in each language, with every plural form and the same values in them")
    func languages() throws {
        let texts = try Self.texts()
        let categories: [String: Set<String>] = [
            "en": ["one", "other"], "fa": ["one", "other"], "ru": ["one", "few", "many", "other"],
        ]
        #expect(Set(texts.keys) == Set(categories.keys))
        let english = try #require(texts["en"])
        for (language, known) in texts {
            #expect(Set(known.keys).symmetricDifference(english.keys).isEmpty, "\(language)")
            for (key, text) in english {
                let (own, other) = (Self.forms(text), Self.forms(known[key]))
                let wanted = own[""] == nil ? categories[language] : [""]
                #expect(Set(other.keys) == wanted, "\(language) \(key)")
                let places = own.values.first.map(Self.places)
                for form in other.values { #expect(!form.isEmpty && Self.places(form) == places, "\(language) \(key)") }
            }
        }
    }

    @Test("has a word for each state of a delivery")
    func states() throws {
        let english = try #require(try Self.texts()["en"])
        for state in DeliveryState.allCases { #expect(english["states.\(state.rawValue)"] != nil, "\(state)") }
    }

    @Test("has no words in its markup but its name, and what is said where no script runs")
    func words() throws {
        var rest = markup
        for part in ["<title>[^<]*</title>", "<noscript>.*?</noscript>", "<[^>]*>"] {
            rest = rest.replacing(try Regex(part).dotMatchesNewlines(), with: "")
        }
        #expect(rest.trimmingCharacters(in: .whitespacesAndNewlines).isEmpty)
        #expect(!markup.contains("aria-label=") && !markup.contains("placeholder=") && !markup.contains("title="))
    }

    @Test("runs its own script and style, and makes no markup of a text")
    func policy() throws {
        for (element, content) in [("script", DashboardPage.script), ("style", style)] {
            let hash = Data(SHA256.hash(data: Data(content.utf8))).base64EncodedString()
            #expect(page.policy.contains("\(element)-src 'sha256-\(hash)'"))
            #expect(page.text.contains("<\(element)>\(content)</\(element)>"))
            #expect(!content.contains("</\(element)"), "it would end there")
        }
        #expect(page.policy.hasPrefix("default-src 'none'; script-src 'sha256-"))
        #expect(page.policy.contains("require-trusted-types-for 'script'; trusted-types 'none'"))
        #expect(page.policy.contains("frame-ancestors 'none'") && !page.policy.contains("unsafe"))
        let texts = try #require(page.text.firstRange(of: "id=\"texts\">"))
        let json = page.text[texts.upperBound...].prefix { $0 != "<" }
        #expect(try JSONValue(parsing: Array(json.utf8)).objectValue?.count == 3)
    }

    @Test(
        "has no way from a text to markup in its scripts",
        arguments: [
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser",
            "setAttribute(\"on", "setAttribute(\"style",
        ]
    )
    func markupOfTexts(_ word: String) { #expect(!DashboardPage.script.contains(word)) }

    @Test("keeps every line of code when it leaves out comments: no text of the scripts has several lines")
    func textsOfOneLine() {
        for line in String(decoding: EmbeddedDocuments.scripts, as: UTF8.self).split(separator: "\n") {
            #expect(line.count(where: { $0 == "`" }).isMultiple(of: 2), "\(line)")
        }
    }

    @Test("defines each view once, and begins last")
    func order() throws {
        let script = DashboardPage.script
        let paths = script.matches(of: #/addView\(\{\s*path: "([^"]+)"/#).map { String($0.output.1) }
        #expect(Set(paths).count == paths.count && paths.contains("/") && paths.contains("/messages/:id"))
        let start = try #require(script.ranges(of: "\nbegin();").last)
        #expect(script[start.upperBound...].trimmingCharacters(in: .whitespacesAndNewlines).isEmpty)
        let sources = String(decoding: EmbeddedDocuments.scripts, as: UTF8.self)
        let names = sources.matches(of: #/(?m)^(?:async function|function|const|let|class) (\w+)/#)
            .map { String($0.output.1) }
        let twice = Dictionary(grouping: names) { $0 }.filter { $0.value.count > 1 }.keys.sorted()
        #expect(twice.isEmpty, "a name of two files: the second one would take the place of the first")
    }

    /// A request for the page.
    private static func request(_ fields: HTTPFields) -> HTTPRequest {
        HTTPRequest(method: .get, scheme: nil, authority: nil, path: "/", headerFields: fields)
    }

    @Test("is at most 150 KB compressed, and comes compressed where the browser takes that")
    func compression() throws {
        let compressed = try #require(page.compressed)
        #expect(compressed.count <= 150_000 && compressed.starts(with: [0x1F, 0x8B]))
        let answer = page.answer(Self.request([.acceptEncoding: "br, gzip;q=0.8"]))
        #expect(answer.status == .ok && answer.headers[.contentEncoding] == "gzip")
        #expect(answer.body.contentLength == compressed.count)
        for value in ["br", "gzip;q=0", "identity"] {
            let plain = page.answer(Self.request([.acceptEncoding: value]))
            #expect(plain.headers[.contentEncoding] == nil && plain.body.contentLength == page.text.utf8.count)
        }
        #expect(answer.headers[.vary] == "Accept-Encoding")
    }

    @Test("is not sent a second time to a browser that has it, and cannot be framed")
    func freshness() throws {
        for fields: HTTPFields in [[:], [.acceptEncoding: "gzip"]] {
            let tag = try #require(page.answer(Self.request(fields)).headers[.eTag])
            var second = fields
            second[.ifNoneMatch] = "\"other\", W/\(tag)"
            let answer = page.answer(Self.request(second))
            #expect(answer.status == .notModified && answer.body.contentLength ?? 0 == 0)
            #expect(answer.headers[.eTag] == tag && answer.headers[.contentSecurityPolicy] == page.policy)
            second[.ifNoneMatch] = "\"other\""
            #expect(page.answer(Self.request(second)).status == .ok)
        }
        let headers = page.answer(Self.request([:])).headers
        #expect(headers[.frameOptions] == "DENY" && headers[.crossOriginOpenerPolicy] == "same-origin")
        #expect(headers[.referrerPolicy] == "no-referrer" && headers[.xContentTypeOptions] == "nosniff")
    }
}
