import Logging
import NIOCore
import PushCore

final class HTTP1Pool: HTTPPool {
    init(
        _ configuration: HTTPPoolConfiguration,
        group: any EventLoopGroup,
        logger: Logger,
        onEnd: @escaping @Sendable (ObjectIdentifier) -> Void
    ) throws(HTTPPoolError) {
        throw HTTPPoolError("HTTP/1.1 comes next")
    }
    func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {}
    var status: HTTPPoolStatus { HTTPPoolStatus() }
    func replaceConnections() {}
    func shutdown(grace: Duration) async {}
}
