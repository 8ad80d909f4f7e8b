import Logging
import NIOCore
import ChaparCore

/// A pool of HTTP/2 connections.
typealias HTTP2Pool = EnginePool<HTTP2Engine>

extension HTTP2Engine: PoolEngine {}

extension EnginePool where Engine == HTTP2Engine {
    convenience init(
        _ configuration: HTTPPoolConfiguration,
        loop: any EventLoop,
        tuning: HTTP2Tuning = HTTP2Tuning(),
        logger: Logger,
        onEnd: @escaping @Sendable (ObjectIdentifier) -> Void = { _ in }
    ) throws(HTTPPoolError) {
        guard configuration.endpoint.scheme == .https else {
            throw HTTPPoolError("HTTP/2 needs TLS: \(configuration.endpoint) must begin with https://")
        }
        let tls = try configuration.tlsContext(protocols: ["h2"])
        let budget = AnswerBudget(limit: max(tuning.answerBudget, configuration.maximumAnswerBytes))
        let connector = Connector(configuration: configuration, tls: tls, tuning: tuning, budget: budget)
        self.init(
            HTTP2Engine(configuration, connector: connector, loop: loop, tuning: tuning, logger: logger),
            onEnd: onEnd
        )
    }
}
