import ChaparCore
import Synchronization

/// A transport that records the pools made through it, so that they can be shut down without those of others.
final class PoolTally: HTTPTransport {
    private let transport: any HTTPTransport
    private let pools = Mutex<[any HTTPPool]>([])

    init(_ transport: any HTTPTransport) { self.transport = transport }

    func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        let pool = try transport.pool(configuration)
        pools.withLock { $0.append(pool) }
        return pool
    }

    /// Shuts down every pool that was made through it.
    func shutdown(grace: Duration) async {
        let made = pools.withLock { pools in
            defer { pools = [] }
            return pools
        }
        for pool in made { await pool.shutdown(grace: grace) }
    }
}
