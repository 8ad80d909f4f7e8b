internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// The repetition of a write until the store has taken it, for decisions that are made outside the store and must reach
/// it.
///
/// Used by ``OutcomeWriter``, ``TokenInvalidation`` and the outbox. The pauses between tries grow from 50 ms to 1 s,
/// until the store is closed or the task is cancelled. A write that fails the same way each time, such as to a damaged
/// store, is tried once.
struct StoreRetry: Sendable {
    private static let firstPause = Duration.milliseconds(50)
    private static let longestPause = Duration.seconds(1)

    let time: any TimeSource
    let logger: Logger

    /// Calls `body` until it succeeds, with pauses from 50 ms to 1 s between the attempts.
    ///
    /// It ends when the store is closed, since nothing can be written any more, at an error that stays
    /// (``ChaparCore/StoreError/isLasting``), and when the task is cancelled during a pause.
    ///
    /// - Parameters:
    ///   - work: The kind of write, of bounded variety, for the log.
    ///   - count: The number of rows, for the log.
    ///   - body: The write.
    /// - Returns: What `body` returned; nil when it never succeeded.
    @discardableResult
    func run<Value>(_ work: String, count: Int = 1, _ body: () async throws(StoreError) -> Value) async -> Value? {
        var pause = Self.firstPause
        while true {
            do throws(StoreError) {
                return try await body()
            } catch {
                if error == .closed {
                    logger.error("the store closed before a write", metadata: metadata(work, count))
                    return nil
                }
                var details = metadata(work, count)
                details["error"] = "\(error)"
                if error.isLasting {
                    logger.error("a write to the store cannot be made and is not tried again", metadata: details)
                    return nil
                }
                logger.error("a write to the store failed and is tried again", metadata: details)
            }
            do {
                try await time.sleep(for: pause)
            } catch {
                logger.error("the gateway ended before a write", metadata: metadata(work, count))
                return nil
            }
            pause = min(pause * 2, Self.longestPause)
        }
    }

    private func metadata(_ work: String, _ count: Int) -> Logger.Metadata {
        ["work": "\(work)", "count": .stringConvertible(count)]
    }
}

extension StoreError {
    /// Whether the same write fails the same way each time, because of its content, the store's file or its version.
    var isLasting: Bool {
        switch self {
        case .closed, .refused, .damaged, .sealed, .newer: true
        case .full, .shareFull, .failed: false
        }
    }
}
