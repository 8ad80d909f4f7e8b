internal import Foundation
internal import ChaparDelivery
internal import ChaparCore

/// The members that an object of a request may have; the raw value is the index in ``names``.
protocol RequestField: RawRepresentable<Int>, Sendable {
    /// The names in the API, former ones among them, in the order of the cases.
    static var names: [String] { get }
    /// The names whose former ones are in ``names``; none by default.
    static var renamed: [FormerName] { get }
    /// Names that other gateways' requests have, with the present one; none by default. Suggestions alone know them.
    static var foreign: [String: String] { get }
}

extension RequestField {
    static var renamed: [FormerName] { [] }
    static var foreign: [String: String] { [:] }
}

/// Typed reads that report a wrong value instead of stopping, so that one pass finds every mistake.
///
/// A value of another type is skipped. Only text that is not JSON ends the reading.
extension JSONScanner {
    /// Reads an object of known fields; unknown and repeated fields are mistakes.
    ///
    /// Returns false when the value is no object.
    @discardableResult
    mutating func fields<Field: RequestField>(
        _ type: Field.Type,
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        _ read: (inout JSONScanner, inout RequestIssues, Field) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) -> Bool {
        guard try expect(.object, "an object", &issues, pointer()) else { return false }
        var seen: UInt32 = 0
        let names = Field.names
        try object { (scanner, name) throws(JSONSyntaxError) in
            guard let index = names.firstIndex(of: name), let field = Field(rawValue: index) else {
                issues.add("\(pointer())/\(pointerStep(name))", "unknown_field", unknownField(name, Field.self))
                return try scanner.skip()
            }
            guard seen & (1 << UInt32(clamping: index)) == 0 else {
                issues.add("\(pointer())/\(name)", "repeated_field", "The field stands here twice.")
                return try scanner.skip()
            }
            seen |= 1 << UInt32(clamping: index)
            try read(&scanner, &issues, field)
        }
        return true
    }

    /// Reads an array, or reports that the value is not one.
    @discardableResult
    mutating func elements(
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        _ read: (inout JSONScanner, inout RequestIssues, Int) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) -> Bool {
        guard try expect(.array, "an array", &issues, pointer()) else { return false }
        try array { (scanner, index) throws(JSONSyntaxError) in try read(&scanner, &issues, index) }
        return true
    }

    /// Reads a string of 1 to `limit` bytes without control characters.
    mutating func identifier(
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        limit: Int
    ) throws(JSONSyntaxError) -> String? {
        guard let text = try text(&issues, pointer()) else { return nil }
        guard !text.isEmpty else {
            issues.add(pointer(), "empty", "Must not be empty.")
            return nil
        }
        guard text.utf8.count <= limit else {
            issues.add(pointer(), "too_long", "At most \(limit) bytes; it has \(text.utf8.count).")
            return nil
        }
        guard !hasControlCharacter(text) else {
            issues.add(pointer(), "control_character", "Must not hold control characters.")
            return nil
        }
        return text
    }

    /// Reads any string of at most `limit` bytes.
    mutating func text(
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        limit: Int = .max
    ) throws(JSONSyntaxError) -> String? {
        guard try expect(.string, "a string", &issues, pointer()) else { return nil }
        let text = try string()
        guard text.utf8.count <= limit else {
            issues.add(pointer(), "too_long", "At most \(limit) bytes; it has \(text.utf8.count).")
            return nil
        }
        return text
    }

    /// Reads a Boolean.
    mutating func flag(
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String
    ) throws(JSONSyntaxError) -> Bool? {
        guard try expect(.bool, "true or false", &issues, pointer()) else { return nil }
        return try bool()
    }

    /// Reads a whole number within a range; `7200.0` is one too.
    mutating func integer(
        in range: ClosedRange<Int>,
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        unit: StaticString = ""
    ) throws(JSONSyntaxError) -> Int? {
        guard try expect(.number, "a whole number", &issues, pointer()) else { return nil }
        let value = try number()
        switch value {
        case .integer(let number) where range.contains(Int(number)): return Int(number)
        case .double(let number) where number == number.rounded():
            if number.magnitude < 1e15, range.contains(Int(clamping: number)) { return Int(clamping: number) }
        case .integer: break
        default:
            issues.add(pointer(), "not_whole", "Must be a whole number\(unit); it is \(value.text).")
            return nil
        }
        issues.add(
            pointer(),
            "out_of_range",
            "Must be from \(range.lowerBound) to \(range.upperBound)\(unit)."
        )
        return nil
    }

    /// Reads a time in the past.
    ///
    /// Up to five minutes ahead of `now` is accepted, since clocks differ.
    mutating func pastTime(
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        now: Date
    ) throws(JSONSyntaxError) -> Date? {
        guard let text = try text(&issues, pointer()) else { return nil }
        guard let time = RFC3339.parse(text) else {
            issues.add(pointer(), "bad_time", "Must be an RFC 3339 time, such as 2026-11-21T08:15:30Z.")
            return nil
        }
        guard time.timeIntervalSince(now) <= 300 else {
            issues.add(pointer(), "time_in_the_future", "It is later than the gateway's clock.")
            return nil
        }
        return time
    }

    /// Checks the type of the next value; reports and skips one of another type.
    mutating func expect(
        _ kind: Kind,
        _ name: StaticString,
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String
    ) throws(JSONSyntaxError) -> Bool {
        let found = try peek()
        guard found != kind else { return true }
        let hint = found == .null ? " Leave the field out instead of null." : ""
        issues.add(pointer(), "wrong_type", "Must be \(name), not \(Self.name(of: found)).\(hint)")
        try skip()
        return false
    }

    private static func name(of kind: Kind) -> String {
        switch kind {
        case .object: "an object"
        case .array: "an array"
        case .string: "a string"
        case .number: "a number"
        case .bool: "a truth value"
        case .null: "null"
        }
    }
}

private func hasControlCharacter(_ text: String) -> Bool {
    var text = text
    return text.withUTF8 { bytes in
        // Without an early end, so that the compiler takes many bytes at a time.
        var found: UInt8 = 0
        for byte in bytes { found |= (byte < 0x20 ? 1 : 0) | (byte == 0x7F ? 1 : 0) }
        return found != 0
    }
}

/// Returns the sentence about an unknown name, with the nearest known one; it names present names only.
private func unknownField<Field: RequestField>(_ name: String, _ type: Field.Type) -> String {
    if let meant = Field.foreign[name.lowercased()] { return "Did you mean \"\(meant)\"?" }
    let former = Field.renamed.map(\.former.description)
    let known = Field.names.filter { !former.contains($0) }
    return didYouMean(name, known, renamed: Field.renamed)
        ?? "There is no such field here. Known: \(known.joined(separator: ", "))."
}

extension JSONScanner {
    /// Skips an element of a batch that has a malformed text, and makes that a mistake of this element alone; throws
    /// every other error again.
    mutating func leave(
        _ fault: JSONSyntaxError,
        from mark: Mark,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) {
        try skip(fault, from: mark)
        let element = slice(mark.offset..<offset)
        let place = JSONSyntaxError(offset: fault.offset - mark.offset, expected: fault.expected)
        issues.add(place.pointer(in: element), "malformed_text", fault.problemOfText)
    }
}
