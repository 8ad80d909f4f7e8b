internal import Foundation
internal import PushCore
internal import PushComposition

/// Which refused attempts get a line of their own in the record: some of each address a minute, and some of all a
/// second.
///
/// The attempts without a line are counted for each address. A value that ``AuditLog`` keeps; its memory is bounded.
struct RefusedAttempts {
    /// The lines of one address a minute.
    static let linesOfPeer = 20
    /// How long lines of an address are counted together.
    static let window: TimeInterval = 60
    /// Lines of all addresses.
    private static let lines = Pacing(perSecond: 50, burst: .seconds(2))
    /// The most addresses that are told apart.
    static let mostPeers = 1_000

    private struct Window {
        var begin: Date
        var lines = 0
        var leftOut = 0
    }

    private var windows: [String: Window] = [:]
    private var bucket: TokenBucket
    /// The attempts without a line of addresses beyond ``mostPeers``.
    private var leftOut = 0
    private var nextLook: Date

    init(at now: Date) {
        bucket = TokenBucket(Self.lines, at: now)
        nextLook = now
    }

    /// Whether an attempt gets a line; one that does not is counted.
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

    /// How many attempts were left out in the minutes that are over; nil stands for further addresses.
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
