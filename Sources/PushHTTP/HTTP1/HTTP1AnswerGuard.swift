#if HTTP1
    import NIOCore
    import NIOHTTP1
    import PushCore

    /// Keeps answers away from AsyncHTTPClient that it does not expect: their statuses are not those of a final answer.
    ///
    /// Between the decoder and AsyncHTTPClient's own handler. AsyncHTTPClient (1.37.0) takes every status below 200 for
    /// informational and ends the process when a body follows, which it does after `HTTP/1.1 099`. Nobody here asks for
    /// another protocol either, so that 101 is no answer.
    final class HTTP1AnswerGuard: ChannelInboundHandler {
        typealias InboundIn = HTTPClientResponsePart

        private var isBroken = false

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard !isBroken else { return }
            if case .head(let head) = unwrapInboundIn(data), head.status.code < 100 || head.status.code == 101 {
                isBroken = true
                let text = "the answer's status is \(head.status.code), which answers nothing"
                context.fireErrorCaught(HTTPFailure(.unknown, .badAnswer, text))
                return context.close(promise: nil)
            }
            context.fireChannelRead(data)
        }
    }
#endif
