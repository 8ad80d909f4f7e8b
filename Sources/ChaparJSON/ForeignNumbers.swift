/// Conversions and sums of numbers from outside: from an answer, a token, a caller, a stored row.
///
/// Such numbers are `Int64`: ids, milliseconds, bytes, numbers of events. Swift's own conversions and sums end the
/// process where the result does not fit. `.ci/conversions` forbids them for `Int64` everywhere except in this file.
///
/// They are inlinable, since every notification needs several of them: without that, other modules call them
/// unspecialized, through witness tables.
extension FixedWidthInteger {
    /// Makes the number without its fraction; beyond this type's range the nearest value in it, 0 for NaN.
    @inlinable package init(clamping value: Double) {
        self = Self(exactly: value.rounded(.towardZero)) ?? (value.isNaN ? 0 : value < 0 ? .min : .max)
    }

    /// Returns the sum; beyond this type's range the nearest value in it.
    @inlinable package func adding(clamping other: Self) -> Self {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }

    /// Returns the difference; beyond this type's range the nearest value in it.
    @inlinable package func subtracting(clamping other: Self) -> Self {
        let (difference, overflow) = subtractingReportingOverflow(other)
        return overflow ? (other < 0 ? .max : .min) : difference
    }

    /// Returns the product; beyond this type's range the nearest value in it.
    @inlinable package func multiplied(clamping other: Self) -> Self {
        let (product, overflow) = multipliedReportingOverflow(by: other)
        return overflow ? ((self < 0) == (other < 0) ? .max : .min) : product
    }

    /// Returns the distance of two numbers, never negative; beyond this type's range its highest value.
    @inlinable package func distance(clamping other: Self) -> Self {
        Swift.max(self, other).subtracting(clamping: Swift.min(self, other))
    }
}

extension Int {
    /// Makes a count or an index from outside: at least 0, at most 2^48, so that sums of thousands fit.
    package init(count value: Int64) { self = Int(Swift.min(Swift.max(0, value), 1 << 48)) }
}

extension Duration {
    /// The longest span that a foreign number becomes, a hundred years, so that sums and products of a few stay within
    /// a `Duration`.
    package static let longest = Duration.seconds(3_155_760_000)

    /// Returns this many seconds, limited to ``longest`` either way; zero for NaN.
    package static func seconds(clamping value: Double) -> Duration {
        value.isNaN ? .zero : .seconds(min(max(value, -longest.inSeconds), longest.inSeconds))
    }

    /// Returns this many seconds, limited to ``longest`` either way.
    package static func seconds(clamping value: some BinaryInteger) -> Duration {
        min(max(.seconds(Int64(clamping: value)), .zero - longest), longest)
    }

    /// Returns this many whole milliseconds, limited to ``longest`` either way; zero for NaN.
    package static func milliseconds(clamping value: Double) -> Duration {
        min(max(.milliseconds(Int64(clamping: value)), .zero - longest), longest)
    }
}
