internal import ChaparDelivery
internal import NIOCore
internal import NIOPosix

/// The number of threads for long work: half the machine's cores, so that large bodies take at most half of them.
let longWorkThreadCount = max(1, System.coreCount / 2)

private let longWorkThreads: NIOThreadPool = {
    let pool = NIOThreadPool(numberOfThreads: longWorkThreadCount)
    pool.start()  // It lives as long as the process, like NIO's own pool.
    return pool
}()

/// Runs the computation for a large body on a separate pool of threads.
///
/// The shared pool of tasks has as many threads as the machine has cores, and so have the event loops: two bodies of
/// megabytes there would delay other requests and the dispatcher. A small body is handled at once, on the caller's
/// thread.
func longWork<Value: Sendable>(
    bytes: Int,
    _ work: @escaping @Sendable () throws(Problem) -> Value
) async throws(Problem) -> Value {
    guard bytes > Admission.smallBody else { return try work() }
    let result: Result<Value, Problem>
    do {
        result = try await longWorkThreads.runIfActive { Result { () throws(Problem) in try work() } }
    } catch {
        throw .draining  // Cancelled: the gateway stops, or the client is gone.
    }
    return try result.get()
}
