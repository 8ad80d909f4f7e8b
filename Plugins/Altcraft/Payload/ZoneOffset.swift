import Foundation

/// How far a time zone is from UTC now.
enum ZoneOffset {
    /// Seconds east of UTC; nil for an unknown name.
    static func seconds(of name: String) -> Int? { TimeZone(identifier: name)?.secondsFromGMT() }
}
