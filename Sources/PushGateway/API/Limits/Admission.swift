internal import PushCore
internal import Synchronization

/// Bounds what requests may hold at a time: their number, the memory of their bodies, and the event streams.
///
/// What does not fit is refused at once with a word about when to come again; nothing waits here.
final class Admission: Sendable {
    /// The most event streams at a time.
    static let maximumStreams = 100
    /// A body of at most so many bytes is small: it counts for the bound of all bodies only.
    static let smallBody = 64 << 10

    private let requests = Atomic<Int>(0)
    private let bodyBytes = Atomic<Int>(0)
    private let largeBodies = Mutex(LargeBodies())
    private let streams = Atomic<Int>(0)

    /// The memory of bodies that are not small.
    private struct LargeBodies {
        var bytes = 0
        var bytesOfCaller: [String: Int] = [:]
    }

    /// Counts a request in; ``leave(_:)`` counts it out.
    ///
    /// One key may have half of all requests in progress: others always find room.
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

    /// Sets memory aside for a body; ``release(bytes:caller:)`` gives it back.
    ///
    /// Large bodies leave a quarter of the budget to small ones, and those of one caller leave half of it to others: nobody
    /// can keep the rest away with a few large bodies that come slowly.
    func reserve(bytes: Int, caller: String, largest: Int) throws(Problem) {
        let budget = Self.budget(largest: largest)
        guard bodyBytes.wrappingAdd(bytes, ordering: .relaxed).newValue <= budget else {
            bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
            throw .tooManyBytes
        }
        guard bytes > Self.smallBody else { return }
        let fits = largeBodies.withLock { large in
            let own = large.bytesOfCaller[caller, default: 0] + bytes
            guard large.bytes + bytes <= budget / 4 * 3, own <= budget / 2 else { return false }
            large.bytes += bytes
            large.bytesOfCaller[caller] = own
            return true
        }
        guard fits else {
            bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
            throw .tooManyBytes
        }
    }

    /// Gives memory back.
    func release(bytes: Int, caller: String) {
        bodyBytes.wrappingSubtract(bytes, ordering: .relaxed)
        guard bytes > Self.smallBody else { return }
        largeBodies.withLock { large in
            large.bytes -= bytes
            let own = large.bytesOfCaller[caller, default: 0] - bytes
            large.bytesOfCaller[caller] = own > 0 ? own : nil
        }
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
