#if HTTP1
    import NIOCore
    import NIOHTTP1
    import ChaparCore

    /// Blocks answers that AsyncHTTPClient does not expect: those whose status is not one of a final answer.
    ///
    /// It stands between the decoder and AsyncHTTPClient's own handler. AsyncHTTPClient (1.37.0) takes every status
    /// below 200 for informational and ends the process when a body follows, as after `HTTP/1.1 099`. No call here asks
    /// for another protocol either, so 101 is no valid answer.
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
