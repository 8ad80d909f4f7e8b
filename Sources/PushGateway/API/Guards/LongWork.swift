internal import NIOPosix

/// Runs what a large body costs in computing on a thread of NIO's pool.
///
/// The threads that tasks share are as many as the machine has cores, and event loops likewise: two bodies of megabytes on
/// them would keep other requests and the dispatch waiting. A small body is dealt with at once, on the caller's thread.
func longWork<Value: Sendable>(
    bytes: Int,
    _ work: @escaping @Sendable () throws(Problem) -> Value
) async throws(Problem) -> Value {
    guard bytes > Admission.smallBody else { return try work() }
    let result: Result<Value, Problem>
    do {
        result = try await NIOThreadPool.singleton.runIfActive { Result { () throws(Problem) in try work() } }
    } catch {
        throw .draining  // Cancelled: the gateway ends, or the client is gone.
    }
    return try result.get()
}
