internal import Foundation
internal import NIOCore
internal import ChaparCore

/// A handler between the socket and TLS that imitates a broken network: holds, drops, throttles, cuts.
final class TransportGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The most bytes held back for a slow connection; beyond it the connection is reset.
    private static let maximumHeld = 16 << 20
    private static let ticksPerSecond = 50

    private var context: ChannelHandlerContext?
    private var isHoldingInput = false
    private var heldInput: [ByteBuffer] = []
    private var isBlackHole = false
    private var bytesPerSecond: Int?
    private var heldOutput = ByteBuffer()
    private var isTicking = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isBlackHole { return }
        if isHoldingInput {
            heldInput.append(unwrapInboundIn(data))
        } else {
            context.fireChannelRead(data)
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if isBlackHole {
            promise?.succeed()
        } else if bytesPerSecond != nil {
            var bytes = unwrapOutboundIn(data)
            heldOutput.writeBuffer(&bytes)
            promise?.succeed()
            if heldOutput.readableBytes > Self.maximumHeld { reset() } else { tick() }
        } else {
            context.write(data, promise: promise)
        }
    }

    /// Keeps the client's bytes from TLS for a while.
    func holdInput(for delay: Duration) {
        guard let context, delay > .zero else { return }
        isHoldingInput = true
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) { self.releaseInput() }
    }

    /// Drops all bytes in both directions from now on, with the socket left open.
    func becomeBlackHole() { isBlackHole = true }

    /// Limits the output from now on to this many bytes a second.
    func throttle(to bytesPerSecond: Int) { self.bytesPerSecond = max(1, bytesPerSecond) }

    /// Cuts the connection with a TCP reset.
    func reset() {
        guard let context else { return }
        isBlackHole = true
        // Lingering for zero seconds makes the kernel send RST instead of FIN.
        if let socket = context.channel as? any SocketOptionProvider {
            _ = socket.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        }
        context.close(promise: nil)
    }

    /// Closes the sending side of the socket; with `keepsReading` false the rest follows shortly after.
    func finish(keepsReading: Bool) {
        guard let context else { return }
        context.close(mode: .output, promise: nil)
        isBlackHole = !keepsReading
        bytesPerSecond = nil
        if !keepsReading {
            // Unread bytes would turn the close into a reset, so the client gets time to see the FIN.
            context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(100)) {
                self.context?.close(promise: nil)
            }
        }
    }

    private func releaseInput() {
        isHoldingInput = false
        guard let context, !heldInput.isEmpty else { return }
        for bytes in heldInput { context.fireChannelRead(wrapInboundOut(bytes)) }
        heldInput.removeAll()
        context.fireChannelReadComplete()
    }

    private func tick() {
        guard let context, let bytesPerSecond, !isTicking, heldOutput.readableBytes > 0 else { return }
        let share = min(heldOutput.readableBytes, max(1, bytesPerSecond / Self.ticksPerSecond))
        if let part = heldOutput.readSlice(length: share) {
            context.writeAndFlush(wrapOutboundOut(part), promise: nil)
        }
        isTicking = true
        let pause = TimeAmount.nanoseconds(Int64(clamping: Double(share) / Double(max(1, bytesPerSecond)) * 1e9))
        context.eventLoop.assumeIsolated().scheduleTask(in: pause) {
            self.isTicking = false
            self.heldOutput.discardReadBytes()
            self.tick()
        }
    }
}
