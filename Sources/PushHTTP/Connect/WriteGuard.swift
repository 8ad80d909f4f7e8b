import NIOCore

/// Asks once more whether calls may be written when their bytes are handed to the socket: the first handler of a
/// channel.
///
/// Between the look at a call's ``SendPermit`` and the socket are the opening of a connection, the framing and TLS. The
/// process may stand still there, too. What is left between this look and the kernel are microseconds, which nothing
/// but the platform could close. Bytes that a full socket has left in the channel are written later without another
/// look.
final class WriteGuard: ChannelOutboundHandler {
    typealias OutboundIn = Any

    private let mayWrite: () -> Bool

    /// Makes a guard that closes its channel, with what was not flushed, when the answer is false.
    init(_ mayWrite: @escaping () -> Bool) { self.mayWrite = mayWrite }

    func flush(context: ChannelHandlerContext) {
        guard mayWrite() else { return context.close(promise: nil) }
        context.flush()
    }
}
