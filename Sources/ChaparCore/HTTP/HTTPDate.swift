public import Foundation

extension HTTPAnswer {
    /// The time of the answer by the peer's clock, from its `date` field; nil when there is no readable one.
    public var date: Date? { header("date").flatMap(HTTPDate.parse) }

    /// Returns the pause that the peer asks for in its `retry-after` field, which has seconds or a time.
    ///
    /// A time counts from ``date``, the peer's clock, or from `now` where the answer has no date. Nil when there is no
    /// readable value. The pause is never negative, and at most a day, since a peer's mistake must not stop a worker
    /// for a year.
    public func retryAfter(now: Date) -> Duration? {
        guard let text = header("retry-after") else { return nil }
        let seconds: Double
        if let number = Int64(text) {
            seconds = Double(number)
        } else if let time = HTTPDate.parse(text) {
            seconds = time.timeIntervalSince(date ?? now).rounded(.up)
        } else {
            return nil
        }
        return .seconds(clamping: min(max(seconds, 0), 86400).rounded(.down))
    }
}

/// The format of times in HTTP header fields (RFC 9110 section 5.6.7).
public enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]  // From 1970-01-01 on.
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`; nil for anything else, the two obsolete forms included.
    public static func parse(_ text: String) -> Date? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT",
            let day = Int(parts[1]), let month = months.firstIndex(where: { $0 == parts[2] }), let year = Int(parts[3])
        else { return nil }
        let clock = parts[4].split(separator: ":").map { Int($0) ?? -1 }
        guard clock.count == 3, (0..<24).contains(clock[0]), (0..<60).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        func digits(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let second = min(clock[2], 59)  // A leap second counts as the one before it.
        let iso =
            "\(year)-\(digits(month + 1))-\(digits(day))T"
            + "\(digits(clock[0])):\(digits(clock[1])):\(digits(second))Z"
        return RFC3339.parse(iso)
    }

    /// Writes a time in this form, to the second.
    public static func text(_ time: Date) -> String {
        let seconds = Int(clamping: time.timeIntervalSince1970.rounded(.down))
        let day = seconds >= 0 ? seconds / 86400 : (seconds - 86399) / 86400
        let iso = RFC3339.string(Date(timeIntervalSince1970: Double(seconds)))
        let fields = iso.split { "-T:.".contains($0) }
        let month = Int(fields[1]) ?? 1
        return "\(days[((day % 7) + 7) % 7]), \(fields[2]) \(months[month - 1]) \(fields[0]) "
            + "\(fields[3]):\(fields[4]):\(fields[5]) GMT"
    }
}
