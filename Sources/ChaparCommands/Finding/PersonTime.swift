import ChaparCore
import Foundation

/// A time as people write it: `yesterday`, `2h`, `2026-11-26`, `14:30`, or RFC 3339.
enum PersonTime {
    /// The side of now that a span such as `2h` is on.
    enum Direction {
        case past, future
    }

    /// The forms, for help and complaints.
    static let forms = "yesterday, today, tomorrow, now, 30m, 2h, 7d, 14:30, 2026-11-26, 2026-11-26T14:30 or RFC 3339"

    private static let spans: [Character: Int] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800]

    /// Reads a time; nil for a text of no form.
    ///
    /// Days and times of day are those of the calendar's zone.
    static func parse(_ text: String, _ direction: Direction, now: Date, calendar: Calendar = .current) -> Date? {
        let word = text.lowercased().trimmingCharacters(in: .whitespaces)
        if let time = RFC3339.parse(text.trimmingCharacters(in: .whitespaces)) { return time }
        let today = calendar.startOfDay(for: now)
        switch word {
        case "now": return now
        case "today": return today
        case "yesterday": return calendar.date(byAdding: .day, value: -1, to: today)
        case "tomorrow": return calendar.date(byAdding: .day, value: 1, to: today)
        default: break
        }
        if let last = word.last, let unit = spans[last], let count = Int(word.dropLast()), (0...100_000).contains(count)
        {
            let span = TimeInterval(count * unit)  // Fits: both are bounded.
            return now.addingTimeInterval(direction == .past ? -span : span)
        }
        let parts = word.split(whereSeparator: { $0 == "t" || $0 == " " }).map(String.init)
        switch parts.count {
        case 1:
            if let day = day(parts[0], calendar) { return day }
            guard let clock = clock(parts[0]), let time = calendar.date(byAdding: clock, to: today) else { return nil }
            // The next one for what is to come, the last one for what was.
            if direction == .future, time <= now { return calendar.date(byAdding: .day, value: 1, to: time) }
            if direction == .past, time > now { return calendar.date(byAdding: .day, value: -1, to: time) }
            return time
        case 2:
            return day(parts[0], calendar).flatMap { day in
                clock(parts[1]).flatMap { calendar.date(byAdding: $0, to: day) }
            }
        default: return nil
        }
    }

    /// Reads a time for the API, or throws what is wrong with an option.
    static func text(_ text: String, _ direction: Direction, option: String, now: Date = Date()) throws -> String {
        guard let time = parse(text, direction, now: now) else {
            throw CommandFailure("\(option): \"\(text.onOneLine)\" is no time: write \(forms).", .usage)
        }
        return RFC3339.string(time)
    }

    private static func day(_ text: String, _ calendar: Calendar) -> Date? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].count == 4, let year = Int(parts[0]), let month = Int(parts[1]),
            let day = Int(parts[2]), (1970...9999).contains(year), (1...12).contains(month), (1...31).contains(day)
        else { return nil }
        let components = DateComponents(year: year, month: month, day: day)
        guard let date = calendar.date(from: components), calendar.component(.day, from: date) == day else {
            return nil
        }
        return date
    }

    private static func clock(_ text: String) -> DateComponents? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard (2...3).contains(parts.count), let hour = Int(parts[0]), let minute = Int(parts[1]),
            (0...23).contains(hour), (0...59).contains(minute)
        else { return nil }
        guard parts.count == 3 else { return DateComponents(hour: hour, minute: minute) }
        guard let second = Int(parts[2]), (0...59).contains(second) else { return nil }
        return DateComponents(hour: hour, minute: minute, second: second)
    }
}
