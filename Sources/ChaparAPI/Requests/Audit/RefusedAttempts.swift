internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparComposition

/// The choice of the refused attempts that get a line of their own: a number for each address a minute, and a number
/// for all a second.
///
/// Attempts without a line are counted for each address. ``AuditLog`` keeps this value; its memory is bounded.
struct RefusedAttempts {
    /// The most lines of one address a minute.
    static let linesOfPeer = 20
    /// The time for which lines of an address are counted together, in seconds.
    static let window: TimeInterval = 60
    /// The rate of lines of all addresses.
    private static let lines = Pacing(perSecond: 50, burst: .seconds(2))
    /// The most addresses that are counted separately.
    static let mostPeers = 1_000

    private struct Window {
        var begin: Date
        var lines = 0
        var leftOut = 0
    }

    private var windows: [String: Window] = [:]
    private var bucket: TokenBucket
    /// The attempts without a line from addresses beyond ``mostPeers``.
    private var leftOut = 0
    private var nextLook: Date

    init(at now: Date) {
        bucket = TokenBucket(Self.lines, at: now)
        nextLook = now
    }

    /// Whether an attempt gets a line; one without a line is counted.
    ///
    /// The time is steady.
    mutating func isListed(_ peer: String, at now: Date) -> Bool {
        if windows[peer] == nil, windows.count < Self.mostPeers { windows[peer] = Window(begin: now) }
        guard var own = windows[peer] else {
            if bucket.reserve(1, at: now).granted == 1 { return true }
            leftOut += 1
            return false
        }
        defer { windows[peer] = own }
        if own.lines < Self.linesOfPeer, bucket.reserve(1, at: now).granted == 1 {
            own.lines += 1
            return true
        }
        own.leftOut += 1
        return false
    }

    /// Returns the numbers of attempts without a line in the minutes that are over; nil stands for the other addresses.
    mutating func summaries(at now: Date) -> [(peer: String?, count: Int)] {
        guard now >= nextLook else { return [] }
        nextLook = now.addingTimeInterval(1)
        var found: [(peer: String?, count: Int)] = []
        for (peer, own) in windows where now.timeIntervalSince(own.begin) >= Self.window {
            windows[peer] = nil
            if own.leftOut > 0 { found.append((peer, own.leftOut)) }
        }
        if leftOut > 0 {
            found.append((nil, leftOut))
            leftOut = 0
        }
        return found
    }
}
