import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway
import NIOCore
import NIOPosix

/// `chapar webhooks listen`: a receiver for development, which verifies and prints what comes.
struct WebhooksListenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "listen",
        abstract: "Receive webhooks on this machine, verify them, and print them.",
        discussion: """
            For development: the gateway needs webhooks.allow_networks: [127.0.0.0/8] in its configuration. A request with a right \
            signature is printed to stdout and answered with --status; another one is answered with 401. A time that is five \
            minutes off is refused, as libraries do.
            """
    )

    @Option(help: "The file with the key, whsec_…", completion: .file())
    var secretFile: String

    @Option(help: "The address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "The port to listen on; 0 takes a free one.")
    var port = 9_000

    @Option(help: "The status that verified requests get, to see how the gateway tries again.")
    var status = 204

    @Option(help: "End after this number of verified requests; 0 goes on.")
    var count = 0

    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (200...599).contains(status) else { throw ValidationError("--status: from 200 to 599.") }
        guard (0...65_535).contains(port) else { throw ValidationError("--port: from 0 to 65535.") }
        guard count >= 0 else { throw ValidationError("--count: 0 or more.") }
    }

    func run() async throws {
        guard let secret = WebhookSecret(try SecretFile.read(secretFile)) else {
            throw CommandFailure("\(secretFile) holds no key of a webhook: whsec_ and base64", .usage)
        }
        let interruption = await Interruption()
        let listener: WebhookListener
        do {
            listener = try await WebhookListener.start(host: host, port: port, secret: secret, status: status)
        } catch {
            throw CommandFailure("cannot listen on \(host):\(port): \(error)", .usage)
        }
        Shell.complain("Listening on http://\(host):\(listener.port)/")
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await interruption.wait() }
            group.addTask { [count, form] in
                var verified = 0
                for await message in listener.messages {
                    message.show(form)
                    if message.isVerified { verified += 1 }
                    if count > 0, verified >= count { return }
                }
            }
            await group.next()
            group.cancelAll()
        }
        await listener.close()
    }
}

/// A request that came, as the listener judged it.
struct ReceivedWebhook: Sendable {
    var id: String
    var body: [UInt8]
    /// Why it was refused; nil for a verified one.
    var refusal: String?

    var isVerified: Bool { refusal == nil }

    /// Prints it: verified ones to stdout.
    func show(_ form: OutputForm) {
        guard let refusal else {
            let json = (try? JSONValue(parsing: body)) ?? .null
            if form.isJSON { return Shell.print(json) }
            Shell.print("\(json["type"]?.words ?? "") \(id.onOneLine) \(json["data"]?.text.onOneLine ?? "")")
            return
        }
        Shell.complain("refused: \(refusal)")
    }
}

/// A server that takes one request on each connection, verifies it, and answers.
///
/// ``WebhooksListenCommand`` starts it and closes it. At most ``maximumBody`` bytes of a request are read.
final class WebhookListener: Sendable {
    /// The most bytes of a body, and of a head.
    static let maximumBody = 1 << 20
    static let maximumHead = 32 << 10
    /// The largest difference of a request's time from this machine's, in seconds.
    static let tolerance: Int64 = 300
    /// The most requests that wait to be printed; later ones are answered with 503.
    private static let maximumWaiting = 256
    /// The time for a whole request.
    private static let headTimeout = TimeAmount.seconds(15)

    let messages: AsyncStream<ReceivedWebhook>
    private let continuation: AsyncStream<ReceivedWebhook>.Continuation
    private let channel: any Channel

    private init(
        _ channel: any Channel,
        _ messages: AsyncStream<ReceivedWebhook>,
        _ continuation: AsyncStream<ReceivedWebhook>.Continuation
    ) {
        (self.channel, self.messages, self.continuation) = (channel, messages, continuation)
    }

    /// The port that it listens on.
    var port: Int { channel.localAddress?.port ?? 0 }

    /// Begins to listen.
    static func start(host: String, port: Int, secret: WebhookSecret, status: Int) async throws -> WebhookListener {
        let (messages, continuation) = AsyncStream.makeStream(
            of: ReceivedWebhook.self,
            bufferingPolicy: .bufferingOldest(maximumWaiting)
        )
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(secret, status, continuation))
                }
            }
            .bind(host: host, port: port).get()
        return WebhookListener(channel, messages, continuation)
    }

    /// Stops listening.
    func close() async {
        continuation.finish()
        try? await channel.close()
    }

    /// Judges a request: whether its signature is that of the key, and its time near.
    static func judge(
        _ fields: [String: String],
        _ body: [UInt8],
        _ secret: WebhookSecret,
        now: Int64
    ) -> ReceivedWebhook {
        let id = fields["webhook-id"] ?? ""
        var message = ReceivedWebhook(id: id, body: body)
        guard !id.isEmpty, let signatures = fields["webhook-signature"],
            let time = fields["webhook-timestamp"].flatMap({ Int64($0) })
        else {
            message.refusal = "it lacks webhook-id, webhook-timestamp or webhook-signature"
            return message
        }
        if !secret.verifies(signatures, id: id, timestamp: time, body: body) {
            message.refusal = "no signature is that of this key"
        } else if time.subtracting(clamping: now).magnitude > tolerance.magnitude {
            message.refusal = "its time is more than five minutes off: set the clock"
        }
        return message
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let secret: WebhookSecret
        private let status: Int
        private let continuation: AsyncStream<ReceivedWebhook>.Continuation
        private var bytes: [UInt8] = []
        private var isDone = false

        init(_ secret: WebhookSecret, _ status: Int, _ continuation: AsyncStream<ReceivedWebhook>.Continuation) {
            (self.secret, self.status, self.continuation) = (secret, status, continuation)
        }

        func channelActive(context: ChannelHandlerContext) {
            let channel = context.channel
            context.eventLoop.scheduleTask(in: WebhookListener.headTimeout) { channel.close(promise: nil) }
            context.fireChannelActive()
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard !isDone else { return }
            var buffer = unwrapInboundIn(data)
            bytes += buffer.readBytes(length: buffer.readableBytes) ?? []
            guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else {
                if bytes.count > WebhookListener.maximumHead { answer(431, context) }
                return
            }
            var fields: [String: String] = [:]
            let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
            for line in head.components(separatedBy: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2 else { continue }
                fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
            }
            guard let length = fields["content-length"].flatMap({ Int($0) }), length >= 0 else {
                return answer(411, context)
            }
            guard length <= WebhookListener.maximumBody else { return answer(413, context) }
            guard bytes.count - end.upperBound >= length else { return }
            let body = Array(bytes[end.upperBound..<end.upperBound + length])
            let now = Int64(clamping: Date().timeIntervalSince1970)
            let message = WebhookListener.judge(fields, body, secret, now: now)
            if case .dropped = continuation.yield(message) { return answer(503, context) }
            answer(message.isVerified ? status : 401, context)
        }

        private func answer(_ status: Int, _ context: ChannelHandlerContext) {
            isDone = true
            let head = "HTTP/1.1 \(status) \(status)\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            let channel = context.channel
            channel.writeAndFlush(ByteBuffer(string: head)).whenComplete { _ in channel.close(promise: nil) }
        }
    }
}
