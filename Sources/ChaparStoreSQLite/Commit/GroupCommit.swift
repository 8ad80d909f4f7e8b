import Foundation
import ChaparCore

/// Makes commits larger under load, since each commit costs the same few page writes and one wait for the disk, whether
/// it has two rows or a hundred.
///
/// When the last commit had several rows, more are on their way. So the writer checks the inbox again after a short
/// sleep, until nothing more comes, enough is there, or it has waited for as long as the options allow. It uses the
/// real clock, since it is about throughput and not about the store's time. Used by the writer's thread only.
struct GroupCommit {
    /// The number of rows in the last commit below which a commit does not wait.
    private static let fewest = 6
    /// The number of rows at which a commit is large enough.
    private static let enough = 96
    /// The sleep between two checks, in microseconds.
    private static let pause: UInt32 = 250

    private let looks: Int64
    /// The rows of the last commit.
    var lastRows = 0

    init(longest: Duration) { looks = Int64(clamping: min(max(0, longest.inSeconds), 1) * 1e6) / Int64(Self.pause) }

    /// Adds to `commands` those that arrive in a moment, when the wait is worth it.
    func gather(_ commands: inout [StoreCommand], from inbox: Inbox) {
        guard lastRows >= Self.fewest else { return }
        var rows = commands.reduce(0) { $0 + $1.rows }
        for _ in 0..<looks where rows < Self.enough {
            inbox.pause(Self.pause)
            guard let more = inbox.drain(isHurried: true), !more.isEmpty else { return }
            rows += more.reduce(0) { $0 + $1.rows }
            commands.append(contentsOf: more)
        }
    }
}
