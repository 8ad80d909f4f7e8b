internal import ChaparDelivery
internal import ChaparCore

/// The limits of one notification's content, which bound its memory and time from the request to the last attempt.
///
/// They are wider than any platform's payload limits, which the backends check. They apply when a notification is
/// accepted, never to a stored one.
struct ContentLimits: Sendable {
    /// The most bytes of `content`, `options` and `overrides` together, as they were sent (`limits.content_bytes`).
    var contentBytes = GatewayConfiguration.Limits().contentBytes

    /// The most bytes of a title, a subtitle or a body in one language.
    static let textBytes = 16 << 10
    /// The most languages of a text, `default` included.
    static let languages = 200
    /// The longest language tag in bytes.
    static let languageTagBytes = 64
    /// The most members of any object within `data` and `overrides`.
    static let members = 1000
    /// The longest name of such a member in bytes.
    static let nameBytes = 512
    /// The deepest nesting of objects and arrays within `data` and each part of `overrides`.
    static let depth = 16
    /// The sentence about a text with the character U+0000.
    static let noNUL = "Must not hold the character U+0000, at which many apps end a text."
}

extension JSONScanner {
    /// Reads an object with arbitrary fields, within limits; nil after a mistake.
    ///
    /// After the first mistake the rest is skipped and no value is kept, so a huge object costs no more than its scan.
    ///
    /// Without limits the object is taken as it is: it was checked when it was accepted.
    mutating func tree(
        _ limits: ContentLimits?,
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String
    ) throws(JSONSyntaxError) -> JSONObject? {
        guard try expect(.object, "an object", &issues, pointer()) else { return nil }
        guard let limits else { return try value().objectValue }
        skipSpace()
        let start = offset
        var tree = TreeReading(end: start + limits.contentBytes)
        let value = try branch(&tree, level: 1, &issues, pointer)
        tree.reach(offset)
        if tree.isTooLarge {
            issues.add(
                pointer(),
                "too_large",
                "At most \(limits.contentBytes) bytes; it has \(offset - start). Send an address where the app finds the rest."
            )
        }
        return tree.isRefused ? nil : value.objectValue
    }

    private mutating func branch(
        _ tree: inout TreeReading,
        level: Int,
        _ issues: inout RequestIssues,
        _ pointer: () -> String
    ) throws(JSONSyntaxError) -> JSONValue {
        let kind = try peek()
        guard kind == .object || kind == .array else {
            let before = nulCount
            let value = try value()
            if nulCount != before { refuseNUL(&tree, &issues, pointer()) }
            return value
        }
        guard level <= ContentLimits.depth else {
            tree.isRefused = true
            issues.add(
                pointer(),
                "too_deep",
                "Objects and arrays within it nest at most \(ContentLimits.depth) levels deep."
            )
            try skip()
            return .null
        }
        if kind == .array {
            var values: [JSONValue] = []
            try array { (scanner, index) throws(JSONSyntaxError) in
                guard !tree.isRefused else { return try scanner.skip() }
                values.append(try scanner.branch(&tree, level: level + 1, &issues) { "\(pointer())/\(index)" })
                tree.reach(scanner.offset)
            }
            return .array(values)
        }
        var members = JSONObject()
        var count = 0
        let before = nulCount
        try object { (scanner, name) throws(JSONSyntaxError) in
            count += 1
            if scanner.nulCount != before, name.utf8.contains(0), !tree.isRefused {
                scanner.refuseNUL(&tree, &issues, "\(pointer())/\(pointerStep(name))")
            }
            guard !tree.isRefused, count <= ContentLimits.members else { return try scanner.skip() }
            guard name.utf8.count <= ContentLimits.nameBytes else {
                tree.isRefused = true
                issues.add(
                    "\(pointer())/\(pointerStep(name))",
                    "name_too_long",
                    "A name has at most \(ContentLimits.nameBytes) bytes; it has \(name.utf8.count)."
                )
                return try scanner.skip()
            }
            guard !members.contains(name) else { throw scanner.error("a name that is not repeated") }
            members[name] = try scanner.branch(&tree, level: level + 1, &issues) { "\(pointer())/\(pointerStep(name))" }
            tree.reach(scanner.offset)
        }
        if count > ContentLimits.members {
            tree.isRefused = true
            issues.add(
                pointer(),
                "too_many_members",
                "An object has at most \(ContentLimits.members) members; it has \(count). Send an address where the app finds more."
            )
        }
        return .object(members)
    }

    private func refuseNUL(_ tree: inout TreeReading, _ issues: inout RequestIssues, _ pointer: String) {
        tree.isRefused = true
        issues.add(pointer, "control_character", ContentLimits.noNUL)
    }
}

/// The progress of reading one object.
private struct TreeReading {
    /// The position of the last byte that it may have.
    let end: Int
    /// Whether it has a mistake.
    var isRefused = false
    /// Whether it continues after ``end``, with no other mistake before that.
    private(set) var isTooLarge = false

    init(end: Int) { self.end = end }

    mutating func reach(_ offset: Int) {
        guard offset > end, !isRefused else { return }
        isTooLarge = true
        isRefused = true
    }
}
