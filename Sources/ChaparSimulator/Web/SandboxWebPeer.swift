/// One HTTP/2 connection to a simulated web service: passes its streams to the listener's request pipeline.
final class SandboxWebPeer: SandboxHTTP2Peer {
    private let number: Int
    private let requestPipeline: SandboxPipeline

    init(number: Int, requestPipeline: SandboxPipeline) {
        self.number = number
        self.requestPipeline = requestPipeline
    }

    /// The settings of Google's front ends, except for the stream limit, which is the listener's.
    var openingSettings: [HTTP2Setting] {
        [.maximumStreams(requestPipeline.maximumStreams), .initialWindow(1_048_576), .init(id: 6, value: 65536)]
    }

    func opened() -> [SandboxStep] { requestPipeline.opened(number) }

    func began(_ stream: HTTP2Stream) -> [SandboxStep] {
        requestPipeline.began(SandboxRequest(stream, connection: number))
    }

    func received(_ stream: HTTP2Stream) -> [SandboxStep] {
        let early = requestPipeline.received(SandboxRequest(stream, connection: number))
        stream.attachment = early
        return early.steps
    }

    func process(_ stream: HTTP2Stream) -> SandboxReply {
        let early = stream.attachment as? SandboxPipeline.Early
        return requestPipeline.reply(
            to: SandboxRequest(stream, connection: number),
            after: early ?? SandboxPipeline.Early()
        )
    }

    func pinged() -> [SandboxStep] {
        requestPipeline.state.withValues { $0.counters.pings += 1 }
        return []
    }

    func refusedStream() { requestPipeline.state.withValues { $0.counters.streamsRefused += 1 } }

    func idled() -> [SandboxStep] { [.goAway(SandboxGoAway())] }

    func sentGoAway() { requestPipeline.state.withValues { $0.counters.goAways += 1 } }
}
