internal import NIOCore
internal import NIOPosix

/// How many threads do long work: half as many as the machine has cores, so that large bodies take at most half of
/// them.
let longWorkThreadCount = max(1, System.coreCount / 2)

private let longWorkThreads: NIOThreadPool = {
    let pool = NIOThreadPool(numberOfThreads: longWorkThreadCount)
    pool.start()  // Lives as long as the process, as NIO's own does.
    return pool
}()

/// Runs what a large body costs in computing on a thread of its own kind.
///
/// The threads that tasks share are as many as the machine has cores, and event loops likewise: two bodies of megabytes
/// on them would keep other requests and the dispatch waiting. A small body is dealt with at once, on the caller's
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
        throw .draining  // Cancelled: the gateway ends, or the client is gone.
    }
    return try result.get()
}
