import ChaparCore
import Foundation

/// The page of `chapar top`, made of answers of the API: the blocks of the page "Now", in the same order.
struct TopPage {
    /// Something that needs a hand.
    struct Trouble: Equatable {
        /// The mark before it.
        var mark: String
        /// A backend, a campaign, or the gateway.
        var name: String
        var text: String
    }

    let now: Date
    let range: String
    let backends: JSONValue
    let series: JSONValue
    let campaigns: JSONValue

    /// The counts of the range, in the order of the page; nil where the API has none.
    var totals: [(name: String, count: Int64?)] {
        let (waiting, values) = (onItsWay, series["series"])
        func sum(_ name: String) -> Int64? {
            let numbers = (values?[name]?.arrayValue ?? []).compactMap(\.integerValue)
            return numbers.isEmpty ? nil : numbers.reduce(0) { $0.adding(clamping: $1) }
        }
        return [
            ("accepted", sum("accepted")), ("on_its_way", waiting), ("handed_over", sum("handed_over")),
            ("arrived", sum("arrived")), ("failed", sum("failed")), ("expired", sum("expired")),
            ("unknown", sum("unknown")),
        ]
    }

    private var all: [JSONValue] { backends["backends"]?.arrayValue ?? [] }

    /// The deliveries that wait or are claimed now.
    private var onItsWay: Int64 {
        all.reduce(0) { sum, backend in
            ["waiting", "claimed"].reduce(sum) { $0.adding(clamping: backend.worker?[$1]?.integerValue ?? 0) }
        }
    }

    /// The highest age of an overdue delivery, in seconds; nil when none is overdue.
    private var oldest: Double? { all.compactMap { $0.worker?["oldest_age"]?.numberValue }.max() }

    // MARK: Troubles

    var troubles: [Trouble] {
        var found: [Trouble] = []
        for backend in all {
            let name = backend["name"]?.words ?? ""
            if backend["gone"]?.boolValue == true {
                let count = backend.worker?["waiting"]?.integerValue ?? 0
                let text = "is not configured, and \(Self.text(count)) wait for it"
                found.append(Trouble(mark: "✕", name: name, text: text))
            } else if Self.isTroubled(backend) {
                found.append(Trouble(mark: "✕", name: name, text: BackendsListCommand.health(of: backend).onOneLine))
            }
            found += endings(backend["health"]?["credential_expiries"], of: name)
        }
        found += endings(backends["credential_expiries"], of: "gateway")
        for campaign in items where campaign["audience"]?["paused"]?.boolValue == true {
            guard let reason = campaign["audience"]?["pause_reason"]?.words else { continue }
            found.append(Trouble(mark: "⏸", name: Self.name(of: campaign), text: "paused itself: \(reason)"))
        }
        return found
    }

    private static func isTroubled(_ backend: JSONValue) -> Bool {
        let worker = backend.worker
        return backend["health"]?["status"]?.stringValue != "ok" || worker?["parked"]?.boolValue == true
            || worker?.value(of: .invalidationsQuarantined)?.boolValue == true || worker?["paused_until"] != nil
            || worker?["breaker"]?.stringValue.map { $0 != "closed" } == true
    }

    private func endings(_ expiries: JSONValue?, of name: String) -> [Trouble] {
        let days = Double(backends["credential_warning_days"]?.integerValue ?? 30)
        return (expiries?.objectValue ?? JSONObject()).compactMap { credential, end in
            guard let text = end.words, let date = RFC3339.parse(text) else { return nil }
            let left = date.timeIntervalSince(now) / 86_400
            guard left <= days else { return nil }
            let what = credential.onOneLine
            let when = text.prefix(10)
            if left <= 0 { return Trouble(mark: "✕", name: name, text: "\(what) ended on \(when)") }
            let count = Int(clamping: left.rounded(.down))
            let span = count == 0 ? "today" : "in \(count) \(count == 1 ? "day" : "days")"
            return Trouble(mark: "!", name: name, text: "\(what) ends \(span) (\(when))")
        }
    }

    // MARK: Campaigns

    private var items: [JSONValue] { campaigns["items"]?.arrayValue ?? [] }
    /// The campaigns that are not over.
    private var running: [JSONValue] {
        items.filter { $0["ended_at"] == nil && $0["audience"]?["phase"]?.stringValue == "running" }
    }

    private static func name(of campaign: JSONValue) -> String {
        campaign["audience"]?["name"]?.words ?? campaign["id"]?.words ?? ""
    }

    private static func line(_ campaign: JSONValue) -> String {
        let part = min(max(campaign["audience"]?["progress"]?.numberValue ?? 0, 0), 1)
        let filled = Int(clamping: part * 20)
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
        let isPaused = campaign["audience"]?["paused"]?.boolValue == true
        let enqueued = text(campaign["audience"]?["enqueued"]?.integerValue ?? 0)
        return "  \(cut(name(of: campaign), 30).padded(to: 30)) \(bar) \(Int(clamping: part * 100)) %  \(enqueued)"
            + (isPaused ? "  paused" : "")
    }

    // MARK: The page

    /// The lines of the page, none of them longer than `columns`.
    func lines(columns: Int) -> [String] {
        let troubles = troubles
        let time = RFC3339.string(now).prefix(19).replacing("T", with: " ")
        var lines = ["\(GatewayProgram.current.name) top  \(time) UTC  last \(range)", ""]
        if troubles.isEmpty {
            let age = oldest.map { "Oldest unsent: \(Self.age($0))." } ?? "Nothing is overdue."
            lines.append("✓ Nothing needs a hand. \(age)")
        } else {
            lines.append("Needs a hand (\(troubles.count))")
            let width = min(20, troubles.map(\.name.count).max() ?? 0)
            lines += troubles.map { "  \($0.mark) \(Self.cut($0.name, width).padded(to: width))  \($0.text)" }
        }
        lines.append("")
        let cells = totals.map { total -> (String, String) in
            (total.name.replacing("_", with: " "), total.count.map(Self.text) ?? "–")
        }
        for row in [cells.map(\.0), cells.map(\.1)] {
            let padded = zip(row, cells).map { $0.padded(to: max($1.0.count, $1.1.count), isAtEnd: true) }
            lines.append(padded.joined(separator: "  "))
        }
        lines.append("")
        lines += charts(columns: columns)
        var table = TextTable("BACKEND", "KIND", "IN FLIGHT", "WAITING", "OLDEST", "STATE")
        for backend in all.filter(Self.isTroubled) + all.filter({ !Self.isTroubled($0) }) {
            let worker = backend.worker
            let flight = "\(worker?["in_flight"]?.integerValue ?? 0)/\(worker?["window"]?.integerValue ?? 0)"
            table.add(
                Self.cut(backend["name"]?.words ?? "", 20),
                Self.cut(backend["kind"]?.words ?? "", 10),
                flight,
                Self.text(worker?["waiting"]?.integerValue ?? 0),
                worker?["oldest_age"]?.numberValue.map(Self.age) ?? "-",
                BackendsListCommand.health(of: backend)
            )
        }
        lines += table.lines
        if !running.isEmpty { lines += ["", "Campaigns"] + running.prefix(8).map(Self.line) }
        return lines.map { Self.cut($0, columns) }
    }

    private func charts(columns: Int) -> [String] {
        func values(_ names: String...) -> [Int64?] {
            let all = names.map { series["series"]?[$0]?.arrayValue?.map(\.integerValue) ?? [] }
            return (all.first ?? []).indices.map { place in
                let step = all.compactMap { place < $0.count ? $0[place] : nil }
                return step.isEmpty ? nil : step.reduce(0) { $0.adding(clamping: $1) }
            }
        }
        let rows = [
            ("handed over", values("handed_over"), Self.short),
            ("failures", values("failed", "expired", "unknown"), Self.short),
            ("queue age", values("oldest"), { Self.age(Double($0)) }),
        ].filter { !$0.1.isEmpty }
        guard !rows.isEmpty else { return [] }
        // Beside the name and the last value: the 60 steps of an hour on a terminal of 80 columns.
        let space = max(10, columns - 20)
        return rows.map { name, values, text in
            let last = values.last.flatMap { $0 }.map(text) ?? "–"
            return "\(name.padded(to: 12))\(Self.spark(values, columns: space)) \(last)"
        } + [""]
    }

    /// Returns a line of bars, one for several values where there are more than columns; a point for no value.
    static func spark(_ values: [Int64?], columns: Int) -> String {
        let bars = Array("▁▂▃▄▅▆▇█")
        let share = max(1, (values.count + columns - 1) / max(1, columns))
        let points = stride(from: 0, to: values.count, by: share).map { start in
            values[start..<min(start + share, values.count)].compactMap { $0 }.max()
        }
        let highest = points.compactMap { $0 }.max() ?? 0
        return String(
            points.map { value -> Character in
                guard let value else { return "·" }
                guard highest > 0 else { return bars[0] }
                let level = (Double(value) / Double(highest) * Double(bars.count - 1)).rounded(.up)
                return bars[min(bars.count - 1, max(0, Int(clamping: level)))]
            }
        )
    }

    /// The page as one value: the answers that it is made of, with what was made of them.
    var json: JSONValue {
        var counts = JSONObject()
        for total in totals { counts[total.name] = total.count.map { .integer($0) } ?? .null }
        return .object([
            "at": .string(RFC3339.string(now)), "range": .string(range),
            "needs_a_hand": .array(
                troubles.map { .object(["name": .string($0.name), "text": .string($0.text)]) }
            ),
            "totals": .object(counts), "oldest_age": oldest.map { .double($0) } ?? .null, "series": series,
            "backends": .array(all), "campaigns": .array(running),
        ])
    }

    // MARK: Words

    /// Returns a number with commas between thousands.
    static func text(_ number: Int64) -> String {
        var digits = Array(String(number.magnitude))
        var place = digits.count - 3
        while place > 0 {
            digits.insert(",", at: place)
            place -= 3
        }
        return (number < 0 ? "-" : "") + String(digits)
    }

    /// Returns a number of at most seven characters, beyond 99,999 a rounded one.
    static func short(_ number: Int64) -> String {
        switch number {
        case ..<100_000: text(number)
        case ..<10_000_000: "\(number / 1_000) k"
        case ..<10_000_000_000: "\(number / 1_000_000) M"
        default: "\(text(number / 1_000_000_000)) G"
        }
    }

    /// Returns a span in seconds, in its largest unit.
    static func age(_ seconds: Double) -> String {
        let count = Int(clamping: seconds.rounded(.down))
        return switch count {
        case ..<120: "\(count) s"
        case ..<7_200: "\(count / 60) min"
        case ..<172_800: "\(count / 3_600) h"
        default: "\(count / 86_400) d"
        }
    }

    private static func cut(_ text: String, _ columns: Int) -> String {
        text.count <= columns ? text : String(text.prefix(max(0, columns - 1))) + "…"
    }
}

extension String {
    /// Returns the text with blanks up to a number of columns.
    fileprivate func padded(to columns: Int, isAtEnd: Bool = false) -> String {
        let blanks = String(repeating: " ", count: max(0, columns - count))
        return isAtEnd ? blanks + self : self + blanks
    }
}
