/// The number of a version: three unsigned parts, compared as numbers.
public struct ReleaseVersion: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The first part.
    public var major: UInt
    /// The second part.
    public var minor: UInt
    /// The third part.
    public var patch: UInt

    /// Makes a number.
    public init(major: UInt, minor: UInt = 0, patch: UInt = 0) {
        (self.major, self.minor, self.patch) = (major, minor, patch)
    }

    /// Reads `1`, `1.2` or `1.2.3`, with white space around it; nil for anything else.
    ///
    /// `allowsSigns` takes `+1.2` and `-0.1` as well, which the client library does by accident.
    public init?(_ text: String, allowsSigns: Bool = false) {
        let trimmed = String.trimmed(text)
        let parts = trimmed.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...3).contains(parts.count) else { return nil }
        var numbers: [UInt] = []
        for part in parts {
            guard allowsSigns || part.utf8.allSatisfy({ (48...57).contains($0) }), let number = UInt(part) else {
                return nil
            }
            numbers.append(number)
        }
        self.init(
            major: numbers[0],
            minor: numbers.count > 1 ? numbers[1] : 0,
            patch: numbers.count > 2 ? numbers[2] : 0
        )
    }

    /// Always three parts.
    public var description: String { "\(major).\(minor).\(patch)" }

    /// The number in Persian digits; the dots stay.
    public var persian: String {
        String(
            String.UnicodeScalarView(
                description.unicodeScalars.map { scalar in
                    guard (48...57).contains(scalar.value) else { return scalar }
                    return Unicode.Scalar(0x6F0 + scalar.value - 48) ?? scalar
                }
            )
        )
    }

    /// By the first part, then the second, then the third.
    public static func < (left: ReleaseVersion, right: ReleaseVersion) -> Bool {
        (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
    }
}

extension String {
    /// Returns a text without white space and line breaks at both ends.
    static func trimmed(_ text: String) -> String {
        var rest = text[...]
        while let first = rest.first, first.isWhitespace { rest.removeFirst() }
        while let last = rest.last, last.isWhitespace { rest.removeLast() }
        return String(rest)
    }
}
