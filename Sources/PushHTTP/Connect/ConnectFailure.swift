import NIOCore
import NIOPosix
import NIOSSL
import PushCore

extension HTTPFailure {
    /// What an error before the first call means for the calls that waited: they were surely not processed.
    init(connecting error: any Error, to endpoint: HTTPEndpoint) {
        switch error {
        case let failure as HTTPFailure:
            self = failure
        case let error as NIOSSLError:
            self.init(tls: error, endpoint)
        case let error as NIOSSLExtraError:
            self.init(.notProcessed, .tls, "\(endpoint): \(error)")
        case let error as BoringSSLError:
            self.init(.notProcessed, .tls, "\(endpoint): \(error)")
        case let error as NIOConnectionError:
            let causes = error.connectionErrors.map { "\($0.target): \($0.error)" }
            let names = [error.dnsAError, error.dnsAAAAError].compactMap { $0 }.map { "name resolution: \($0)" }
            self.init(.notProcessed, .connect, "\(endpoint): \((causes + names).joined(separator: "; "))")
        default:
            self.init(.notProcessed, .connect, "\(endpoint): \(error)")
        }
    }

    private init(tls error: NIOSSLError, _ endpoint: HTTPEndpoint) {
        let text = "\(error)"
        if text.contains("NO_APPLICATION_PROTOCOL") {
            self = .noHTTP2(endpoint)
        } else if text.contains("CERTIFICATE_VERIFY_FAILED") {
            self.init(
                .notProcessed,
                .tls,
                "\(endpoint): the peer's certificate is not trusted: unknown authority, expired or not yet valid"
            )
        } else {
            self.init(.notProcessed, .tls, "\(endpoint): \(text)")
        }
    }

    /// The peer did not choose `h2`.
    static func noHTTP2(_ endpoint: HTTPEndpoint) -> HTTPFailure {
        HTTPFailure(.notProcessed, .protocolNotNegotiated, "\(endpoint) does not speak HTTP/2 (ALPN h2)")
    }

    /// Whether waiting for another attempt is pointless: certificates, protocols and proxies do not mend themselves.
    var isLasting: Bool {
        switch cause {
        case .tls, .protocolNotNegotiated, .proxy, .credentials: true
        default: false
        }
    }
}
