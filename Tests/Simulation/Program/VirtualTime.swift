import Foundation
import ChaparCore

/// The clock of one incarnation of a gateway, over the scheduler's time.
///
/// Its steady time begins at the time of day of the start, as the machine's own does, so that a clock that was set
/// shows at the next start.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class VirtualTime: TimeSource, @unchecked Sendable {
    private struct Sleeper {
        let id: Int
        let end: Int64
        let continuation: CheckedContinuation<Void, any Error>
    }

    private let scheduler: Scheduler
    private let begin: (wall: Date, now: Int64)
    private var sleepers: [Sleeper] = [] {
        didSet { nextEnd = sleepers.lazy.map(\.end).min() }
    }
    /// Those of a process that has died, kept since a continuation that is let go unresumed is complained about.
    private var forgotten: [Sleeper] = []
    private var cancelled: Set<Int> = []
    private var nextID = 0

    init(_ scheduler: Scheduler) {
        self.scheduler = scheduler
        begin = (scheduler.wall, scheduler.now)
    }

    var now: Date { scheduler.wall }
    var steady: Date { begin.wall.addingTimeInterval(Double(scheduler.now - begin.now) / 1e9) }

    /// For messages of failures.
    var summary: String { "\(sleepers.count) sleepers" }

    /// Forgets who sleeps: that process has died.
    func forgetSleepers() {
        forgotten += sleepers
        sleepers = []
    }

    /// When the next sleeper wakes.
    private(set) var nextEnd: Int64?

    /// Wakes those whose time has come.
    func wake() {
        guard let nextEnd, nextEnd <= scheduler.now else { return }
        let woken = sleepers.filter { $0.end <= scheduler.now }
        sleepers.removeAll { $0.end <= scheduler.now }
        for sleeper in woken.sorted(by: { ($0.end, $0.id) < ($1.end, $1.id) }) { sleeper.continuation.resume() }
    }

    func sleep(for duration: Duration) async throws {
        nextID += 1
        let id = nextID
        defer { cancelled.remove(id) }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if cancelled.contains(id) { return continuation.resume(throwing: CancellationError()) }
                let end = scheduler.now + max(1, Int64(clamping: Int128(duration.attoseconds / 1_000_000_000)))
                sleepers.append(Sleeper(id: id, end: end, continuation: continuation))
            }
        } onCancel: {
            guard let index = sleepers.firstIndex(where: { $0.id == id }) else {
                cancelled.insert(id)
                return
            }
            sleepers.remove(at: index).continuation.resume(throwing: CancellationError())
        }
    }
}
