import ChaparCore
import Foundation
import Synchronization

/// The lines of a page that is drawn at once, instead of one by one as ``Shell`` writes them.
final class ShellPage: Sendable {
    private let text = Mutex("")

    func append(_ more: String) { text.withLock { $0 += more } }

    /// The lines, without those after the last line break.
    var lines: [Substring] {
        var lines = text.withLock { $0 }.split(separator: "\n", omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        return lines
    }
}

/// Shows the output of a command again and again, in place on a terminal, until the program is interrupted.
///
/// On a terminal it uses the second screen, so that what stood before is there again at the end. Elsewhere each page
/// follows the one before, as a stream.
struct LiveScreen {
    /// The pause between two pages.
    let interval: Duration
    /// Whether pages are drawn in place.
    let isInPlace: Bool

    private static let begin = "\u{1B}[?1049h\u{1B}[?25l"
    private static let end = "\u{1B}[?25h\u{1B}[?1049l"

    /// Shows what `body` writes until SIGINT or SIGTERM.
    ///
    /// A gateway that gives no answer after the first page is asked again. The last page stays, with a line about it.
    ///
    /// - Throws: The error of the first page, and any later one that does not pass.
    func run(_ body: @escaping @Sendable () async throws -> Void) async throws {
        // The first page also shows wrong usage, which belongs on the first screen.
        let first = ShellPage()
        try await Shell.$page.withValue(first) { try await body() }
        let interruption = await Interruption()
        if isInPlace { Shell.show(raw: Self.begin) }
        defer { if isInPlace { Shell.show(raw: Self.end) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await interruption.wait() }
            group.addTask { try await pages(after: first, body) }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Draws a page after each interval; ends only with an error or by cancellation.
    private func pages(after first: ShellPage, _ body: @escaping @Sendable () async throws -> Void) async throws {
        var page = first
        draw(page, note: nil)
        while true {
            guard (try? await Task.sleep(for: interval)) != nil else { return }
            let next = ShellPage()
            var note: String?
            do {
                try await Shell.$page.withValue(next) { try await body() }
                page = next
            } catch let failure as CommandFailure where failure.status == .tryLater {
                note = failure.description
            }
            if Task.isCancelled { return }
            draw(page, note: note)
        }
    }

    private func draw(_ page: ShellPage, note: String?) {
        guard isInPlace else {
            for line in page.lines { Shell.show(String(line)) }
            if let note { Shell.complain(note) }
            return
        }
        Shell.show(raw: Self.frame(page.lines, note: note, rows: Shell.rows ?? 24))
    }

    /// Returns the bytes that draw lines from the top of the screen, at most `rows` of them.
    static func frame(_ lines: [Substring], note: String?, rows: Int) -> String {
        let space = max(1, rows - (note == nil ? 0 : 1))
        var shown = lines.prefix(space).map(String.init)
        if lines.count > space { shown[space - 1] = "… \(lines.count - space + 1) more lines" }
        if let note { shown.append(Shell.harmless(note.onOneLine, colours: false)) }
        return "\u{1B}[H" + shown.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n") + "\u{1B}[J"
    }
}
