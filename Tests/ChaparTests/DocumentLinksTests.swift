import Foundation
import Testing

/// Links of the pages lead somewhere, every page is near the README, and what people ask is answered there.
@Suite(
    "The links of the documents",
    .timeLimit(.minutes(1)),
    .enabled(if: Platforms.missing.isEmpty, "The pages speak of every plugin.")
)
struct DocumentLinksTests {
    /// Clicks from the README that a page may be away.
    private static let mostClicks = 2

    @Test("Every link leads to a file, and its anchor to a heading")
    func links() throws {
        let pages = try Page.all() + Page.others()
        let byPath = Dictionary(uniqueKeysWithValues: pages.map { ($0.path, $0) })
        #expect(pages.flatMap(\.links).count > 100)
        for page in pages {
            for link in page.links {
                let place = "\(page.path):\(link.line): \(link.target)"
                #expect(FileManager.default.fileExists(atPath: Page.root.appending(path: link.path).path), "\(place)")
                if let anchor = link.anchor, let target = byPath[link.path] {
                    #expect(target.section(anchor) != nil, "\(place)")
                }
            }
        }
    }

    /// How many clicks each page is away from the README.
    private static func clicks(_ pages: [Page]) -> [String: Int] {
        let byPath = Dictionary(uniqueKeysWithValues: pages.map { ($0.path, $0) })
        var clicks = ["README.md": 0]
        var next = ["README.md"]
        while !next.isEmpty {
            let page = next.removeFirst()
            for link in byPath[page]?.links ?? [] where clicks[link.path] == nil && byPath[link.path] != nil {
                clicks[link.path] = clicks[page, default: 0] + 1
                next.append(link.path)
            }
        }
        return clicks
    }

    @Test("Every page is two clicks away from the README at most")
    func reach() throws {
        let pages = try Page.all()
        let clicks = Self.clicks(pages)
        for page in pages {
            let count = try #require(clicks[page.path], "\(page.path) cannot be reached")
            #expect(count <= Self.mostClicks, "\(page.path) is \(count) clicks away")
        }
    }

    /// Questions of readers, with words that the answer must have; they were written before the pages.
    static let questions: [(question: String, words: [String])] = [
        ("send my first message", ["chapar demo", "/v1/notifications"]),
        ("get a key from Apple", [".p8", "developer.apple.com", "key_id"]),
        ("get credentials from Google", ["service account", "project", "service_account_file"]),
        ("reach phones without Google", ["huawei", "fallback"]),
        ("send to a user with several devices", ["\"users\"", "PUT /v1/devices"]),
        ("send to thousands at once", ["batch", "10,000"]),
        ("send a picture, a badge, buttons, a silent message", ["image", "category", "\"silent\"", "click_url"]),
        ("send at a time, or cancel", ["send_at", "DELETE"]),
        ("find out what became of a message", ["/deliveries", "attempts"]),
        ("find out why a message was refused", ["reason", "what you do"]),
        ("repeat a request safely", ["Idempotency-Key"]),
        ("make API keys and change them", ["chapar keys create", "rotate", "scopes"]),
        ("serve HTTPS", ["server.tls", "trusted_proxies"]),
        ("keep secrets out of the file", ["${", "file:"]),
        ("find out why a key cannot be read", ["openssl", "is cut off"]),
        ("go through a proxy with a password", ["`proxy`", "password"]),
        ("back the store up and restore it", ["chapar backup", "chapar restore"]),
        ("upgrade, and go back", ["older", "backup"]),
        ("know what to alert on", ["chapar_queue_oldest_age_seconds", "chapar_ledger_difference"]),
        ("choose a machine", ["cores", "MiB"]),
        ("erase a user", ["chapar users erase", "backups"]),
        ("move from gorush", ["chapar init --from", "collapse_id", "gorush_ios_success"]),
        ("import devices from OneSignal", ["--from onesignal", "unsubscribed", "csv_export"]),
        ("try things without an account", ["chapar sandbox", "0410"]),
        ("send builds from Xcode and from the App Store", ["development", "BadDeviceToken"]),
        ("serve several apps", ["apps:", "?app="]),
        ("send from Python or Java", ["openapi-python-client", "openapi-generator-cli", "idempotency"]),
        ("send from a Swift program", ["PushClient", "import"]),
        ("send durably from my own server", ["gateway.accept", "Gateway(store:", "crash"]),
        ("add a platform", ["PushBackend", "ChaparTesting"]),
        ("add a platform in another language", ["kind: http", "webhook-signature"]),
        ("start a Live Activity", ["live_activity_start", "liveactivity"]),
    ]

    @Test(
        "Each question is asked on one page, one click from the README, and its answer has the words",
        arguments: questions
    )
    func answers(question: String, words: [String]) throws {
        let pages = try Page.all()
        #expect(Self.clicks(pages)["docs/Questions.md"] == 1)
        let asking = try #require(pages.first { $0.path == "docs/Questions.md" })
        let lines = asking.text.split(separator: "\n")
        let line = try #require(lines.first { $0.contains("How do I \(question)?") }, "nobody asks: \(question)")
        let target = try #require(line.firstMatch(of: #/\]\(([^)]+)\)/#), "no answer: \(line)")
        let link = try #require(asking.links.first { $0.target == target.output.1 })
        let page = try #require(pages.first { $0.path == link.path }, "no page: \(link.target)")
        let answer: String
        if let anchor = link.anchor {
            // Headings do not see what stands in fenced blocks: the page's own text does.
            let section = try #require(page.section(anchor), "no such heading: \(link.target)")
            answer = try #require(page.whole(section))
        } else {
            answer = page.text
        }
        for word in words { #expect(answer.lowercased().contains(word.lowercased()), "\(link.target) lacks \(word)") }
    }
}

extension Page {
    /// A section with its fenced blocks.
    func whole(_ heading: Heading) -> String? {
        let index = headings.firstIndex { $0.anchor == heading.anchor } ?? 0
        let lines = text.components(separatedBy: "\n")
        guard let first = lines.firstIndex(of: String(repeating: "#", count: heading.level) + " " + heading.title)
        else { return nil }
        let next = headings[(index + 1)...].first { $0.level <= heading.level }
        let end = next.flatMap { next in
            lines[(first + 1)...].firstIndex(of: String(repeating: "#", count: next.level) + " " + next.title)
        }
        return lines[first..<(end ?? lines.count)].joined(separator: "\n")
    }
}
