import NIOCore
import NIOHTTP1

/// A client that reads the stream of events beside the oracle's own: it begins anywhere, stops reading now and then,
/// and comes back.
///
/// It must get each event from there on, without gap or repetition, and of the same type as the oracle gets it.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class SecondReader: @unchecked Sendable {
    /// The number of the newest event that it has.
    private(set) var last: Int64
    private var connection: ClientConnection?
    private var frames = EventFrames()

    init(after number: Int64) { last = number }

    /// Whether it takes what comes.
    func read(_ isReading: Bool) { connection?.isReading = isReading }

    /// The gateway is gone, and the connection with it.
    func disconnect() { connection = nil }

    /// Opens the stream when it is not open.
    func follow(_ world: World) {
        guard connection == nil, world.incarnation?.gateway != nil, world.incarnation?.stopped == nil else { return }
        frames.reset()
        connection = world.listen(after: last) { [self] part in
            switch part {
            case .head: break
            case .body(let buffer):
                for event in frames.append(buffer.readableBytesView) { receive(event, world.oracle) }
            case .end:  // A refusal, which leaves the connection open.
                connection?.close()
                connection = nil
            }
        } onEnd: { [self] in
            connection = nil
        }
    }

    private func receive(_ event: EventFrames.Event, _ oracle: Oracle) {
        if event.isGap, oracle.faults[.clockJump] != nil {
            last = max(last, event.number)  // They are older than the gateway keeps events, by a clock that jumped.
            return
        }
        if event.number != last + 1 { oracle.fail("event \(event.number) follows event \(last) for a second reader") }
        last = max(last, event.number)
        oracle.compare(event)
    }
}
