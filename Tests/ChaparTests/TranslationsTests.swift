import Foundation
import Testing

/// The README is short, and says the same in every language.
@Suite("The README in other languages", .timeLimit(.minutes(1)))
struct TranslationsTests {
    @Test("The README has at most 250 lines")
    func length() throws {
        let lines = try Page("README.md").text.split(separator: "\n", omittingEmptySubsequences: false).count
        #expect(lines <= 250)
    }

    @Test("Each has the headings, commands, code, rows and links of the English one, and they lead to one another")
    func inStep() throws {
        let english = try Page("README.md")
        let translations = try Page.translations()
        #expect(translations.map(\.path) == ["README.fa.md", "README.ru.md"])
        for page in [english] + translations {
            let others = Set(([english] + translations).map(\.path)).subtracting([page.path])
            #expect(Set(page.links.map(\.path)).isSuperset(of: others), "\(page.path)")
        }
        for page in translations {
            #expect(page.headings.map(\.level) == english.headings.map(\.level), "\(page.path)")
            #expect(page.blocks.count == english.blocks.count, "\(page.path)")
            for (own, block) in zip(page.blocks, english.blocks) {
                #expect(own.info == block.info && own.text == block.text, "\(page.path): \(own.text)")
            }
            #expect(Self.rows(page) == Self.rows(english), "\(page.path)")
            #expect(Self.targets(page) == Self.targets(english), "\(page.path)")
            #expect(Self.figures(page) == Self.figures(english), "\(page.path)")
        }
    }

    /// How many cells each row of a table has.
    private static func rows(_ page: Page) -> [Int] {
        page.text.split(separator: "\n").filter { $0.hasPrefix("|") }.map { $0.count { $0 == "|" } }
    }

    /// The files that links lead to, without the other languages; a picture in the page's own language counts as the
    /// English one.
    private static func targets(_ page: Page) -> [String] {
        page.links.map { $0.path.replacing(#/\.(fa|ru)\.png$/#, with: ".png") }.filter { !$0.hasPrefix("README") }
            .sorted()
    }

    /// The figures of the section of figures, written as in English.
    private static func figures(_ page: Page) -> [String] {
        page.text.split(separator: "\n").filter { $0.hasPrefix("|") }
            .flatMap { $0.matches(of: #/[0-9]+(?:[.,][0-9]+)*/#).map { String($0.output) } }
    }
}
