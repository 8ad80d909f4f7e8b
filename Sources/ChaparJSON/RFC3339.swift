public import Foundation

/// The API's form of times: RFC 3339 in UTC with milliseconds, by integer arithmetic, since every event has some.
public enum RFC3339 {
    /// Appends `2026-11-21T07:44:06.123Z` to a JSON document, as a string.
    public static func write(_ time: Date, to writer: inout JSONWriter) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 26) { text in
            text[0] = UInt8(ascii: "\"")
            fill(UnsafeMutableBufferPointer(rebasing: text[1..<25]), time.millisecondsSince1970)
            text[25] = UInt8(ascii: "\"")
            writer.raw(text)
        }
    }

    /// Returns `2026-11-21T07:44:06.123Z`; a time before the year 1 or after 9999 is limited to that range.
    public static func string(_ time: Date) -> String {
        String(unsafeUninitializedCapacity: 24) { text in
            fill(text, time.millisecondsSince1970)
            return 24
        }
    }

    /// Reads a time of the years 1 to 9999 with any offset and up to nine digits of a second's fraction; nil for any
    /// other text.
    public static func parse(_ text: String) -> Date? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: "T") || bytes[10] == UInt8(ascii: "t"), bytes[13] == UInt8(ascii: ":"),
            bytes[16] == UInt8(ascii: ":"), let year = number(bytes[0..<4]), let month = number(bytes[5..<7]),
            let day = number(bytes[8..<10]), let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]),
            let second = number(bytes[17..<19]), (1...12).contains(month), day >= 1, day <= length(of: month, in: year),
            hour < 24, minute < 60, second < 60
        else { return nil }
        var place = 19
        var fraction = 0.0
        if bytes[place] == UInt8(ascii: ".") {
            let digits = bytes[(place + 1)...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard (1...9).contains(digits.count), let value = number(digits) else { return nil }
            fraction = Double(value)
            for _ in 0..<digits.count { fraction /= 10 }
            place += 1 + digits.count
        }
        guard place < bytes.count, let offset = offset(bytes[place...]) else { return nil }
        let days = days(year, month, day)
        let seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
        let time = Date(timeIntervalSince1970: Double(seconds) + fraction)
        return years.contains(time.millisecondsSince1970) ? time : nil
    }

    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int? {
        let bytes = Array(bytes)
        if bytes.count == 1 { return bytes[0] == UInt8(ascii: "Z") || bytes[0] == UInt8(ascii: "z") ? 0 : nil }
        guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"), let hours = number(bytes[1..<3]),
            let minutes = number(bytes[4..<6]), hours < 24, minutes < 60
        else { return nil }
        let seconds = hours * 3600 + minutes * 60
        switch bytes[0] {
        case UInt8(ascii: "+"): return seconds
        case UInt8(ascii: "-"): return -seconds
        default: return nil
        }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var value = 0
        for byte in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return value
    }

    private static func length(of month: Int, in year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Returns the days since 1970 of a Gregorian date (the algorithm counts years from March, so that the leap day is
    /// the last).
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146097 + dayOfEra - 719468
    }

    /// The years that four digits can name, 1 to 9999, in milliseconds since 1970.
    private static let years: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

    private static func fill(_ text: UnsafeMutableBufferPointer<UInt8>, _ time: Int64) {
        let milliseconds = min(max(time, years.lowerBound), years.upperBound)
        let before = milliseconds.subtracting(clamping: 999)
        let seconds = Int(milliseconds >= 0 ? milliseconds / 1000 : before / 1000)
        let fraction = Int(milliseconds) - seconds * 1000
        let dayNumber = seconds >= 0 ? seconds / 86400 : (seconds - 86399) / 86400
        let clock = seconds - dayNumber * 86400
        let shifted = dayNumber + 719468
        let era = (shifted >= 0 ? shifted : shifted - 146096) / 146097
        let dayOfEra = shifted - era * 146097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func put(_ value: Int, _ place: Int, _ count: Int) {
            var value = value
            for offset in (0..<count).reversed() {
                text[place + offset] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value % 10)
                value /= 10
            }
        }
        put(year, 0, 4)
        text[4] = UInt8(ascii: "-")
        put(month, 5, 2)
        text[7] = UInt8(ascii: "-")
        put(day, 8, 2)
        text[10] = UInt8(ascii: "T")
        put(clock / 3600, 11, 2)
        text[13] = UInt8(ascii: ":")
        put(clock / 60 % 60, 14, 2)
        text[16] = UInt8(ascii: ":")
        put(clock % 60, 17, 2)
        text[19] = UInt8(ascii: ".")
        put(fraction, 20, 3)
        text[23] = UInt8(ascii: "Z")
    }
}
