internal import Dispatch
internal import Foundation
internal import Synchronization

/// The executor of an actor whose calls block: one thread of its own.
///
/// libpq's calls block on the network; on Swift's thread pool they would hold up everything else.
final class PostgresThread: SerialExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        var isEnded = false
    }

    private let state = Mutex(State())
    private let signal = DispatchSemaphore(value: 0)

    init(name: String) {
        // The thread retains the executor until ``end()``.
        let thread = Thread { self.run() }
        thread.name = name
        thread.start()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
        signal.signal()
    }

    /// Ends the thread after the jobs that it has.
    func end() {
        state.withLock { $0.isEnded = true }
        signal.signal()
    }

    private func run() {
        while true {
            signal.wait()
            let (jobs, isEnded) = state.withLock { state in
                defer { state.jobs.removeAll(keepingCapacity: true) }
                return (state.jobs, state.isEnded)
            }
            for job in jobs { job.runSynchronously(on: asUnownedSerialExecutor()) }
            if isEnded { return }
        }
    }
}
