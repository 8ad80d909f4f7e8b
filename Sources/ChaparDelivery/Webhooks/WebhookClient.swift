internal import Foundation
package import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import Synchronization
internal import ChaparCore
internal import ChaparQueue

/// The end of an attempt at a message.
package struct WebhookAnswer: Sendable {
    /// The reason for an attempt without an answer.
    package enum Failure: String, Sendable, CaseIterable {
        /// The guard refused the address; no connection was made.
        case address
        case dns, connect, tls, timeout
        /// The connection ended before the whole head of an answer.
        case reset
    }

    /// The status; nil without an answer.
    package var status: Int?
    package var failure: Failure?
    /// The words of a failure; they hold no secret.
    package var detail: String?
    /// The wait that the receiver asked for, at most 24 hours.
    package var retryAfter: Duration?
    /// The host that a redirect names; it is never followed.
    package var redirectHost: String?
    /// The first bytes of the body.
    package var body: [UInt8] = []
    /// The time from the begin of the attempt to its end.
    package var duration = Duration.zero

    package init(status: Int) { self.status = status }

    package init(_ failure: Failure, _ detail: String) { (self.failure, self.detail) = (failure, detail) }

    /// Whether the receiver has taken the message.
    package var isSuccess: Bool { status.map { (200..<300).contains($0) } ?? false }

    /// The outcome, as metrics and the API name it.
    package var outcome: String {
        guard let status else { return failure?.rawValue ?? "reset" }
        switch status {
        case 200..<300: return "delivered"
        case 300..<400: return "redirected"
        case 410: return "gone"
        case 429, 502, 504: return "throttled"
        default: return "refused"
        }
    }
}

/// The sender of single requests, each over a connection of its own.
///
/// A connection is made to an address that the guard has just checked, under the name of the endpoint; nothing is kept
/// between requests, so no request escapes the check. Redirects are not followed. It owns nothing that must be closed.
package struct WebhookClient: Sendable {
    /// Returns the addresses of a host, for an attempt or for the check of an address that is added.
    package typealias Resolver =
        @Sendable (_ host: String, _ port: Int, _ isAttempt: Bool) async throws -> [SocketAddress]

    /// The time for an attempt.
    package static let deadline = Duration.seconds(15)
    /// The most bytes of a body that are read.
    package static let maximumBodyBytes = 4_096
    /// The time for a body after the head of an answer, whose status alone counts.
    static let bodyWait = Duration.seconds(1)
    /// The longest wait that a receiver can ask for.
    static let longestWait = Duration.seconds(86_400)
    /// The most addresses of a host that an attempt tries.
    private static let maximumAddresses = 3

    private let tls: NIOSSLContext?
    private let resolve: Resolver
    private let limit: Duration

    /// Makes a client.
    ///
    /// - Parameters:
    ///   - trust: Certificates, PEM, that are trusted beside the system's; nil for none.
    ///   - limit: The time for an attempt.
    ///   - resolve: Finds the addresses of a host; the system's resolver unless given.
    package init(
        trust: String? = nil,
        limit: Duration = Self.deadline,
        resolve: @escaping Resolver = Self.systemResolver
    ) {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.certificateVerification = .fullVerification
        configuration.shutdownTimeout = .seconds(1)
        if let trust, let certificates = try? NIOSSLCertificate.fromPEMBytes(Array(trust.utf8)) {
            configuration.additionalTrustRoots = [.certificates(certificates)]
        }
        tls = try? NIOSSLContext(configuration: configuration)
        self.limit = limit
        self.resolve = resolve
    }

    /// Asks the system's resolver.
    package static let systemResolver: Resolver = { host, port, isAttempt in
        try await WebhookResolver.shared.addresses(of: host, port, isAttempt: isAttempt)
    }

    /// Returns the addresses of this machine's interfaces.
    private static func ownAddresses() -> [[UInt8]] {
        ((try? System.enumerateDevices()) ?? []).compactMap { $0.address?.addressBytes }
    }

    /// Checks an address as an attempt would, without a connection.
    package func check(_ url: WebhookURL, _ rule: WebhookGuard) async -> WebhookURL.Mistake? {
        let resolve = resolve
        let lookup = try? await Deadline.run(limit) { try await resolve(url.host, url.port, false) }
        guard let found = lookup else {
            return WebhookURL.Mistake("unknown_host", "The host cannot be found.")
        }
        return rule.refusal(of: url, at: found.compactMap(\.addressBytes), own: Self.ownAddresses())
    }

    /// Sends a request, and returns its end; a cancelled task ends it without an answer.
    package func post(
        _ url: WebhookURL,
        headers: [(String, String)],
        body: [UInt8],
        _ rule: WebhookGuard
    ) async -> WebhookAnswer {
        let start = ContinuousClock.now
        var answer: WebhookAnswer
        do {
            answer = try await Deadline.run(limit) { await send(url, headers: headers, body: body, rule) }
        } catch is Deadline.Passed {
            answer = WebhookAnswer(.timeout, "no answer within \(limit.boundedMilliseconds / 1_000) s")
        } catch {
            answer = WebhookAnswer(.reset, "the gateway is stopping")
        }
        answer.duration = start.duration(to: .now)
        return answer
    }

    private func send(
        _ url: WebhookURL,
        headers: [(String, String)],
        body: [UInt8],
        _ rule: WebhookGuard
    ) async -> WebhookAnswer {
        guard let addresses = try? await resolve(url.host, url.port, true), !addresses.isEmpty else {
            return WebhookAnswer(.dns, "the host cannot be found")
        }
        if let mistake = rule.refusal(of: url, at: addresses.compactMap(\.addressBytes), own: Self.ownAddresses()) {
            return WebhookAnswer(.address, mistake.detail)
        }
        var last = WebhookAnswer(.connect, "no connection")
        for address in addresses.prefix(Self.maximumAddresses) where !Task.isCancelled {
            last = await exchange(at: address, url, headers: headers, body: body)
            guard last.failure == .connect else { return last }
        }
        return last
    }

    /// Sends a request to an address.
    private func exchange(
        at address: SocketAddress,
        _ url: WebhookURL,
        headers: [(String, String)],
        body: [UInt8]
    ) async -> WebhookAnswer {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = loop.makePromise(of: WebhookAnswer.self)
        let request = WebhookRequest(url: url, headers: headers, body: body)
        let milliseconds = limit.boundedMilliseconds
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(.milliseconds(milliseconds))
            .channelInitializer { [tls] channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if request.url.isEncrypted {
                        guard let tls else { throw WebhookUnresolved() }
                        // An address has no name to send; the certificate must then hold the address.
                        let name = request.url.isNumeric ? nil : request.url.host
                        try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: name))
                    }
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(WebhookExchange(request, promise))
                }
            }
        let channel: any Channel
        do {
            channel = try await bootstrap.connect(to: address).get()
        } catch {
            promise.succeed(WebhookAnswer(.connect, "no connection"))
            return WebhookAnswer(.connect, "no connection")
        }
        return await withTaskCancellationHandler {
            let answer = try? await promise.futureResult.get()
            channel.close(promise: nil)
            return answer ?? WebhookAnswer(.reset, "the connection ended")
        } onCancel: {
            channel.close(promise: nil)
        }
    }
}

/// The parts of a request.
private struct WebhookRequest: Sendable {
    let url: WebhookURL
    let headers: [(String, String)]
    let body: [UInt8]
}

/// Writes a request and reads the head of its answer and the first bytes of its body; then closes the connection.
///
/// Used on the channel's event loop. It completes its promise once, at the latest when the channel closes.
private final class WebhookExchange: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let request: WebhookRequest
    private var promise: EventLoopPromise<WebhookAnswer>?
    private var answer: WebhookAnswer?

    init(_ request: WebhookRequest, _ promise: EventLoopPromise<WebhookAnswer>) {
        (self.request, self.promise) = (request, promise)
    }

    func channelActive(context: ChannelHandlerContext) {
        var headers = HTTPHeaders()
        headers.add(name: "host", value: request.url.authority)
        for (name, value) in request.headers { headers.add(name: name, value: value) }
        headers.add(name: "content-length", value: String(request.body.count))
        headers.add(name: "connection", value: "close")
        let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: request.url.target, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: request.body)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head) where (100..<200).contains(head.status.code): break
        case .head(let head):
            var new = WebhookAnswer(status: Int(head.status.code))
            new.retryAfter = Self.wait(head.headers.first(name: "retry-after"))
            if (300..<400).contains(head.status.code) {
                new.redirectHost = head.headers.first(name: "location").flatMap { URLComponents(string: $0)?.host }
            }
            answer = new
            let channel = context.channel
            context.eventLoop.scheduleTask(in: .milliseconds(WebhookClient.bodyWait.boundedMilliseconds)) {
                channel.close(promise: nil)
            }
        case .body(var part):
            let left = WebhookClient.maximumBodyBytes - (answer?.body.count ?? 0)
            if let bytes = part.readBytes(length: min(left, part.readableBytes)) { answer?.body += bytes }
            // The rest of a large body is not read.
            if answer?.body.count == WebhookClient.maximumBodyBytes { end(context) }
        case .end: end(context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if answer == nil {
            answer =
                error is NIOSSLError || error is BoringSSLError || error is NIOSSLExtraError
                ? WebhookAnswer(.tls, "the encrypted connection failed: the certificate or the protocol is wrong")
                : error is HTTPParserError
                    ? WebhookAnswer(.reset, "the answer is not HTTP/1.1")
                    : WebhookAnswer(.reset, "the connection ended before an answer")
        }
        end(context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(context)
        context.fireChannelInactive()
    }

    private func end(_ context: ChannelHandlerContext) {
        guard let promise else { return }
        self.promise = nil
        promise.succeed(answer ?? WebhookAnswer(.reset, "the connection ended before an answer"))
        context.close(promise: nil)
    }

    /// Returns the wait of a header `Retry-After`, seconds or a date; nil for none and for one in the past.
    private static func wait(_ text: String?) -> Duration? {
        guard let text else { return nil }
        // More digits than a number has are a long wait as well.
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let seconds =
            isNumber
            ? Int64(text) ?? Int64.max
            : HTTPDate.parse(text).map { Int64(clamping: $0.timeIntervalSinceNow.rounded(.up)) }
        guard let seconds, seconds > 0 else { return nil }
        return min(.seconds(clamping: seconds), WebhookClient.longestWait)
    }
}
