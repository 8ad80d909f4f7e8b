internal import PushCore
internal import Synchronization

/// Bounds what requests may hold at a time: their number, the memory of their bodies, and the event streams.
///
/// What does not fit is refused at once with the time to come again; nothing waits here.
final class Admission: Sendable {
    /// The most event streams at a time.
    static let maximumStreams = 100
    /// A body of at most so many bytes is small: it counts for the bound of all bodies only.
    static let smallBody = 64 << 10
    /// A body of at most so many bytes is not counted for its peer, whose connections are.
    static let tinyBody = 4 << 10

    /// The most values within `data` and `overrides` of all notifications of a request.
    static let maximumTreeValues = 200_000
    /// The memory that such a value takes at most beside its text: an array of one number, with what is left free
    /// behind it.
    static let bytesOfTreeValue = 80

    private let requests = Atomic<Int>(0)
    private let bodyBytes = Atomic<Int>(0)
    private let shares = Mutex(Shares())
    private let streams = Atomic<Int>(0)

    /// For whom memory is set aside.
    struct Payer {
        /// The name of the API key.
        var caller: String
        var peer: PeerAddress
    }

    /// Who has how much of the memory.
    private struct Shares {
        /// Of bodies that are not small.
        var large = 0
        var largeOfCaller: [String: Int] = [:]
        /// Of bodies that are not tiny.
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

    /// Counts a request in; ``leave(_:)`` counts it out.
    ///
    /// One key may have half of all requests in progress: others always find capacity.
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

    /// Counts a request out.
    func leave(_ caller: Caller) {
        caller.use?.requests.wrappingSubtract(1, ordering: .relaxed)
        requests.wrappingSubtract(1, ordering: .relaxed)
    }

    /// The memory of all bodies together: 64 MiB, or that of four of the largest if that is more.
    static func budget(largest: Int) -> Int { max(64 << 20, 4 * largest) }

    /// Sets memory aside for a body; ``release(bytes:payer:)`` gives it back.
    ///
    /// Large bodies leave a quarter of the budget to small ones, those of one key leave half of it to others, and all
    /// bodies of one peer, with whatever keys, leave a quarter of it to other peers: nobody can keep the rest away with
    /// bodies that come slowly.
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

    /// Gives memory back.
    func release(bytes: Int, payer: Payer) {
        guard bytes > 0 else { return }
        bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
        guard bytes > Self.tinyBody else { return }
        shares.withLock { $0.add(-bytes, payer) }
    }

    /// Counts an event stream in; ``closeStream(_:)`` counts it out.
    func openStream(_ caller: Caller, limit: Int) throws(Problem) {
        let isRoom = streams.wrappingAdd(1, ordering: .relaxed).newValue <= Self.maximumStreams
        let own = caller.use?.streams.wrappingAdd(1, ordering: .relaxed).newValue ?? 0
        guard isRoom, own <= limit else {
            closeStream(caller)
            throw .tooManyStreams(isRoom ? .streamsPerKey : .streams)
        }
    }

    /// Counts an event stream out.
    func closeStream(_ caller: Caller) {
        caller.use?.streams.wrappingSubtract(1, ordering: .relaxed)
        streams.wrappingSubtract(1, ordering: .relaxed)
    }

    /// The memory that is set aside for bodies, in bytes.
    var reservedBytes: Int { bodyBytes.load(ordering: .relaxed) }

    /// Requests in progress and streams that are open.
    var load: (requests: Int, streams: Int) {
        (requests.load(ordering: .relaxed), streams.load(ordering: .relaxed))
    }
}
