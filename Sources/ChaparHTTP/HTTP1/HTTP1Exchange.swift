#if HTTP1
    import AsyncHTTPClient
    import NIOCore
    import NIOHTTP1
    import NIOPosix
    import ChaparCore

    /// One call over HTTP/1.1, from being handed to AsyncHTTPClient to its answer or failure.
    ///
    /// It tracks whether any byte of the request has left, which AsyncHTTPClient's errors do not tell. It is
    /// `@unchecked Sendable`: it is created and called back on the pool's event loop only, which is set as the
    /// delegate's loop.
    final class HTTP1Exchange: HTTPClientResponseDelegate, @unchecked Sendable {
        struct TooLarge: Error {}

        let call: QueuedCall
        private let maximumBytes: Int
        private(set) var isHeadSent = false
        /// Whether AsyncHTTPClient has written all of it; the flush may come later.
        private var isSent = false
        /// Whether any of its bytes may have been handed to the socket.
        private var isFlushed = false
        /// Whether its first bytes were withheld, since its sender had lost its claim.
        private var isWithdrawn = false
        private var status = 0
        private var headers: [HTTPHeader] = []
        private var body: [UInt8] = []
        /// The current request; for giving it up.
        var task: HTTPClient.Task<HTTPAnswer>?

        init(_ call: QueuedCall, maximumBytes: Int) {
            self.call = call
            self.maximumBytes = maximumBytes
        }

        /// Makes the request for AsyncHTTPClient; nil when HTTP forbids its path, method or a field.
        static func request(
            _ call: HTTPCall,
            to endpoint: HTTPEndpoint,
            extra: [HTTPHeader]
        ) -> HTTPClient.Request? {
            let method = call.template.method
            guard call.path.first == "/", call.path.utf8.allSatisfy({ (33...126).contains($0) }),
                method.utf8.allSatisfy({ (65...90).contains($0) }), !method.isEmpty
            else { return nil }
            var headers = HTTPHeaders()
            for header in extra + call.template.headers + call.headers {
                guard !header.name.isEmpty, header.name.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 58 }),
                    header.value.utf8.allSatisfy({ $0 >= 32 && $0 != 127 || $0 == 9 })
                else { return nil }
                headers.add(name: header.name, value: header.value)
            }
            let body: HTTPClient.Body? = call.body.isEmpty ? nil : .bytes(call.body)
            return try? HTTPClient.Request(
                url: "\(endpoint)\(call.path)",
                method: HTTPMethod(rawValue: method),
                headers: headers,
                body: body
            )
        }

        func didSendRequestHead(task: HTTPClient.Task<HTTPAnswer>, _ head: HTTPRequestHead) { isHeadSent = true }

        func didSendRequest(task: HTTPClient.Task<HTTPAnswer>) { isSent = true }

        /// Whether all of it has been handed to the socket.
        var isHandedOver: Bool { isSent && isFlushed }

        /// Whether the rest of it may be handed to the socket; called at each flush of any connection of the pool,
        /// until all is handed over.
        func mayWrite() -> Bool {
            guard isHandedOver || call.batch.mayWrite else {
                isWithdrawn = !isFlushed
                return false
            }
            isFlushed = isFlushed || isHeadSent
            return true
        }

        func didReceiveHead(
            task: HTTPClient.Task<HTTPAnswer>,
            _ head: HTTPResponseHead
        ) -> EventLoopFuture<Void> {
            status = Int(head.status.code)
            headers = head.headers.map { HTTPHeader($0.name.lowercased(), $0.value) }
            return task.eventLoop.makeSucceededVoidFuture()
        }

        func didReceiveBodyPart(task: HTTPClient.Task<HTTPAnswer>, _ buffer: ByteBuffer) -> EventLoopFuture<Void> {
            guard body.count + buffer.readableBytes <= maximumBytes else {
                return task.eventLoop.makeFailedFuture(TooLarge())
            }
            body.append(contentsOf: buffer.readableBytesView)
            return task.eventLoop.makeSucceededVoidFuture()
        }

        func didFinishRequest(task: HTTPClient.Task<HTTPAnswer>) throws -> HTTPAnswer {
            HTTPAnswer(status: status, headers: headers, body: body)
        }

        /// Returns the failure for an error, by how much was sent.
        func failure(_ error: any Error, endpoint: HTTPEndpoint, maximumBytes: Int) -> HTTPFailure {
            if isWithdrawn { return Batch.withdrawn }
            let stage: HTTPFailure.Stage = isHeadSent ? .unknown : .notProcessed
            switch error {
            case let failure as HTTPFailure:
                return HTTPFailure(stage, failure.cause, failure.detail)
            case is TooLarge:
                return HTTPFailure(stage, .badAnswer, "the answer's body is larger than \(maximumBytes) bytes")
            case is HTTPParserError:
                return HTTPFailure(stage, .badAnswer, "the answer broke the protocol: \(error)")
            case let error as HTTPClientError where error == .proxyAuthenticationRequired:
                let words = "user and password in proxy, http://user:password@host:port, are missing or wrong"
                return HTTPFailure(stage, .proxy, "\(endpoint): the proxy answers 407: \(words)")
            case let error as HTTPClientError:
                return HTTPFailure(stage, cause(error), "\(endpoint): \(HTTPFailure.sentence(error))")
            default:
                guard isHeadSent else { return HTTPFailure(connecting: error, to: endpoint) }
                if status == 0, let refused = HTTPFailure.refusedCertificate(error, by: endpoint) { return refused }
                return HTTPFailure(.unknown, .connectionLost, "\(endpoint): \(HTTPFailure.sentence(error))")
            }
        }

        private func cause(_ error: HTTPClientError) -> HTTPFailure.Cause {
            switch error {
            case .deadlineExceeded, .readTimeout, .writeTimeout: .deadline
            case .tlsHandshakeTimeout: .tls
            case .invalidProxyResponse, .proxyAuthenticationRequired, .httpProxyHandshakeTimeout: .proxy
            case .cancelled, .alreadyShutdown: .cancelled
            default: isHeadSent ? .connectionLost : .connect
            }
        }
    }

    extension HTTPFailure {
        /// Whether an error shows that not even TCP reached the server.
        static func isUnreachable(_ error: any Error) -> Bool {
            switch error {
            case is NIOConnectionError, is IOError, ChannelError.connectTimeout: true
            case let error as HTTPClientError: error == .connectTimeout
            default: false
            }
        }
    }
#endif
