import Dispatch
import Foundation
import GRDB

/// The threads that a store works on, and how they wait.
///
/// A running gateway has ``MachineThreads``. The simulation of Tests/Simulation puts its own in their place, where one
/// thing happens at a time, in an order that a seed decides.
protocol StoreThreads: Sendable {
    /// Runs the writer, which keeps its thread to its end.
    func startWriter(_ work: @escaping @Sendable () -> Void)

    /// Makes the signal that the writer waits on.
    func makeSignal() -> any WriterSignal

    /// Makes the writer sleep for this number of microseconds.
    func pause(microseconds: UInt32)

    /// Delivers the answers of a commit, from the writer's thread.
    func handOver(_ answers: @escaping @Sendable () -> Void)

    /// Reads a database on one of its connections for reading.
    func read<Value: Sendable>(
        _ pool: DatabasePool,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value
}

/// Wakes the writer: one signal for each time that it is about to wait.
protocol WriterSignal: Sendable {
    /// Ends a wait, or the next one at once.
    func send()

    /// Waits for a signal; false when the deadline came first.
    func wait(until deadline: DispatchTime?) -> Bool
}

/// Threads of the machine: one of its own for the writer, GRDB's for reading.
struct MachineThreads: StoreThreads {
    private struct Signal: WriterSignal {
        private let semaphore = DispatchSemaphore(value: 0)

        func send() { semaphore.signal() }

        func wait(until deadline: DispatchTime?) -> Bool {
            semaphore.wait(timeout: deadline ?? .distantFuture) == .success
        }
    }

    func startWriter(_ work: @escaping @Sendable () -> Void) {
        let thread = Thread(block: work)
        thread.name = "chapar-store"
        thread.start()
    }

    func makeSignal() -> any WriterSignal { Signal() }

    func pause(microseconds: UInt32) { usleep(microseconds) }

    func handOver(_ answers: @escaping @Sendable () -> Void) { answers() }

    func read<Value: Sendable>(
        _ pool: DatabasePool,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        try await pool.read(body)
    }
}
