package import ChaparCore
internal import Foundation

/// The possible results of a call to a broken or hostile service, drawn from a seed: for tests of code that reads
/// answers.
///
/// A transport returns an answer or a failure for all bytes that a peer can write; its own tests ensure that. So a
/// reader that handles these results handles every peer. Every answer follows from the seed alone, which a failing test
/// should name.
package struct BrokenAnswers: Sendable {
    /// Returns the seeds of a test: `usual` of them, or those that the variable `CHAPAR_FUZZ` asks for (`20000`,
    /// `1234...1234`).
    package static func seeds(_ usual: Int) -> ClosedRange<Int> {
        let wish = ProcessInfo.processInfo.environment["CHAPAR_FUZZ"] ?? ""
        let ends = wish.split(separator: ".").compactMap { Int($0) }
        let first = ends.count == 2 ? ends[0] : 1
        return first...max(first, ends.last ?? usual)
    }

    private static let failures: [(HTTPFailure.Stage, HTTPFailure.Cause)] = [
        (.notProcessed, .connect), (.notProcessed, .tls), (.notProcessed, .proxy), (.notProcessed, .refusedStream),
        (.notProcessed, .queueFull), (.unknown, .connectionLost), (.unknown, .deadline), (.unknown, .badAnswer),
        (.unknown, .reset(0xFFFF_FFFF)), (.notProcessed, .credentials), (.notProcessed, .credentialsUnavailable),
        (.notProcessed, .invalidCall),
    ]
    private static let statuses = [
        100, 199, 201, 204, 206, 299, 300, 301, 302, 307, 400, 401, 403, 404, 408, 413, 422, 425, 429, 499, 500, 503,
        599, 600, 999,
    ]
    private static let fields = [
        ("retry-after", "-1"), ("retry-after", "99999999999999999999"), ("retry-after", "9223372036854775807"),
        ("retry-after", "1e300"), ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("date", "Fri, 31 Dec 9999 23:59:59 GMT"), ("date", "nonsense"), ("content-type", "text/html"),
    ]
    /// Values that are hard for readers of JSON.
    private static let values = [
        "null", "true", "0", "-1", "1e21", "-1e21", "1e308", "-1e308", "1e999", "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616", "0.5", "\"\"", "\"\\u0000\"", "\"\\ud83d\"", "\"a\\r\\nb: c\"", "\"\\u202e\"", "[]",
        "{}", "[[[[]]]]",
        "{\"a\":{\"a\":{}}}", "\"9223372036854775808\"", "\"1e21\"", "\"..\"",
    ]

    private var random: SeededGenerator

    /// Makes the answers of a seed.
    package init(seed: Int) {
        random = SeededGenerator(seed: UInt64(truncatingIfNeeded: seed) &* 0xD129_0D3B_5A69_C1F5)
    }

    /// Returns the result of a call whose good answer is 200 with this JSON; sometimes the good answer itself.
    package mutating func next(instead good: JSONValue) -> Result<HTTPAnswer, HTTPFailure> {
        let bytes = good.bytes
        switch roll(12) {
        case 0: return .success(HTTPAnswer(status: 200, body: bytes))
        case 1:
            let (stage, cause) = pick(Self.failures)
            return .failure(HTTPFailure(stage, cause, "a broken peer"))
        case 2: return answer(pick(Self.statuses), pick([bytes, [], Array("<html>".utf8)]))
        case 3: return answer(200, Array(bytes.prefix(roll(bytes.count + 1))))
        case 4: return answer(200, flipped(bytes))
        case 5: return answer(200, (0..<roll(2_000)).map { _ in UInt8(truncatingIfNeeded: random.next()) })
        case 6:
            let depth = pick([10, 500, 100_000])
            return answer(200, Array(repeating: UInt8(ascii: "["), count: depth) + pick([[], bytes]))
        case 7: return answer(pick([200, 400, 429]), Array(pick(Self.values).utf8))
        case 8: return answer(200, bytes + pick([bytes, [0], Array(" x".utf8)]))
        default:
            var text = replaced(good)
            if roll(3) == 0 { text = replaced((try? JSONValue(parsing: Array(text.utf8))) ?? good) }
            return answer(pick([200, 200, 200, 400, 429, 503]), Array(text.utf8))
        }
    }

    private mutating func answer(_ status: Int, _ body: [UInt8]) -> Result<HTTPAnswer, HTTPFailure> {
        let headers = (0..<roll(3)).map { _ in
            let (name, value) = pick(Self.fields)
            return HTTPHeader(name, value)
        }
        return .success(HTTPAnswer(status: status, headers: headers, body: body))
    }

    /// Returns the JSON with one value replaced, one member doubled, or one left out.
    private mutating func replaced(_ value: JSONValue) -> String {
        var left = roll(max(1, Self.count(value)))
        let (other, way) = (pick(Self.values), roll(4))
        return Self.text(value, &left, other, way)
    }

    private static func count(_ value: JSONValue) -> Int {
        switch value {
        case .array(let elements): 1 + elements.reduce(0) { $0 + count($1) }
        case .object(let object): 1 + object.reduce(0) { $0 + count($1.value) }
        default: 1
        }
    }

    /// Writes a value; the one at place `left`, counted from here, is left out (`way` 0), doubled (1) or becomes
    /// `other`.
    private static func text(_ value: JSONValue, _ left: inout Int, _ other: String, _ way: Int) -> String {
        if left == 0, way > 1 {
            left = -1
            return other
        }
        left -= 1
        func parts(_ isHit: Bool, _ text: String) -> [String] {
            isHit && way == 0 ? [] : isHit && way == 1 ? [text, text] : [text]
        }
        switch value {
        case .array(let elements):
            let texts = elements.flatMap { element in
                let isHit = left == 0
                return parts(isHit, text(element, &left, other, way))
            }
            return "[" + texts.joined(separator: ",") + "]"
        case .object(let object):
            let texts = object.flatMap { name, value in
                let isHit = left == 0
                return parts(isHit, JSONValue.string(name).text + ":" + text(value, &left, other, way))
            }
            return "{" + texts.joined(separator: ",") + "}"
        default: return value.text
        }
    }

    private mutating func flipped(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        guard !bytes.isEmpty else { return bytes }
        for _ in 0...roll(8) { bytes[roll(bytes.count)] ^= 1 << UInt8(truncatingIfNeeded: roll(8)) }
        return bytes
    }

    private mutating func roll(_ count: Int) -> Int { .random(in: 0..<max(1, count), using: &random) }

    private mutating func pick<Value>(_ values: [Value]) -> Value { values[roll(values.count)] }
}
