import NIOCore
import NIOPosix
import NIOSSL
import ChaparCore

extension HTTPFailure {
    /// Makes the failure of the calls that waited for a connection, from its error: they were surely not processed.
    init(connecting error: any Error, to endpoint: HTTPEndpoint) {
        switch error {
        case let failure as HTTPFailure:
            self = failure
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
            self.init(tls: "\(error)", endpoint)
        case let error as NIOConnectionError:
            let causes = error.connectionErrors.map { "\($0.target): \(Self.sentence($0.error))" }
            let names = [error.dnsAError, error.dnsAAAAError].compactMap { $0 }.map {
                "name resolution: \(Self.sentence($0))"
            }
            self.init(.notProcessed, .connect, "\(endpoint): \((causes + names).joined(separator: "; "))")
        default:
            self.init(.notProcessed, .connect, "\(endpoint): \(Self.sentence(error))")
        }
    }

    /// Returns an error in the operating system's words, if it comes from there: NIO reports any socket error during a
    /// connect as a reset.
    static func sentence(_ error: any Error) -> String {
        if let unknown = error as? SocketAddressError.UnknownHost {
            return "\(unknown.errorDescription) (\(unknown.host))"
        }
        guard let known = error as? IOError, "\(known)".hasPrefix("connection reset (error set)") else {
            return "\(error)"
        }
        // NIO closes a parenthesis that it has not opened.
        return "\(IOError(errnoCode: known.errnoCode, reason: "the connection failed"))"
            .replacing(") (errno: ", with: " (errno: ")
    }

    /// Returns the failure for an error on an open TLS connection; nil unless the peer refuses the client certificate.
    ///
    /// Under TLS 1.3 the refusal comes this late: the client's side of the handshake has ended before the server checks
    /// the certificate. No call was processed, since the server's side never ended.
    static func refusedCertificate(_ error: any Error, by endpoint: HTTPEndpoint) -> HTTPFailure? {
        let isTLS = error is NIOSSLError || error is BoringSSLError || error is NIOSSLExtraError
        let text = "\(error)"
        return isTLS && isRefusal(text) ? HTTPFailure(tls: text, endpoint) : nil
    }

    /// The words of peers that refuse our certificate, or require one.
    private static let refusals = ["CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR"]

    private static func isRefusal(_ text: String) -> Bool {
        (text.contains("ALERT") || text.contains("CERTIFICATE_REQUIRED")) && refusals.contains(where: text.contains)
    }

    private init(tls text: String, _ endpoint: HTTPEndpoint) {
        if text.contains("NO_APPLICATION_PROTOCOL") {
            self = .noHTTP2(endpoint)
        } else if text.contains("CERTIFICATE_VERIFY_FAILED") {
            self.init(
                .notProcessed,
                .tls,
                "\(endpoint): the peer's certificate is not trusted: unknown authority, expired or not yet valid"
            )
        } else if Self.isRefusal(text) {
            let sentence =
                "the peer refuses the client certificate: it is revoked, has expired, or is unknown there; renew it"
            self.init(.notProcessed, .tls, "\(endpoint): \(sentence) (\(text))")
        } else {
            self.init(.notProcessed, .tls, "\(endpoint): \(text)")
        }
    }

    /// Returns the failure when the peer did not choose `h2`.
    static func noHTTP2(_ endpoint: HTTPEndpoint) -> HTTPFailure {
        HTTPFailure(.notProcessed, .protocolNotNegotiated, "\(endpoint) does not speak HTTP/2 (ALPN h2)")
    }

    /// Whether another attempt is pointless: certificates, protocols and proxies do not correct themselves.
    var isLasting: Bool {
        switch cause {
        case .tls, .protocolNotNegotiated, .proxy, .credentials: true
        default: false
        }
    }
}
