/// The forms in which templates (Helm, Ansible) and people write numbers, truth values and spans of time.
enum ScalarForms {
    /// The number below which every whole one has a `Double` of its own: 2^53.
    private static let exactDoubles = 9_007_199_254_740_992.0

    /// Reads a whole number: `5000000`, `5e+06`, `65536.0`; nil for any other text.
    static func wholeNumber(_ text: String) -> Int? {
        if let number = Int(text) { return number }
        guard let number = decimal(text), abs(number) < exactDoubles else { return nil }
        return Int(exactly: number)
    }

    /// Reads a decimal number; nil for other forms that `Double` reads, such as `0x10`, `nan` and `inf`.
    static func decimal(_ text: String) -> Double? {
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) || "+-.eE".utf8.contains($0) }) else { return nil }
        return Double(text)
    }

    /// Reads a truth value in any letter case; in quotes only `true` and `false`, since `yes` there is a text.
    static func truth(_ text: String, isQuoted: Bool) -> Bool? {
        switch text.lowercased() {
        case "true": true
        case "false": false
        case "yes" where !isQuoted, "on" where !isQuoted: true
        case "no" where !isQuoted, "off" where !isQuoted: false
        default: nil
        }
    }

    /// Returns the seconds of a span with units, such as `24h`, `1h30m`, `500ms`, `2 days` or `PT15M`; nil for any
    /// other text.
    static func seconds(_ text: String) -> Double? {
        var rest = text.lowercased().filter { !$0.isWhitespace }[...]
        if rest.first == "p" { rest = rest.dropFirst().filter { $0 != "t" }[...] }
        var sum = 0.0
        guard rest.contains(where: \.isLetter) else { return nil }
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isNumber || $0 == "." }
            rest = rest[digits.endIndex...]
            let unit = rest.prefix(while: \.isLetter)
            rest = rest[unit.endIndex...]
            guard let count = decimal(String(digits)), let length = unitSeconds(unit) else { return nil }
            sum += count * length
        }
        return sum
    }

    /// Returns the bytes of a size with a unit, such as `8MiB`, `8M` or `512 kB`; nil for any other text.
    ///
    /// Units with an i, and single letters, are powers of 1,024; the others are powers of 1,000.
    static func bytes(_ text: String) -> Int64? {
        let plain = text.lowercased().filter { !$0.isWhitespace }
        let digits = plain.prefix { $0.isNumber || $0 == "." }
        let unit = plain.dropFirst(digits.count)
        let powers = ["k": 1, "m": 2, "g": 3]
        guard let count = decimal(String(digits)), count >= 0 else { return nil }
        if unit == "b" || unit == "bytes" { return Int64(clamping: count) }
        guard let first = unit.first, let power = powers[String(first)] else { return nil }
        guard ["", "b", "i", "ib"].contains(unit.dropFirst()) else { return nil }
        let base: Double = unit.dropFirst() == "b" ? 1000 : 1024
        return Int64(clamping: (0..<power).reduce(count) { size, _ in size * base })
    }

    private static func unitSeconds(_ unit: Substring) -> Double? {
        switch unit {
        case "ms": 0.001
        case "s", "sec", "secs", "second", "seconds": 1
        case "m", "min", "mins", "minute", "minutes": 60
        case "h", "hr", "hrs", "hour", "hours": 3600
        case "d", "day", "days": 86_400
        case "w", "week", "weeks": 604_800
        default: nil
        }
    }
}
