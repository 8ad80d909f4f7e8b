internal import NIOCore
internal import NIOHTTP1
internal import NIOTLS

/// Waits for the end of the TLS handshake, then sets up the negotiated protocol: `h2`, else HTTP/1.1.
final class SandboxProtocolSwitch: ChannelInboundHandler, SandboxLiveConnection {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The time after which a client without completed TLS is cut off.
    private static let handshakeDeadline = TimeAmount.seconds(30)

    private let number: Int
    private let gate: TransportGate
    private let opening: SandboxOpening
    private let requestPipeline: SandboxPipeline
    private let options: SandboxHTTP2Options
    private let onClose: () -> Void
    private var chosen: (any SandboxLiveConnection)?

    init(
        number: Int,
        gate: TransportGate,
        opening: SandboxOpening,
        requestPipeline: SandboxPipeline,
        options: SandboxHTTP2Options,
        onClose: @escaping () -> Void
    ) {
        self.number = number
        self.gate = gate
        self.opening = opening
        self.requestPipeline = requestPipeline
        self.options = options
        self.onClose = onClose
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        chosen = nil
        onClose()
    }

    func channelActive(context: ChannelHandlerContext) {
        let deadline = Self.handshakeDeadline + TimeAmount(opening.handshakeDelay)
        context.eventLoop.assumeIsolated().scheduleTask(in: deadline) { [weak self] in
            if let self, self.chosen == nil { self.abort() }
        }
        context.fireChannelActive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent {
            do {
                try choose(negotiated, context)
            } catch {
                return context.close(promise: nil)
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func perform(_ steps: [SandboxStep]) { chosen?.perform(steps) }

    func abort() { gate.reset() }

    private func choose(_ negotiated: String?, _ context: ChannelHandlerContext) throws {
        let pipeline = context.pipeline.syncOperations
        guard negotiated == "h2" else {
            let connection = SandboxHTTP1Connection(
                number: number,
                gate: gate,
                requestPipeline: requestPipeline,
                idleLimit: options.idleLimit
            )
            chosen = connection
            try pipeline.configureHTTPServerPipeline()
            return try pipeline.addHandler(connection)
        }
        let (number, requestPipeline) = (number, requestPipeline)
        let connection = SandboxHTTP2Connection(
            number: number,
            gate: gate,
            opening: opening,
            options: options,
            makePeer: { _ in SandboxWebPeer(number: number, requestPipeline: requestPipeline) },
            onClose: {}
        )
        chosen = connection
        try pipeline.addHandler(connection)
    }
}
