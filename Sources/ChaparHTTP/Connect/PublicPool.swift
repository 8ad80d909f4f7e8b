import NIOCore
import ChaparCore
import Synchronization

/// A pool whose connections go to public addresses only, for hosts that come from outside.
///
/// It resolves the host itself, refuses it if any address is not public, and connects to an address that it has
/// checked: a name that resolves to another address a moment later (DNS rebinding) gains nothing. TLS and HTTP keep the
/// name.
final class PublicPool: HTTPPool {
    /// How long an answer of the resolver is used.
    static let maximumAge = Duration.seconds(10)

    private struct State {
        var address: [UInt8]?
        var pool: (any HTTPPool)?
        var checkedAt: ContinuousClock.Instant?
        var isEnded = false
    }

    private let configuration: HTTPPoolConfiguration
    private let resolve: AddressResolver
    private let make: @Sendable (HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool
    private let onEnd: @Sendable (ObjectIdentifier) -> Void
    private let state = Mutex(State())

    /// Makes a pool; nothing is resolved before the first call.
    ///
    /// - Parameters:
    ///   - configuration: The settings, with the name as endpoint.
    ///   - resolve: Resolves the name.
    ///   - make: Makes the pool of an address.
    ///   - onEnd: Called at the end of ``shutdown(grace:)``.
    init(
        _ configuration: HTTPPoolConfiguration,
        resolve: @escaping AddressResolver,
        make: @escaping @Sendable (HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool,
        onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.resolve = resolve
        self.make = make
        self.onEnd = onEnd
    }

    func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        guard !calls.isEmpty else { return }
        do throws(HTTPFailure) {
            let pool = try await pool()
            await pool.send(calls, report: report)
        } catch {
            report(calls.indices.map { HTTPReply(index: $0, result: .failure(error), connection: 0) })
        }
    }

    var status: HTTPPoolStatus { state.withLock { $0.pool }?.status ?? HTTPPoolStatus() }

    func replaceConnections() { state.withLock { $0.pool }?.replaceConnections() }

    func shutdown(grace: Duration) async {
        let pool = state.withLock { state in
            state.isEnded = true
            return state.pool
        }
        await pool?.shutdown(grace: grace)
        onEnd(ObjectIdentifier(self))
    }

    /// Returns the pool of a checked address; resolves the name where the last answer is old, or its address failed.
    private func pool() async throws(HTTPFailure) -> any HTTPPool {
        let known: (any HTTPPool)? = try state.withLock { state throws(HTTPFailure) in
            guard !state.isEnded else { throw HTTPFailure(.notProcessed, .cancelled, "the pool has ended") }
            guard let pool = state.pool, let checkedAt = state.checkedAt,
                checkedAt.duration(to: .now) < Self.maximumAge,
                pool.status.outage == nil
            else { return nil }
            return pool
        }
        if let known { return known }
        let addresses = try await addresses()
        return try state.withLock { state throws(HTTPFailure) in
            guard !state.isEnded else { throw HTTPFailure(.notProcessed, .cancelled, "the pool has ended") }
            state.checkedAt = .now
            let isUsable = state.address.map { addresses.contains($0) } ?? false
            if let pool = state.pool, isUsable, pool.status.outage == nil || addresses.count == 1 { return pool }
            // After a failure the next address of the list is tried, so that all of them come in turn.
            let last = state.address.flatMap { addresses.firstIndex(of: $0) }
            let address = addresses[last.map { ($0 + 1) % addresses.count } ?? 0]
            var own = configuration
            own.resolvedAddress = Self.text(of: address)
            do throws(HTTPPoolError) {
                let pool = try make(own)
                // The former pool ends when its last call does: each holds it.
                (state.address, state.pool) = (address, pool)
                return pool
            } catch {
                throw HTTPFailure(.notProcessed, .connect, error.description)
            }
        }
    }

    private func addresses() async throws(HTTPFailure) -> [[UInt8]] {
        let host = configuration.endpoint.host
        let found: [[UInt8]]
        do {
            found = try await Deadline.run(configuration.connectTimeout) { [resolve] in try await resolve(host) }
        } catch let failure as HTTPFailure {
            throw failure
        } catch is CancellationError {
            throw HTTPFailure(.notProcessed, .cancelled, "the call was given up before its host was resolved")
        } catch {
            throw HTTPFailure(.notProcessed, .connect, "\(host): name resolution gave no answer in time")
        }
        guard !found.isEmpty else { throw HTTPFailure(.notProcessed, .connect, "\(host) has no address") }
        guard found.allSatisfy(PublicAddress.contains) else {
            throw HTTPFailure(.notProcessed, .forbiddenAddress, "\(host) has an address that is not public")
        }
        return found
    }

    /// Returns an address as a socket takes it.
    private static func text(of address: [UInt8]) -> String {
        if address.count == 4 { return address.map { "\($0)" }.joined(separator: ".") }
        return stride(from: 0, to: address.count, by: 2)
            .map { String(Int(address[$0]) << 8 | Int(address[$0 + 1]), radix: 16) }.joined(separator: ":")
    }
}
