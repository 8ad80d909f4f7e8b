import Foundation
import Synchronization

/// Work that blocks its thread, such as copying a large file, and ends early when the program is interrupted.
enum BlockingWork {
    /// Runs `body` on a thread of its own; `isCancelled` becomes true when the program is interrupted.
    static func run<Value: Sendable>(
        until interruption: Interruption,
        _ body: @escaping @Sendable (_ isCancelled: @escaping @Sendable () -> Bool) throws -> Value
    ) async throws -> Value {
        let flag = Flag()
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                await interruption.wait()
                flag.isSet.store(true, ordering: .relaxed)
                return nil
            }
            group.addTask {
                try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Value?, any Error>) in
                    Thread.detachNewThread {
                        continuation.resume(
                            with: Result<Value?, any Error> { try body { flag.isSet.load(ordering: .relaxed) } }
                        )
                    }
                }
            }
            defer { group.cancelAll() }
            while let result = try await group.next() { if let result { return result } }
            throw CancellationError()
        }
    }

    private final class Flag: Sendable {
        let isSet = Atomic(false)
    }
}
