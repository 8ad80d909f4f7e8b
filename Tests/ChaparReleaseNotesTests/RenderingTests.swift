import Foundation
import ChaparCore
import Testing

@testable import ChaparReleaseNotes

/// The page and the text: specs/noskhekit.md sections 7, 12 and 13.
@Suite("Release notes: page and text", .timeLimit(.minutes(1)))
struct RenderingTests {
    // MARK: Text

    @Test("The text is the specification's example")
    func example() {
        let expected = """
            ○ 1.10.0
            │   • Faster search
            │
            ● What's new in
            │ 1.4.0
            │   • Dark theme
            │   • Fixes
            │
            · 1.3.2
                • First public version

            """
        #expect(NotesText.render(.sample()) == expected)
        let plain = NotesText.render(.sample(whatsNew: nil))
        #expect(plain.contains("● 1.4.0\n│   • Dark theme") && !plain.contains("What's new"))
    }

    @Test("Lines are broken between words, within long words, and aligned", arguments: [20, 40, 80])
    func widths(width: Int) {
        let long = "Notifications open the parcel they are about and " + String(repeating: "é", count: 60)
        let view = NotesView.sample(ReleaseNotes([.init(.of("1.4"), [long]), .init(.of("1"), [long])]), whatsNew: nil)
        let lines = NotesText.render(view, .init(width: width)).split(separator: "\n").map(String.init)
        #expect(lines.allSatisfy { TerminalText.width($0) <= width })
        #expect(lines.contains { $0.hasPrefix("│     ") }, "what goes on stands under the text")
        #expect(lines.last?.hasPrefix("      ") ?? false, "after the last title there is no line")
        let words = lines.joined().filter { !"│●·• ".contains($0) && !$0.isNumber && $0 != "." }
        #expect(words == String(repeating: long.filter { $0 != " " }, count: 2))
    }

    @Test("From right to left everything is mirrored, padded by columns, isolated, with Persian digits in titles only")
    func mirrored() {
        let notes = ReleaseNotes([
            .init(.of("1.10"), ["جست‌وجو با iOS 17"]), .init(.of("1.4.0"), ["پوستهٔ تیره"]),
        ])
        let view = NotesView.sample(notes, isRightToLeft: true, whatsNew: nil)
        let lines = NotesText.render(view, .init(width: 24)).split(separator: "\n").map(String.init)
        #expect(lines[0] == String(repeating: " ", count: 16) + "\u{2067}۱.۱۰.۰\u{2069} ○")
        #expect(lines.allSatisfy { TerminalText.width($0) == 24 })
        #expect(lines[1].hasSuffix("\u{2067}جست‌وجو با iOS 17\u{2069} •   │"))
        #expect(lines[2] == String(repeating: " ", count: 23) + "│")
        let plain = NotesText.render(view, .init(width: 24, isPlain: true)).split(separator: "\n").map(String.init)
        #expect(plain[0] == "۱.۱۰.۰ ○" && plain[1] == "جست‌وجو با iOS 17 •   │")
        var turned = view
        turned.direction = .ltr
        #expect(NotesText.render(turned).hasPrefix("○ 1.10.0\n"))
    }

    static let columns: [(String, Int)] = [
        ("abc", 3), ("e\u{301}", 1), ("جست‌وجو", 6), ("日本", 4), ("👨‍👩‍👧", 2), ("\u{2067}x\u{2069}", 1), ("پوستهٔ", 5),
    ]

    @Test("Columns are counted as a terminal shows them", arguments: columns)
    func counts(text: String, width: Int) { #expect(TerminalText.width(text) == width) }

    @Test("Colours end with each line, bold follows the weight, and a change cannot bring its own")
    func colors() {
        let evil = ReleaseNotes([.init(.of("1.4"), ["a\u{1B}[31mb\rc\nd"])])
        let text = NotesText.render(.sample(evil, whatsNew: nil), .init(hasColor: true))
        let lines = text.split(separator: "\n")
        #expect(lines.allSatisfy { $0.hasSuffix("\u{1B}[0m") })
        #expect(text.contains("\u{1B}[0;1;38;2;0;122;255m1.4.0"))
        #expect(text.contains("\u{1B}[0;38;2;0;0;0ma[31mbc d"))
        let dark = NotesText.render(.sample(evil) { $0.theme = .dark }, .init(hasColor: true))
        #expect(dark.contains("38;2;10;132;255m1.4.0"))
        #expect(!NotesText.render(.sample(evil)).contains("\u{1B}"))
    }

    @Test("The review button is a last line where there is an address, and an empty list says so")
    func review() {
        let button = NotesStyle.ReviewButton(title: "Rate")
        let with = NotesView.sample {
            $0.style.reviewButton = button
            $0.reviewURL = "https://a.test/r"
        }
        #expect(NotesText.render(with).hasSuffix("\n\nRate: https://a.test/r\n"))
        #expect(!NotesText.render(.sample { $0.style.reviewButton = button }).contains("Rate"))
        #expect(NotesText.render(.sample(ReleaseNotes([]))) == "There are no versions yet.\n")
        #expect(NotesPage.html(.sample(ReleaseNotes([]))).contains("<p class=\"empty\">There are no versions yet.</p>"))
    }

    // MARK: Page

    @Test("The page is a whole document with every version in its place, and neither script nor foreign resource")
    func page() {
        let page = NotesPage.html(.sample())
        #expect(page.hasPrefix("<!doctype html>\n<html lang=\"en\" dir=\"ltr\">"))
        #expect(
            page.contains(
                """
                <ol class="versions">
                <li class="future" data-version="1.10.0">
                <h2>1.10.0</h2>
                <ul>
                <li><bdi>Faster search</bdi></li>
                </ul>
                </li>
                <li class="current" data-version="1.4.0" id="current" aria-current="true">
                <p class="whats-new">What&#39;s new in</p>
                <h2>1.4.0</h2>
                <ul>
                <li><bdi>Dark theme</bdi></li>
                <li><bdi>Fixes</bdi></li>
                </ul>
                </li>
                <li class="old" data-version="1.3.2">
                """
            )
        )
        for word in ["<script", "http://", "https://", "url(", "@import", "left:", "right:", "text-align: left"] {
            #expect(!page.contains(word), "\(word)")
        }
        #expect(page.contains("prefers-color-scheme: dark"))
        #expect(page.contains("--current-title: #007AFF;") && page.contains("--current-title: #0A84FF;"))
    }

    @Test(
        "From right to left: direction, Persian digits in titles, machine form beside; a parameter wins over the style"
    )
    func rightToLeft() {
        let page = NotesPage.html(.sample(isRightToLeft: true))
        #expect(page.contains("<html lang=\"fa\" dir=\"rtl\">"))
        #expect(page.contains("data-version=\"1.4.0\" id=\"current\"") && page.contains("<h2>۱.۴.۰</h2>"))
        let turned = NotesPage.html(.sample(isRightToLeft: true) { $0.direction = .ltr })
        #expect(turned.contains("dir=\"ltr\"") && turned.contains("<h2>1.4.0</h2>"))
    }

    @Test("A theme can be forced", arguments: [(NotesView.Theme.light, "#007AFF"), (.dark, "#0A84FF")])
    func themes(theme: NotesView.Theme, blue: String) {
        let page = NotesPage.html(.sample { $0.theme = theme })
        #expect(!page.contains("prefers-color-scheme") && page.contains("color-scheme: \(theme.rawValue);"))
        #expect(page.contains("--dot: \(blue);") && page.contains("content=\"\(theme.rawValue)\""))
    }

    @Test("Whatever stands in a text is shown, and never obeyed")
    func escaping() {
        let evil = "<script>alert('x')</script> & \"quoted\""
        let page = NotesPage.html(
            .sample(ReleaseNotes([.init(.of("1.4"), [evil])]), whatsNew: evil) {
                $0.style.reviewButton = NotesStyle.ReviewButton(title: "\"><img src=x>")
                $0.reviewURL = "https://a.test/?a=1&b=\"2"
                $0.appName = "</title><script>"
            }
        )
        #expect(
            !page.contains("<script") && !page.contains("<img") && page.contains("&lt;script&gt;alert(&#39;x&#39;)")
        )
        #expect(page.contains("href=\"https://a.test/?a=1&amp;b=&quot;2\"") && page.contains("rel=\"noopener\""))
        #expect(page.contains("&quot;&gt;&lt;img src=x&gt;"))
    }

    @Test("Two entries of the current version are both current, with one id; without an address there is no button")
    func twice() {
        let notes = ReleaseNotes([.init(.of("1.4"), ["a"]), .init(.of("1.4.0"), ["b"])])
        let page = NotesPage.html(.sample(notes) { $0.style.reviewButton = .init(title: "Rate") })
        #expect(page.components(separatedBy: "id=\"current\"").count == 2)
        #expect(page.components(separatedBy: "aria-current").count == 3)
        #expect(!page.contains("class=\"review\""))
    }
}
