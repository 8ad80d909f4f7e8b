package import Foundation

extension Date {
    /// The whole milliseconds since 1970, the form in which times are stored.
    package var millisecondsSince1970: Int64 {
        let milliseconds = (timeIntervalSince1970 * 1000).rounded()
        return Int64(exactly: milliseconds) ?? (milliseconds > 0 ? .max : .min)
    }

    /// Makes a time from whole milliseconds since 1970.
    package init(millisecondsSince1970 milliseconds: Int64) {
        self.init(timeIntervalSince1970: Double(milliseconds) / 1000)
    }
}

extension Duration {
    /// The span in seconds, for platforms and formulas that take a number.
    package var inSeconds: Double {
        let (seconds, attoseconds) = components  // Once: each call divides 128 bits twice.
        return Double(seconds) + Double(attoseconds) / 1e18
    }

    /// The span in whole milliseconds, rounded towards zero; beyond 64 bits the nearest number in range.
    package var inMilliseconds: Int64 {
        let components = components
        let (seconds, overflow) = components.seconds.multipliedReportingOverflow(by: 1000)
        return overflow
            ? (self < .zero ? .min : .max)
            : seconds.adding(clamping: components.attoseconds / 1_000_000_000_000_000)
    }
}
