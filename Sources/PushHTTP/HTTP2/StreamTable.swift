import NIOCore
import PushCore

/// What is known of one open stream.
struct Stream {
    var id: Int32 = 0
    /// The call, until it is reported.
    ///
    /// A stream that was given up keeps its place until the codec has closed it,
    /// because the peer counts it too.
    var batch: Batch?
    var index = 0
    var tries = 0
    var deadline = NIODeadline.distantFuture
    /// Bytes of the body that were framed.
    var sent = 0
    /// 0 before the first header block.
    var status = 0
    var headers: [HTTPHeader] = []
    var headerBytes = 0
    var body: [UInt8] = []
    /// Bytes that were taken from the budget of answers.
    var held = 0
    /// The peer has ended its side: the answer is whole.
    var isComplete = false
    /// The answer broke the protocol.
    var isMalformed = false
}

/// The open streams of a connection, addressed by a small number that goes through C as "user data".
///
/// Raw memory instead of an array, since C callbacks reach it once per field and nothing here needs bounds or
/// exclusivity checks: every slot that is handed out was made by `insert` and not yet removed.
final class StreamTable {
    private var storage: UnsafeMutablePointer<Stream>
    private var capacity: Int
    private var free: [Int] = []
    private var used = 0
    /// Streams that are open on the wire.
    private(set) var count = 0

    init() {
        capacity = 128
        storage = .allocate(capacity: capacity)
    }

    deinit {
        storage.deinitialize(count: used)
        storage.deallocate()
    }

    /// Places a stream and gives its slot.
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

    /// The stream in a slot that is in use; the pointer is good until the next `insert`.
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
