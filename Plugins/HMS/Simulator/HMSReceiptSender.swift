internal import Crypto
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import ChaparCore
internal import ChaparSimulator
internal import Synchronization

/// Sends the receipts of an HMS simulator, signed as Huawei signs them.
///
/// One loop, started and awaited by the simulator; pending receipts are in the state.
final class HMSReceiptSender: Sendable {
    /// One status to be sent.
    struct Status: Sendable {
        var token: String
        var requestID: String
        var biTag: String?
        var appID: String
        var status: Int
        var at: Date
    }

    private let service: HMSServiceState
    private let time: any TimeSource
    private let wakeUps: AsyncStream<Void>
    private let wakeUp: AsyncStream<Void>.Continuation

    init(_ service: HMSServiceState, time: any TimeSource) {
        self.service = service
        self.time = time
        // One pending wake-up is enough: a round sends everything that is due.
        (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Wakes the loop to send receipts.
    func wake() { wakeUp.yield() }

    /// Lets ``run()`` end.
    func stop() { wakeUp.finish() }

    /// Sends until it is stopped or cancelled.
    func run() async {
        for await _ in wakeUps {
            do {
                try await Task.sleep(for: service.receipts.delay)
            } catch {
                return
            }
            let owed = service.withState { state in
                defer { state.owed = [] }
                return state.owed
            }
            await send(owed)
        }
    }

    private func send(_ owed: [Status]) async {
        let plan = service.receipts
        guard let url = plan.url else { return }
        let size = min(100, max(1, plan.perCall))
        for start in stride(from: 0, to: owed.count, by: size) {
            var part = Array(owed[start..<min(owed.count, start + size)])
            if plan.isReversed { part.reverse() }
            let body = Self.body(part, plan.form)
            for _ in 0..<(plan.isDoubled ? 2 : 1) { await deliver(body, to: url, plan) }
        }
    }

    private func deliver(_ body: [UInt8], to url: String, _ plan: HMSReceiptPlan) async {
        for attempt in 1...max(1, plan.attempts) {
            service.withState { $0.counters.callbacks += 1 }
            let status = await SandboxCaller.post(url, headers: signature(plan), body: body)
            if status == 200 { return service.withState { $0.counters.callbacksTaken += 1 } }
            guard attempt < plan.attempts else { break }
            do {
                try await Task.sleep(for: plan.retryPause)
            } catch {
                return
            }
        }
        service.withState { $0.counters.callbacksLost += 1 }
    }

    private func signature(_ plan: HMSReceiptPlan) -> [HTTPHeader] {
        let type = HTTPHeader("content-type", "application/json")
        guard plan.signature != .missing else { return [type] }
        let callback = service.settings.callback
        let moment = time.now.addingTimeInterval(plan.signature == .old ? -3600 : 0)
        let timestamp = String(moment.millisecondsSince1970)
        let nonce = service.withState { $0.random.uuid() }
        var secret = callback.isBase64 ? Data(base64Encoded: callback.secret) ?? Data() : Data(callback.secret.utf8)
        if plan.signature == .wrong { secret.append(1) }
        let code = HMAC<SHA256>.authenticationCode(
            for: Data((timestamp + nonce + callback.user).utf8),
            using: SymmetricKey(data: secret)
        )
        let value = Data(code).base64EncodedString()
        return [type, HTTPHeader("x-huawei-callback-id", "timestamp=\(timestamp); nonce=\(nonce); value=\(value)")]
    }

    private static func body(_ statuses: [Status], _ form: HMSReceiptPlan.Form) -> [UInt8] {
        let list = statuses.map { status -> JSONValue in
            var object: JSONObject = ["token": .string(status.token), "requestId": .string(status.requestID)]
            object["biTag"] = status.biTag.map { .string($0) }
            let time = JSONValue.integer(status.at.millisecondsSince1970)
            switch form {
            case .new:
                object["appPackageName"] = "com.example.courier"
                object["pushType"] = 0
                object["deliveryStatus"] = ["result": .integer(Int64(status.status)), "timestamp": time]
            case .old:
                object["appid"] = .string(status.appID)
                object["status"] = .integer(Int64(status.status))
                object["timestamp"] = time
            }
            return .object(object)
        }
        return JSONValue.object(["statuses": .array(list)]).bytes
    }
}

/// Makes single HTTP/1.1 requests without TLS, for callbacks to a gateway on the same machine.
enum SandboxCaller {
    /// Posts a body; returns the status of the answer, nil when there is none within 10 s.
    static func post(_ url: String, headers: [HTTPHeader], body: [UInt8]) async -> Int? {
        guard url.hasPrefix("http://") else { return nil }
        let rest = url.dropFirst("http://".count)
        let place = rest.prefix { $0 != "/" }
        let path = rest.dropFirst(place.count)
        guard let endpoint = HTTPEndpoint(url: "http://" + place) else { return nil }
        var head = HTTPRequestHead(version: .http1_1, method: .POST, uri: path.isEmpty ? "/" : String(path))
        head.headers.add(name: "host", value: endpoint.authority)
        head.headers.add(name: "connection", value: "close")
        head.headers.add(name: "content-length", value: "\(body.count)")
        for header in headers { head.headers.add(name: header.name, value: header.value) }
        let request = head
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        let status = loop.makePromise(of: Int.self)
        do {
            let channel = try await ClientBootstrap(group: loop)
                .connectTimeout(.seconds(5))
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHTTPClientHandlers()
                        try channel.pipeline.syncOperations.addHandler(StatusReader(status))
                    }
                }
                .connect(host: endpoint.host, port: endpoint.port)
                .get()
            let deadline = loop.scheduleTask(in: .seconds(10)) { channel.close(promise: nil) }
            channel.write(HTTPClientRequestPart.head(request), promise: nil)
            channel.write(HTTPClientRequestPart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil)
            channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
            defer {
                deadline.cancel()
                channel.close(promise: nil)
            }
            return try await status.futureResult.get()
        } catch {
            status.fail(error)  // No caller waits for it any more.
            return nil
        }
    }

    /// Reports the status of the first answer.
    private final class StatusReader: ChannelInboundHandler {
        typealias InboundIn = HTTPClientResponsePart
        private let status: EventLoopPromise<Int>

        init(_ status: EventLoopPromise<Int>) { self.status = status }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            if case .head(let head) = unwrapInboundIn(data) { status.succeed(Int(head.status.code)) }
        }

        func channelInactive(context: ChannelHandlerContext) { status.fail(ChannelError.eof) }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            status.fail(error)
            context.close(promise: nil)
        }
    }
}
