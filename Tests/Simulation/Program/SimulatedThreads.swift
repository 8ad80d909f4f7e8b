import Dispatch
import Foundation
import GRDB
import SimulationHooks

@testable import ChaparStoreSQLite

/// The writer's thread of a simulated store: it runs only when the scheduler gives it the turn, and gives it back when
/// it waits.
///
/// A real thread, since the writer is one: the driver waits while it runs. After ``kill()`` it never gets another turn.
///
/// `@unchecked Sendable`: the two threads hand the turn over through semaphores, so that one of them runs at a time.
final class SimulatedThreads: StoreThreads, @unchecked Sendable {
    private enum State {
        case notStarted
        case running
        /// It waits for its turn.
        case ready
        /// It waits for a signal of the store, until a virtual time.
        case asleep(until: Int64?)
        case ended
    }

    private let scheduler: Scheduler
    private let go = DispatchSemaphore(value: 0)
    private let back = DispatchSemaphore(value: 0)
    private var state = State.notStarted
    private var thread: Thread?
    private var isSignalled = false
    private var isTimedOut = false
    private var isDead = false

    init(_ scheduler: Scheduler) { self.scheduler = scheduler }

    /// The virtual time at which it wakes by itself; nil when only a signal wakes it.
    var deadline: Int64? { if case .asleep(let until) = state { until } else { nil } }

    /// For messages of failures.
    var summary: String { "writer \(state)" }

    /// Whether its work is done.
    var hasEnded: Bool { if case .ended = state { true } else { false } }

    /// Whether it is between two waits: a crash now is in the middle of its work.
    var isAtWork: Bool { if case .ready = state { true } else { false } }

    /// Wakes it when its deadline has come.
    func wake() {
        guard let deadline, deadline <= scheduler.now else { return }
        isTimedOut = true
        makeReady()
    }

    /// Ends it wherever it is, as the end of its process does.
    func kill() { isDead = true }

    private func makeReady() {
        state = .ready
        scheduler.add { [self] in
            guard !isDead else { return }
            state = .running
            go.signal()
            back.wait()
        }
    }

    /// Gives the turn back until it is given again; on the writer's thread.
    private func giveBack() {
        back.signal()
        go.wait()
    }

    /// Lets other things run before it goes on; on the writer's thread, elsewhere nothing.
    func pauseHere() {
        guard case .running = state, Thread.current === thread else { return }
        makeReady()
        giveBack()
    }

    /// Stops for good in the middle of what it does, since everything has crashed; on the writer's thread, elsewhere
    /// nothing.
    func stopIfRunning() {
        guard case .running = state, Thread.current === thread else { return }
        isDead = true
        while true { giveBack() }
    }

    // MARK: For the store

    func startWriter(_ work: @escaping @Sendable () -> Void) {
        let thread = Thread { [self] in
            simulation_enter()
            go.wait()
            work()
            state = .ended
            back.signal()
        }
        thread.stackSize = 1 << 20
        self.thread = thread
        thread.start()
        makeReady()
    }

    func makeSignal() -> any WriterSignal { Signal(threads: self) }

    func pause(microseconds: UInt32) {
        _ = sleep(until: scheduler.now + Int64(microseconds) * 1000, heedsSignals: false)
    }

    func handOver(_ answers: @escaping @Sendable () -> Void) { scheduler.add(answers) }

    func read<Value: Sendable>(
        _ pool: DatabasePool,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        // Here, on the driver's thread: the readers' own threads would run beside it.
        try Self.readNow(pool, body)
    }

    private static func readNow<Value>(_ pool: DatabasePool, _ body: (Database) throws -> Value) throws -> Value {
        try pool.read(body)
    }

    private var heedsSignals = true

    private func sleep(until deadline: Int64?, heedsSignals: Bool) -> Bool {
        if heedsSignals, isSignalled {
            isSignalled = false
            return true
        }
        self.heedsSignals = heedsSignals
        isTimedOut = false
        state = .asleep(until: deadline)
        giveBack()
        return !isTimedOut
    }

    private struct Signal: WriterSignal {
        let threads: SimulatedThreads

        func send() {
            if case .asleep = threads.state, threads.heedsSignals { return threads.makeReady() }
            threads.isSignalled = true
        }

        func wait(until deadline: DispatchTime?) -> Bool {
            threads.sleep(until: deadline.map { Int64($0.uptimeNanoseconds) }, heedsSignals: true)
        }
    }
}
