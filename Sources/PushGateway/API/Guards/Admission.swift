internal import PushCore
internal import Synchronization

/// Bounds what requests may hold at a time: their number, the memory of their bodies, and the event streams.
///
/// What does not fit is refused at once with a word about when to come again; nothing waits here.
final class Admission: Sendable {
    /// The most event streams at a time.
    static let maximumStreams = 100

    private let requests = Atomic<Int>(0)
    private let bodyBytes = Atomic<Int>(0)
    private let streams = Atomic<Int>(0)

    /// Counts a request in; ``leave()`` counts it out.
    func enter(limit: Int) throws(Problem) {
        guard requests.wrappingAdd(1, ordering: .relaxed).newValue <= limit else {
            leave()
            throw .tooBusy
        }
    }

    /// Counts a request out.
    func leave() { requests.wrappingSubtract(1, ordering: .relaxed) }

    /// Sets memory aside for a body; ``release(bytes:)`` gives it back.
    ///
    /// All bodies together get the memory of 32 of the largest, or 64 MiB if that is more.
    func reserve(bytes: Int, largest: Int) throws(Problem) {
        let budget = max(64 << 20, 32 * largest)
        guard bodyBytes.wrappingAdd(bytes, ordering: .relaxed).newValue <= budget else {
            release(bytes: bytes)
            throw .tooBusy
        }
    }

    /// Gives memory back.
    func release(bytes: Int) { bodyBytes.wrappingSubtract(bytes, ordering: .relaxed) }

    /// Counts an event stream in; ``closeStream()`` counts it out.
    func openStream() throws(Problem) {
        guard streams.wrappingAdd(1, ordering: .relaxed).newValue <= Self.maximumStreams else {
            closeStream()
            throw .tooManyStreams
        }
    }

    /// Counts an event stream out.
    func closeStream() { streams.wrappingSubtract(1, ordering: .relaxed) }

    /// Requests in progress and streams that are open.
    var load: (requests: Int, streams: Int) {
        (requests.load(ordering: .relaxed), streams.load(ordering: .relaxed))
    }
}
