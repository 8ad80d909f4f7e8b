import Foundation

/// The present offset of a time zone from UTC.
enum ZoneOffset {
    /// Returns the seconds east of UTC; nil for an unknown name.
    static func seconds(of name: String) -> Int? { TimeZone(identifier: name)?.secondsFromGMT() }
}
