internal import Foundation

/// Lets a line into the log now and then, for events that unauthenticated peers can cause at any rate.
struct LogSampler {
    /// The time between two lines.
    static let pause: TimeInterval = 10

    private var last: Date?
    private var since = 0

    /// How often it happened since the last line, this time included; nil when it is too early for another line.
    mutating func count(at now: Date) -> Int? {
        since += 1
        if let last, now.timeIntervalSince(last) < Self.pause { return nil }
        last = now
        defer { since = 0 }
        return since
    }
}
