import NIOCore

/// Checks again whether calls may be written when their bytes go to the socket: the first handler of a channel.
///
/// A connect, framing and TLS come between the check of a call's ``SendPermit`` and the socket, and the process may be
/// suspended there, too. Between this check and the kernel only microseconds are left, which nothing but the platform
/// could close. Bytes that a full socket has left in the channel are written later without another check.
final class WriteGuard: ChannelOutboundHandler {
    typealias OutboundIn = Any

    private let mayWrite: () -> Bool

    /// Makes a guard that closes its channel, with all unflushed bytes, when `mayWrite` returns false.
    init(_ mayWrite: @escaping () -> Bool) { self.mayWrite = mayWrite }

    func flush(context: ChannelHandlerContext) {
        guard mayWrite() else { return context.close(promise: nil) }
        context.flush()
    }
}
