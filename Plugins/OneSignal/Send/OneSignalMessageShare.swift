import Foundation
import ChaparCore

/// Counts the messages of the last 15 minutes against OneSignal's limit, beyond which it disables the app until a
/// person acts.
///
/// ``OneSignalBackend`` asks it before each request.
actor OneSignalMessageShare {
    private static let window = Duration.seconds(900)

    private let limit: Int
    private let time: any TimeSource
    private var sent: [(at: Date, count: Int)] = []
    private var total = 0

    /// Makes a counter; a limit of 0 is no limit.
    init(limit: Int, time: any TimeSource) {
        self.limit = limit
        self.time = time
    }

    /// Reserves capacity for `count` recipients; returns nil when there is enough, else how long until there may be.
    func reserve(_ count: Int) -> Duration? {
        guard limit > 0 else { return nil }
        let now = time.steady
        let old = now.addingTimeInterval(-Self.window.inSeconds)
        while let first = sent.first, first.at <= old {
            total -= first.count
            sent.removeFirst()
        }
        guard total + count <= limit else {
            guard let first = sent.first else { return Self.window }  // One send alone is more than the limit.
            return .seconds(clamping: first.at.addingTimeInterval(Self.window.inSeconds).timeIntervalSince(now))
        }
        total += count
        sent.append((now, count))
        return nil
    }
}
