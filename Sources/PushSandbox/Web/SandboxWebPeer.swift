/// One HTTP/2 connection to a simulated web service; brings its streams to the listener's desk.
final class SandboxWebPeer: SandboxHTTP2Peer {
    private let number: Int
    private let desk: SandboxDesk

    init(number: Int, desk: SandboxDesk) {
        self.number = number
        self.desk = desk
    }

    /// What Google's front ends open with, but for the stream limit, which is the listener's.
    var openingSettings: [HTTP2ServerSession.Setting] {
        [.maximumStreams(desk.maximumStreams), .initialWindow(1_048_576), .init(id: 6, value: 65536)]
    }

    func opened(on connection: SandboxHTTP2Connection) -> [SandboxStep] { desk.opened(number) }

    func began(_ stream: HTTP2Stream, on connection: SandboxHTTP2Connection) -> [SandboxStep] {
        desk.began(SandboxRequest(stream, connection: number))
    }

    func received(_ stream: HTTP2Stream, on connection: SandboxHTTP2Connection) -> [SandboxStep] {
        let early = desk.received(SandboxRequest(stream, connection: number))
        stream.attachment = early
        return early.steps
    }

    func process(_ stream: HTTP2Stream, on connection: SandboxHTTP2Connection) -> SandboxReply {
        let early = stream.attachment as? SandboxDesk.Early
        return desk.reply(to: SandboxRequest(stream, connection: number), after: early ?? SandboxDesk.Early())
    }

    func pinged(on connection: SandboxHTTP2Connection) -> [SandboxStep] {
        desk.state.withWorld { $0.counters.pings += 1 }
        return []
    }

    func refusedStream() { desk.state.withWorld { $0.counters.streamsRefused += 1 } }

    func idled() -> [SandboxStep] { [.goAway(SandboxGoAway())] }

    func sentGoAway() { desk.state.withWorld { $0.counters.goAways += 1 } }
}
