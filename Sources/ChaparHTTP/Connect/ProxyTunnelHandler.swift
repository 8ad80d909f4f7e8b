package import NIOCore
package import ChaparCore

/// Requests a tunnel from an HTTP proxy, then removes itself.
///
/// It is first in a connection's pipeline when a proxy is configured. The handlers behind it see the channel as a
/// connection to the endpoint.
package final class ProxyTunnelHandler: ChannelInboundHandler, RemovableChannelHandler {
    package typealias InboundIn = ByteBuffer
    package typealias InboundOut = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    private static let maximumReplyBytes = 16 * 1024

    private let endpoint: HTTPEndpoint
    private let credentials: HTTPProxyCredentials?
    private let established: (ChannelHandlerContext) throws -> Void
    private var reply = ByteBuffer()
    private var isDone = false

    /// Makes a handler; `established` adds the handlers behind the tunnel, on the event loop.
    package init(
        endpoint: HTTPEndpoint,
        credentials: HTTPProxyCredentials? = nil,
        established: @escaping (ChannelHandlerContext) throws -> Void
    ) {
        self.endpoint = endpoint
        self.credentials = credentials
        self.established = established
    }

    package func channelActive(context: ChannelHandlerContext) {
        let host = endpoint.host.contains(":") ? "[\(endpoint.host)]" : endpoint.host
        let target = "\(host):\(endpoint.port)"
        let authorization = credentials.map { "proxy-authorization: Basic \($0.basic.reveal())\r\n" } ?? ""
        let request = "CONNECT \(target) HTTP/1.1\r\nhost: \(target)\r\n\(authorization)\r\n"
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
        context.fireChannelActive()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return context.fireChannelRead(data) }
        var bytes = unwrapInboundIn(data)
        reply.writeBuffer(&bytes)
        guard let end = reply.readableBytesView.firstRange(of: [13, 10, 13, 10]) else {
            if reply.readableBytes > Self.maximumReplyBytes { refuse(context, "answers without an end") }
            return
        }
        let head = String(decoding: reply.readableBytesView[..<end.lowerBound], as: UTF8.self)
        let status = head.split(separator: " ", maxSplits: 2).dropFirst().first.flatMap { Int($0) }
        guard head.hasPrefix("HTTP/1."), let status else { return refuse(context, "does not answer in HTTP/1.1") }
        guard status != 407 else {
            let why = credentials == nil ? "wants a user and a password" : "does not take the user and password"
            return refuse(context, "answers 407: it \(why) in proxy, http://user:password@host:port,")
        }
        guard (200..<300).contains(status) else { return refuse(context, "answers \(status)") }
        isDone = true
        do {
            try established(context)
        } catch {
            context.fireErrorCaught(error)
            return context.close(promise: nil)
        }
        reply.moveReaderIndex(to: end.upperBound)
        if reply.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(reply)) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    package func channelInactive(context: ChannelHandlerContext) {
        if !isDone { context.fireErrorCaught(failure("closed the connection")) }
        context.fireChannelInactive()
    }

    private func refuse(_ context: ChannelHandlerContext, _ what: String) {
        isDone = true
        context.fireErrorCaught(failure(what))
        context.close(promise: nil)
    }

    private func failure(_ what: String) -> HTTPFailure {
        HTTPFailure(.notProcessed, .proxy, "the proxy \(what) when asked for a tunnel to \(endpoint)")
    }
}
