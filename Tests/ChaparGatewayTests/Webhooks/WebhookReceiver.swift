import Foundation
import NIOCore
import NIOPosix
import ChaparCore
import Synchronization

@testable import ChaparDelivery

/// A server on loopback that takes webhooks: it keeps every request, verifies it with code of its own, and answers by
/// a script.
final class WebhookReceiver: Sendable {
    /// A request, as it came.
    struct Request: Sendable {
        var path: String
        var fields: [String: String]
        var body: [UInt8]

        var id: String { fields["webhook-id"] ?? "" }
        var timestamp: Int64 { fields["webhook-timestamp"].flatMap(Int64.init) ?? -1 }
        var signatures: String { fields["webhook-signature"] ?? "" }
        var json: JSONValue { (try? JSONValue(parsing: body)) ?? .null }
        var type: String { json["type"]?.stringValue ?? "" }
        /// The numbers of its events: that of `data`, or those of a batch.
        var numbers: [Int64] {
            let events = json["data"]?["events"]?.arrayValue ?? [json]
            return events.compactMap { $0["data"]?["number"]?.integerValue }
        }
    }

    /// An answer.
    enum Answer: Sendable {
        case status(Int, [String: String] = [:], body: String = "")
        /// A head with this status, and a body that never ends.
        case unfinished(Int)
        /// The connection is closed without an answer.
        case reset
        /// Nothing is answered until ``WebhookReceiver/release()``.
        case hold
    }

    private struct Contents {
        var requests: [Request] = []
        var script: @Sendable (Request, Int) -> Answer = { _, _ in .status(200) }
        var held: [any Channel] = []
        var connections = 0
        var open = 0
        var mostOpen = 0
    }

    private let contents = Mutex(Contents())
    private let server = Mutex<(any Channel)?>(nil)

    /// The requests so far.
    var requests: [Request] { contents.withLock { $0.requests } }
    /// The number of connections so far.
    var connections: Int { contents.withLock { $0.connections } }
    /// The most requests at the same time.
    var mostAtOnce: Int { contents.withLock { $0.mostOpen } }
    var port: Int { server.withLock { $0?.localAddress?.port ?? 0 } }

    /// Sets the answers: a closure of the request and of how many came with its id before.
    func answer(_ script: @escaping @Sendable (Request, Int) -> Answer) { contents.withLock { $0.script = script } }

    /// Answers requests that are held with 200.
    func release() {
        let held = contents.withLock { contents in
            defer { contents.held = [] }
            return contents.held
        }
        for channel in held { Self.write(.status(200), to: channel) }
    }

    /// Listens while `body` runs.
    static func run(_ body: (WebhookReceiver) async throws -> Void) async throws {
        let receiver = WebhookReceiver()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(receiver))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        receiver.server.withLock { $0 = channel }
        do {
            try await body(receiver)
        } catch {
            try? await channel.close()
            throw error
        }
        try await channel.close()
    }

    private func take(_ request: Request, _ channel: any Channel) -> Answer {
        contents.withLock { contents in
            let repeats = contents.requests.count { $0.id == request.id }
            contents.requests.append(request)
            contents.open += 1
            contents.mostOpen = max(contents.mostOpen, contents.open)
            let answer = contents.script(request, repeats)
            if case .hold = answer { contents.held.append(channel) }
            return answer
        }
    }

    private static func write(_ answer: Answer, to channel: any Channel) {
        if case .unfinished(let status) = answer {
            let head = "HTTP/1.1 \(status) X\r\ncontent-length: 1000000\r\n\r\nbody"
            return channel.writeAndFlush(ByteBuffer(string: head), promise: nil)
        }
        guard case .status(let status, let fields, let body) = answer else {
            if case .reset = answer { channel.close(promise: nil) }
            return
        }
        var head = "HTTP/1.1 \(status) X\r\ncontent-length: \(body.utf8.count)\r\nconnection: close\r\n"
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        channel.writeAndFlush(ByteBuffer(string: head + "\r\n" + body)).whenComplete { _ in
            channel.close(promise: nil)
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let receiver: WebhookReceiver
        private var bytes: [UInt8] = []
        private var isTaken = false

        init(_ receiver: WebhookReceiver) { self.receiver = receiver }

        func channelActive(context: ChannelHandlerContext) {
            receiver.contents.withLock { $0.connections += 1 }
        }

        func channelInactive(context: ChannelHandlerContext) {
            if isTaken { receiver.contents.withLock { $0.open -= 1 } }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var buffer = unwrapInboundIn(data)
            bytes += buffer.readBytes(length: buffer.readableBytes) ?? []
            guard !isTaken, let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
            let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
            var fields: [String: String] = [:]
            for line in lines.dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2 else { continue }
                fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
            }
            let body = Array(bytes[end.upperBound...])
            guard body.count >= fields["content-length"].flatMap({ Int($0) }) ?? 0 else { return }
            isTaken = true
            let path = lines[0].split(separator: " ").dropFirst().first.map(String.init) ?? ""
            let request = Request(path: path, fields: fields, body: body)
            WebhookReceiver.write(receiver.take(request, context.channel), to: context.channel)
        }
    }
}
