import NIOCore
import ChaparCore

/// The state of one open stream.
struct Stream {
    var id: Int32 = 0
    /// The call, until it is reported.
    ///
    /// A stream that was given up keeps its slot until the codec has closed it, because the peer counts it too.
    var batch: Batch?
    var index = 0
    var tries = 0
    var deadline = NIODeadline.distantFuture
    /// The number of bytes of the body that were framed.
    var sent = 0
    /// The status of the answer; 0 before the first header block.
    var status = 0
    var headers: [HTTPHeader] = []
    var headerBytes = 0
    var body: [UInt8] = []
    /// The number of bytes reserved from the budget of answers.
    var reserved = 0
    /// Whether the peer has ended its side, so that the answer is complete.
    var isComplete = false
    /// Whether the answer broke the protocol.
    var isMalformed = false
}

/// The open streams of a connection, by a small number that is passed through C as "user data".
///
/// It uses raw memory instead of an array, since C callbacks access it once per field. It needs no bounds or
/// exclusivity checks: every slot in use was made by `insert` and not yet removed.
final class StreamTable {
    private var storage: UnsafeMutablePointer<Stream>
    private var capacity: Int
    private var free: [Int] = []
    private var used = 0
    /// The number of streams that are open on the wire.
    private(set) var count = 0

    init() {
        capacity = 128
        storage = .allocate(capacity: capacity)
    }

    deinit {
        storage.deinitialize(count: used)
        storage.deallocate()
    }

    /// Stores a stream and returns its slot.
    func insert(_ stream: Stream) -> Int {
        count += 1
        if let slot = free.popLast() {
            storage[slot] = stream
            return slot
        }
        if used == capacity { grow() }
        (storage + used).initialize(to: stream)
        used += 1
        return used - 1
    }

    /// Returns the stream in a slot that is in use; the pointer is valid until the next `insert`.
    func at(_ slot: Int) -> UnsafeMutablePointer<Stream> { storage + slot }

    /// Frees a slot.
    func remove(_ slot: Int) {
        storage[slot] = Stream()
        free.append(slot)
        count -= 1
    }

    /// Calls `body` for every stream whose call is not reported yet.
    func forEachUnreported(_ body: (_ slot: Int, _ stream: UnsafeMutablePointer<Stream>) -> Void) {
        var slot = 0
        while slot < used {
            if storage[slot].batch != nil { body(slot, storage + slot) }
            slot += 1
        }
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Stream>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: storage, count: used)
        storage.deallocate()
        storage = larger
        capacity *= 2
    }
}
