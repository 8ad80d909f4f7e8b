import Foundation
import Testing

/// Reads the Prometheus text format as strictly as its page says: what a scrape would refuse fails the test.
struct PrometheusSamples {
    private(set) var values: [String: Double] = [:]
    private(set) var types: [String: String] = [:]

    struct Malformed: Error, CustomStringConvertible {
        let line: Substring
        let why: String
        var description: String { "\(why): \(line)" }
    }

    var names: [String] { Array(values.keys) }
    subscript(name: String) -> Double? { values[name] }

    init(_ text: String) throws {
        var current: (name: String, type: String)?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            if line.hasPrefix("# HELP ") { continue }
            if line.hasPrefix("# TYPE ") {
                let words = line.dropFirst(7).split(separator: " ").map(String.init)
                guard words.count == 2, ["counter", "gauge", "histogram"].contains(words[1]) else {
                    throw Malformed(line: line, why: "no type")
                }
                guard types[words[0]] == nil else { throw Malformed(line: line, why: "a family twice") }
                types[words[0]] = words[1]
                current = (words[0], words[1])
                continue
            }
            let series = try Self.series(line)
            guard let family = current, Self.belongs(series.metric, family) else {
                throw Malformed(line: line, why: "outside of its family")
            }
            guard values[series.name] == nil else { throw Malformed(line: line, why: "a series twice") }
            guard let value = Double(series.value) ?? (series.value == "+Inf" ? .infinity : nil) else {
                throw Malformed(line: line, why: "no number")
            }
            values[series.name] = value
        }
        guard text.hasSuffix("\n") else { throw Malformed(line: text.suffix(40), why: "no line end") }
    }

    private static func belongs(_ metric: Substring, _ family: (name: String, type: String)) -> Bool {
        if family.type == "histogram" {
            return ["_bucket", "_sum", "_count"].contains { metric == family.name + $0 }
        }
        return metric == family.name && (family.type != "counter" || metric.hasSuffix("_total"))
    }

    /// Splits a line into the series with its labels and the value; labels may hold any character but a bare quote.
    private static func series(_ line: Substring) throws -> (metric: Substring, name: String, value: String) {
        let metric = line.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == ":") }
        guard let first = metric.first, !first.isNumber else { throw Malformed(line: line, why: "no name") }
        var rest = line.dropFirst(metric.count)
        if rest.first == "{" {
            rest = rest.dropFirst()
            while rest.first != "}" {
                let label = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
                rest = rest.dropFirst(label.count)
                guard !label.isEmpty, rest.hasPrefix("=\"") else { throw Malformed(line: line, why: "no label") }
                rest = rest.dropFirst(2)
                while rest.first != "\"" {
                    guard let character = rest.first else { throw Malformed(line: line, why: "an open quote") }
                    rest = rest.dropFirst(character == "\\" ? 2 : 1)
                }
                rest = rest.dropFirst()
                if rest.first == "," { rest = rest.dropFirst() }
            }
            rest = rest.dropFirst()
        }
        guard rest.first == " " else { throw Malformed(line: line, why: "no value") }
        return (metric, String(line.dropLast(rest.count)), String(rest.dropFirst()))
    }
}
