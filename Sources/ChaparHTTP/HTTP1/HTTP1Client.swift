#if HTTP1
    import AsyncHTTPClient
    import Logging
    import NIOCore
    import NIOHTTP1
    import NIOSSL
    import ChaparCore
    import Synchronization

    /// One generation of connections under one credential: an AsyncHTTPClient with the policy's fields for it.
    ///
    /// A policy sees it as one connection, since AsyncHTTPClient does not tell which of its connections a call uses.
    /// Replacing the connections means replacing this; it closes when its last call has ended.
    final class HTTP1Client {
        /// The numbers of open connections and of all connections ever opened; counted on any loop.
        final class Count: Sendable {
            private let counts = Mutex((open: 0, opened: 0))

            var open: Int { counts.withLock { $0.open } }
            var opened: Int { counts.withLock { $0.opened } }

            func add() { counts.withLock { $0 = ($0.open + 1, $0.opened + 1) } }
            func remove() { counts.withLock { $0.open -= 1 } }
        }

        private static let nextID = Atomic<UInt64>(1 << 32)

        let info: HTTPConnectionInfo
        let client: HTTPClient
        var active = 0
        var isRetired = false
        private var fields: Result<[HTTPHeader], HTTPFailure> = .success([])
        private var requestedAt: NIODeadline?

        init(
            _ configuration: HTTPPoolConfiguration,
            tls: TLSConfiguration,
            loop: any EventLoop,
            count: Count,
            mayWrite: @escaping @Sendable () -> Bool
        ) {
            info = HTTPConnectionInfo(
                id: Self.nextID.wrappingAdd(1, ordering: .relaxed).oldValue,
                openedAt: .now
            )
            var settings = HTTPClient.Configuration(
                tlsConfiguration: tls,
                redirectConfiguration: .disallow,
                timeout: .init(connect: TimeAmount(configuration.connectTimeout)),
                decompression: .disabled
            )
            settings.httpVersion = .http1Only
            if configuration.proxy == nil, let address = configuration.resolvedAddress {
                settings.dnsOverride[configuration.endpoint.host] = address
            }
            let authorization = configuration.proxyCredentials.map {
                HTTPClient.Authorization.basic(credentials: $0.basic.reveal())
            }
            settings.proxy = configuration.proxy.map {
                .server(host: $0.host, port: $0.port, authorization: authorization)
            }
            // A connection that the server is about to close can cause an unknown outcome, so none is kept idle for
            // long.
            settings.connectionPool.idleTimeout = min(TimeAmount(configuration.idleTimeout), .seconds(30))
            settings.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = configuration.maximumConnections
            settings.connectionPool.retryConnectionEstablishment = false  // The pool has one backoff for all callers.
            settings.http1_1ConnectionDebugInitializer = { channel in
                count.add()
                channel.closeFuture.whenComplete { _ in count.remove() }
                Self.addHandlers(to: channel, mayWrite: mayWrite)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            client = HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: settings)
        }

        /// Adds our handlers to a connection that AsyncHTTPClient has just set up; on its event loop.
        ///
        /// A connection that cannot have them is closed, which AsyncHTTPClient handles.
        private static func addHandlers(to channel: any Channel, mayWrite: @escaping () -> Bool) {
            do {
                let pipeline = channel.pipeline.syncOperations
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                try pipeline.addHandler(HTTP1AnswerGuard(), position: .after(decoder))
                try pipeline.addHandler(WriteGuard(mayWrite), position: .first)
            } catch {
                channel.close(promise: nil)
            }
        }

        /// Returns the policy's fields, requested at most once a second.
        func fields(_ policy: (any HTTPConnectionPolicy)?, _ now: NIODeadline) -> Result<[HTTPHeader], HTTPFailure> {
            guard let policy, requestedAt.map({ now - $0 >= .seconds(1) }) ?? true else { return fields }
            requestedAt = now
            do throws(HTTPFailure) {
                fields = .success(try policy.headers(for: info))
            } catch {
                fields = .failure(error)
            }
            return fields
        }
    }
#endif
