import NIOCore
import NIOEmbedded
import ChaparCore
import ChaparHTTP

extension FuzzTarget {
    /// A proxy's answer to `CONNECT`: one verdict, the same however the bytes are cut, and nothing lost behind the
    /// head.
    static let connect = FuzzTarget("connect") { bytes in
        let whole = try tunnel(bytes, by: max(1, bytes.count))
        for size in [1, 7] {
            let parts = try tunnel(bytes, by: size)
            try require(parts == whole, "an answer in parts of \(size) means the same: \(parts) and \(whole)")
        }
    }

    private struct Outcome: Equatable {
        var isEstablished = false
        var refusals: [String] = []
        /// The bytes that reached the handlers behind.
        var rest: [UInt8] = []
    }

    private static func tunnel(_ bytes: [UInt8], by size: Int) throws -> Outcome {
        var outcome = Outcome()
        let loop = EmbeddedEventLoop()
        let established = NIOLoopBoundBox(false, eventLoop: loop)
        let channel = EmbeddedChannel(loop: loop)
        let handler = ProxyTunnelHandler(endpoint: HTTPEndpoint(host: "push.example", port: 443)) { _ in
            established.value = true
        }
        try channel.pipeline.syncOperations.addHandler(handler)
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 3128), promise: nil)
        var left = bytes[...]
        while let part = Optional(left.prefix(size)), !part.isEmpty, channel.isActive {
            left = left.dropFirst(size)
            do {
                try channel.writeInbound(ByteBuffer(bytes: part))
            } catch let failure as HTTPFailure {
                outcome.refusals.append(failure.detail)
            }
        }
        loop.run()
        while let buffer = try channel.readInbound(as: ByteBuffer.self) { outcome.rest += buffer.readableBytesView }
        do {
            _ = try channel.finish(acceptAlreadyClosed: true)
        } catch let failure as HTTPFailure {
            outcome.refusals.append(failure.detail)
        }
        outcome.isEstablished = established.value
        try require(outcome.isEstablished || outcome.rest.isEmpty, "nothing is passed on before there is a tunnel")
        try require(outcome.isEstablished == outcome.refusals.isEmpty, "there is a tunnel, or a reason: \(outcome)")
        try require(outcome.refusals.count <= 1, "there is one reason: \(outcome.refusals)")
        return outcome
    }
}
