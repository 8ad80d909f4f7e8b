internal import ChaparDelivery
internal import ChaparAPI
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL

/// A connection of the API: Hummingbird's pipeline behind the fast path.
///
/// ``ConnectionHandler`` sits between the HTTP/1.1 codec and Hummingbird. Requests that ``FastIntake`` accepts are
/// answered on the event loop; all others pass unchanged. ``GatewayAPI`` makes one for each connection; no other code
/// outside uses this folder. It exists because a notification by single `POST` costs 1.49 times the CPU on the general
/// path, in batches of a hundred 1.07 times (measured 2026-11-23, one binary with this path on and off).
struct FastChannel: ServerChildChannel {
    let http: HTTP1Channel
    let intake: FastIntake
    let limits: ConnectionHandler.Limits

    /// A connection arrived, and there is no usable certificate.
    private struct NoCertificate: Error {}

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        let snapshot = intake.snapshots.current
        if snapshot.isEncrypted {
            guard let tls = snapshot.tls else { return channel.eventLoop.makeFailedFuture(NoCertificate()) }
            do {
                try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
            } catch {
                return channel.eventLoop.makeFailedFuture(error)
            }
        }
        return http.setup(channel: channel, logger: logger).flatMapThrowing { [intake, limits] value in
            let pipeline = channel.pipeline.syncOperations
            let codec = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            let handler = ConnectionHandler(
                intake: intake,
                fastRequests: intake.requests(of: channel.eventLoop),
                encoder: try pipeline.context(handlerType: HTTPResponseEncoder.self),
                limits: limits
            )
            try pipeline.addHandler(handler, position: .after(codec))
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async { await http.handle(value: value, logger: logger) }
}
