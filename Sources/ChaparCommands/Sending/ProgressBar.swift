import Foundation
import ChaparCore

/// A bar on a terminal's stderr with rate and remaining time; silent without a terminal.
struct ProgressBar {
    private let isShown: Bool
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?

    init(isShown: Bool) { self.isShown = isShown && Shell.isErrorTerminal }

    /// Draws the bar, at most ten times a second; `fraction` is nil when the total is unknown.
    mutating func update(done: Int, fraction: Double?, isLast: Bool = false) {
        let now = ContinuousClock.now
        guard isShown, isLast || lastDrawn.map({ now - $0 > .milliseconds(100) }) ?? true else { return }
        lastDrawn = now
        Shell.draw("\r\u{1B}[K" + Self.line(done: done, fraction: fraction, after: now - start) + (isLast ? "\n" : ""))
    }

    /// Returns the text of the bar.
    static func line(done: Int, fraction: Double?, after elapsed: Duration) -> String {
        let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
        let rate = seconds > 0 ? Double(done) / seconds : 0
        guard let fraction else { return "\(done) done, \(Int(clamping: rate))/s" }
        let filled = Int(clamping: min(max(fraction, 0), 1) * 24)
        let bar = String(repeating: "#", count: filled) + String(repeating: "-", count: 24 - filled)
        let left = fraction > 0.001 ? seconds / fraction - seconds : nil
        let eta = left.map { ", \(Int(clamping: $0.rounded(.up))) s left" } ?? ""
        return "[\(bar)] \(Int(clamping: fraction * 100)) %  \(done) done, \(Int(clamping: rate))/s\(eta)"
    }
}
