package import Foundation
internal import ChaparCore

/// Times in the form of HTTP header fields (RFC 9110, section 5.6.7).
package enum SandboxHTTPDate {
    package static func text(_ time: Date) -> String {
        let seconds = Int64(clamping: time.timeIntervalSince1970)
        var parts = tm()
        var value = time_t(clamping: seconds)
        gmtime_r(&value, &parts)
        let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return
            "\(days[Int(clamping: parts.tm_wday)]), \(two(parts.tm_mday)) \(months[Int(clamping: parts.tm_mon)]) \(parts.tm_year + 1900) "
            + "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) GMT"
    }
}
