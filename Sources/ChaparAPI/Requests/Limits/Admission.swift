internal import ChaparDelivery
internal import ChaparCore
internal import Synchronization

/// The limits of what requests may hold at a time: their number, the memory of their bodies, and the event streams.
///
/// Requests beyond a limit are refused at once with the time to try again; nothing waits here.
package final class Admission: Sendable {
    /// The most event streams at a time.
    static let maximumStreams = 100
    /// The most bytes of a small body, which counts for the limit of all bodies only.
    package static let smallBody = 64 << 10
    /// The most bytes of a tiny body, which does not count for its peer, since the peer's connections do.
    static let tinyBody = 4 << 10

    /// The most values within `data` and `overrides` of all notifications of a request.
    static let maximumTreeValues = 200_000
    /// The most memory that such a value takes besides its text, in bytes: that of an array of one number, with its
    /// free space.
    static let bytesOfTreeValue = 80

    private let requests = Atomic<Int>(0)
    private let bodyBytes = Atomic<Int>(0)
    private let shares = Mutex(Shares())
    private let streams = Atomic<Int>(0)

    /// Makes an empty one.
    package init() {}

    /// The caller and the peer for whom memory is reserved.
    struct Payer {
        /// The name of the API key.
        var caller: String
        var peer: PeerAddress
    }

    /// The memory by its payers, in bytes.
    private struct Shares {
        /// The memory of bodies that are not small.
        var large = 0
        var largeOfCaller: [String: Int] = [:]
        /// The memory of bodies that are not tiny.
        var ofPeer: [PeerAddress: Int] = [:]

        mutating func add(_ bytes: Int, _ payer: Payer) {
            Self.add(bytes, to: &ofPeer[payer.peer])
            guard abs(bytes) > Admission.smallBody else { return }
            large += bytes
            Self.add(bytes, to: &largeOfCaller[payer.caller])
        }

        private static func add(_ bytes: Int, to sum: inout Int?) {
            let new = (sum ?? 0) + bytes
            sum = new > 0 ? new : nil
        }
    }

    /// Counts a request as in progress; ``leave(_:)`` ends that.
    ///
    /// One key may have half of all requests in progress, so that others always find capacity.
    func enter(_ caller: Caller, limit: Int) throws(Problem) {
        guard requests.wrappingAdd(1, ordering: .relaxed).newValue <= limit else {
            requests.wrappingSubtract(1, ordering: .relaxed)
            throw .tooBusy
        }
        guard let use = caller.use else { return }
        guard use.requests.wrappingAdd(1, ordering: .relaxed).newValue <= max(1, limit / 2) else {
            leave(caller)
            throw .tooManyOfOne(.requestsPerKey)
        }
    }

    /// Counts a request as finished.
    func leave(_ caller: Caller) {
        caller.use?.requests.wrappingSubtract(1, ordering: .relaxed)
        requests.wrappingSubtract(1, ordering: .relaxed)
    }

    /// Returns the memory of all bodies together, in bytes: 64 MiB, or that of four of the largest if that is more.
    static func budget(largest: Int) -> Int { max(64 << 20, 4 * largest) }

    /// Reserves memory for a body; ``release(bytes:payer:)`` releases it.
    ///
    /// Large bodies leave a quarter of the budget to small ones, those of one key leave half of it to other keys, and
    /// all bodies of one peer, with any keys, leave a quarter of it to other peers: slow bodies of one caller cannot
    /// block the others.
    func reserve(bytes: Int, payer: Payer, largest: Int) throws(Problem) {
        guard bytes > 0 else { return }
        let budget = Self.budget(largest: largest)
        guard bodyBytes.wrappingAdd(bytes, ordering: .relaxed).newValue <= budget else {
            bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
            throw .tooManyBytes(.bodyBytes)
        }
        guard bytes > Self.tinyBody else { return }
        let reached: APILimit? = shares.withLock { shares in
            if shares.ofPeer[payer.peer, default: 0] + bytes > budget / 4 * 3 { return .bodyBytesPerPeer }
            if bytes > Self.smallBody {
                if shares.large + bytes > budget / 4 * 3 { return .bodyBytes }
                if shares.largeOfCaller[payer.caller, default: 0] + bytes > budget / 2 { return .bodyBytesPerKey }
            }
            shares.add(bytes, payer)
            return nil
        }
        guard let reached else { return }
        bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
        throw .tooManyBytes(reached)
    }

    /// Releases memory.
    func release(bytes: Int, payer: Payer) {
        guard bytes > 0 else { return }
        bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
        guard bytes > Self.tinyBody else { return }
        shares.withLock { $0.add(-bytes, payer) }
    }

    /// Counts an event stream as open; ``closeStream(_:)`` ends that.
    func openStream(_ caller: Caller, limit: Int) throws(Problem) {
        let isRoom = streams.wrappingAdd(1, ordering: .relaxed).newValue <= Self.maximumStreams
        let own = caller.use?.streams.wrappingAdd(1, ordering: .relaxed).newValue ?? 0
        guard isRoom, own <= limit else {
            closeStream(caller)
            throw .tooManyStreams(isRoom ? .streamsPerKey : .streams)
        }
    }

    /// Counts an event stream as closed.
    func closeStream(_ caller: Caller) {
        caller.use?.streams.wrappingSubtract(1, ordering: .relaxed)
        streams.wrappingSubtract(1, ordering: .relaxed)
    }

    /// The memory that is reserved for bodies, in bytes.
    package var reservedBytes: Int { bodyBytes.load(ordering: .relaxed) }

    /// The number of requests in progress and of open streams.
    package var load: (requests: Int, streams: Int) {
        (requests.load(ordering: .relaxed), streams.load(ordering: .relaxed))
    }
}

extension Caller {
    /// Returns the payer of the memory that this caller's requests from a peer take.
    func payer(at peer: PeerAddress) -> Admission.Payer { Admission.Payer(caller: name, peer: peer) }
}
