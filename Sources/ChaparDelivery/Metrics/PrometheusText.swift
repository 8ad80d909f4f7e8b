/// A writer of metrics in the form that Prometheus reads (text exposition format 0.0.4).
///
/// Source: prometheus.io, "Exposition formats", read 2026-11.
package struct PrometheusText {
    /// The content type of the text.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// The type of a family of series.
    enum Kind: String {
        case counter, gauge, histogram
    }

    /// The text so far.
    package private(set) var bytes: [UInt8] = []
    /// Whether a series with these labels is written.
    let isShown: ([(String, String)]) -> Bool
    /// The head of the current family, until one of its series is written.
    private var head: [String] = []

    package init(capacity: Int = 16 * 1024, isShown: @escaping ([(String, String)]) -> Bool = { _ in true }) {
        self.isShown = isShown
        bytes.reserveCapacity(capacity)
    }

    /// Begins a family, whose head is written with its first series.
    ///
    /// Its series must follow, and no other family may have the same name.
    mutating func family(_ name: String, _ kind: Kind, _ help: String) {
        head = help.isEmpty ? [] : ["# HELP \(name) \(Self.escape(help, quotes: false))"]
        head.append("# TYPE \(name) \(kind.rawValue)")
    }

    /// Begins a family of the table.
    package mutating func begin(_ family: MetricFamily) { self.family(family.name, family.kind, family.help) }

    /// Whether the reader may see a series of a family of the table.
    package func shows(_ family: MetricFamily, _ values: [String]) -> Bool { isShown(family.labeled(values)) }

    /// Writes the value of a series of a family of the table.
    package mutating func sample(_ family: MetricFamily, _ values: [String], _ value: Double) {
        let labels = family.labeled(values)
        if isShown(labels) { sample(family.name, Self.labels(labels), value) }
    }

    /// Writes the value of the only series of a family of the table.
    package mutating func sample(_ family: MetricFamily, _ value: Double) { sample(family.name, value) }

    /// Writes the value of a family's only series.
    mutating func sample(_ name: String, _ value: Double) { line("\(name) \(Self.number(value))") }

    /// Writes a value of a series.
    ///
    /// The labels come from ``labels(_:)``.
    mutating func sample(_ name: String, _ labels: String, _ value: Double) {
        line(labels.isEmpty ? "\(name) \(Self.number(value))" : "\(name){\(labels)} \(Self.number(value))")
    }

    /// Writes the series of a histogram.
    mutating func histogram(_ name: String, _ labels: String, _ cell: HistogramCell) {
        let contents = cell.contents
        let prefix = labels.isEmpty ? "" : labels + ","
        var total: UInt64 = 0
        for (position, bound) in cell.bounds.enumerated() {
            total += contents.counts[position]
            line("\(name)_bucket{\(prefix)le=\"\(Self.number(bound))\"} \(total)")
        }
        total += contents.counts[cell.bounds.count]
        line("\(name)_bucket{\(prefix)le=\"+Inf\"} \(total)")
        sample(name + "_sum", labels, contents.sum)
        sample(name + "_count", labels, Double(total))
    }

    /// Returns labels in the form between the braces.
    static func labels(_ labels: [(String, String)]) -> String {
        labels.map { "\(sanitized($0.0, colons: false))=\"\(escape($0.1, quotes: true))\"" }.joined(separator: ",")
    }

    /// Returns a name with every character replaced that a metric's name cannot have.
    static func metricName(_ name: String) -> String { sanitized(name, colons: true) }

    private static func sanitized(_ name: String, colons: Bool) -> String {
        var result = ""
        for scalar in name.unicodeScalars {
            switch scalar {
            case "a"..."z", "A"..."Z", "_": result.unicodeScalars.append(scalar)
            case "0"..."9" where !result.isEmpty: result.unicodeScalars.append(scalar)
            case ":" where colons: result.unicodeScalars.append(scalar)
            default: result.append("_")
            }
        }
        return result.isEmpty ? "_" : result
    }

    private static func escape(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func number(_ value: Double) -> String {
        if let whole = Int64(exactly: value) { return String(whole) }
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return "\(value)"
    }

    private mutating func line(_ text: String) {
        for line in head { write(line) }
        head.removeAll(keepingCapacity: true)
        write(text)
    }

    private mutating func write(_ text: String) {
        bytes.append(contentsOf: text.utf8)
        bytes.append(UInt8(ascii: "\n"))
    }
}
