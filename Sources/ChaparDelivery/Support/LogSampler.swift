package import Foundation

/// A limit of log lines about events that unauthenticated peers can cause at any rate.
package struct LogSampler {
    /// The shortest time between two lines, in seconds.
    static let pause: TimeInterval = 10

    private var last: Date?
    private var since = 0

    /// Creates a sampler that allows a line for the first event.
    package init() {}

    /// Counts an event; returns the number since the last line, this one included, or nil when it is too early for a
    /// line.
    package mutating func count(at now: Date) -> Int? {
        since += 1
        if let last, now.timeIntervalSince(last) < Self.pause { return nil }
        last = now
        defer { since = 0 }
        return since
    }
}
