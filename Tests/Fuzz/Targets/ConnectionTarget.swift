import Foundation
import Hummingbird
import NIOCore
import NIOPosix
import ChaparGateway
import ChaparTesting

extension FuzzTarget {
    /// What comes in on a connection of the gateway's own server: whole answers, one for each request, and an end.
    static let http1 = FuzzTarget.prepared("http1") { body in
        let application = try FuzzGateway().api
        let (ports, continuation) = AsyncStream.makeStream(of: Int.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.makeApplication { continuation.yield($0) }.run() }
            guard let port = await ports.first(where: { _ in true }) else { throw Violation("the server listens") }
            try await body { bytes in try check(try await converse(bytes, port), to: bytes) }
            group.cancelAll()
        }
    }

    /// Sends everything, says that there is no more, and reads to the end; a stream of events is left.
    private static func converse(_ bytes: [UInt8], _ port: Int) async throws -> [UInt8] {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel,
                        configuration: .init(isOutboundHalfClosureEnabled: true)
                    )
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            var answer: [UInt8] = []
            do {
                try await outbound.write(ByteBuffer(bytes: bytes))
                outbound.finish()
                for try await part in inbound {
                    answer += part.readableBytesView
                    if answer.firstRange(of: Array("text/event-stream".utf8)) != nil { break }
                }
            } catch is IOError, is ChannelError {
                // The server has closed the connection before it had read everything.
            }
            return answer
        }
    }

    private static func check(_ answer: [UInt8], to bytes: [UInt8]) throws {
        let marker = Array("HTTP/1.1 ".utf8)
        var rest = answer[...]
        var answers = 0
        while let head = rest.firstRange(of: marker) {
            if answers == 0 { try require(head.lowerBound == 0, "an answer begins with its status") }
            answers += 1
            rest = rest[head.upperBound...]
            let status = Int(String(decoding: rest.prefix(3), as: UTF8.self))
            guard let status, (100..<600).contains(status) else { throw Violation("an answer has a status") }
            try require(status < 500 || status == 501 || status == 505, "the server does not fail: \(status)")
        }
        try require(answer.isEmpty || answers > 0, "what comes back is HTTP")
        let lines = bytes.split(separator: 10).count
        try require(answers <= max(1, lines), "there are not more answers than requests")
    }
}
