public import Foundation
internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
public import ChaparCore
public import ChaparQueue

extension Gateway {
    /// Cancels the messages of a notification that were not sent, as `DELETE /v1/notifications/{id}` does.
    ///
    /// - Parameters:
    ///   - id: The notification.
    ///   - onPlatforms: Whether platforms that can withdraw messages are asked to withdraw those that they have
    ///     accepted.
    /// - Returns: How many messages were cancelled, how many had already ended, and how many are being sent.
    /// - Throws: `not_found` when there is no such notification; the store's failure.
    @discardableResult
    public func cancel(
        _ id: NotificationID,
        onPlatforms: Bool = false
    ) async throws(GatewayProblem) -> CancelledNotification {
        do throws(Problem) {
            let scope = responder.ownScope("/v1/notifications/\(id)")
            let (result, platforms) = try await responder.own.statuses.cancel(id, onPlatforms: onPlatforms, scope)
            return CancelledNotification(result, platforms)
        } catch {
            throw GatewayProblem(error)
        }
    }

    /// Retries at once all deliveries and device operations that wait for another attempt at a backend, as `POST
    /// /v1/backends/{name}/retry` does.
    ///
    /// A pause that the platform asked for stays, and a scheduled message keeps its time.
    ///
    /// - Parameter backend: The name of a backend of the configuration.
    /// - Returns: The work that is due now, the pauses that ended, and the pauses that go on.
    /// - Throws: `not_found` when no backend has this name; the store's failure.
    @discardableResult
    public func retry(_ backend: String) async throws(GatewayProblem) -> RetriedBackend {
        do throws(Problem) {
            return RetriedBackend(try await responder.own.retries.retry(backend, for: .everybody))
        } catch {
            throw GatewayProblem(error)
        }
    }
}

/// The result of ``Gateway/cancel(_:onPlatforms:)``.
public struct CancelledNotification: Sendable {
    /// The answers of platforms, as numbers of messages.
    public struct Platforms: Sendable {
        /// The platform withdrew the message.
        public let cancelled: Int
        /// The platform asked devices to remove the message.
        public let requested: Int
        /// The message was delivered before.
        public let tooLate: Int
        /// The platform refused, or gave no answer.
        public let failed: Int
        /// The backend cannot withdraw messages.
        public let unsupported: Int
        /// The platform was not asked: there were too many messages, or the time was over.
        public let notAsked: Int
        /// The first failures, with the name of the backend; at most ten.
        public let errors: [(backend: String, error: PushError)]
    }

    /// The number of messages that will not be sent.
    public let cancelled: Int
    /// The number of messages that had ended.
    public let tooLate: Int
    /// The number of messages that are being sent: this attempt is the last.
    public let inFlight: Int
    /// The answers of platforms; nil unless they were to be asked.
    public let platforms: Platforms?

    init(_ result: Cancellation, _ tally: PlatformCancellation.Tally?) {
        cancelled = result.cancelled
        tooLate = result.tooLate
        inFlight = result.inFlight
        platforms = tally.map {
            Platforms(
                cancelled: $0.cancelled,
                requested: $0.requested,
                tooLate: $0.tooLate,
                failed: $0.failed,
                unsupported: $0.unsupported,
                notAsked: $0.notAsked,
                errors: $0.errors
            )
        }
    }
}

/// The result of ``Gateway/retry(_:)``.
public struct RetriedBackend: Sendable, Hashable {
    /// A pause of the backend.
    public struct Pause: Sendable, Hashable {
        /// The cause: `breaker`, `parked`, `backoff`, `operations`, `platform`, `recipients` or `invalidations_held`.
        public let kind: String
        /// The code of the cause, from the platform or the gateway.
        public let reason: String?
        /// The end of the pause; nil when it is not known.
        public let until: Date?
        /// The number of paused recipients; nil when the pause is for all.
        public let recipients: Int?

        init(_ pause: EndedPauses.Pause) {
            kind = pause.kind.rawValue
            reason = pause.reason
            until = pause.until
            recipients = pause.count
        }
    }

    /// The number of messages that are due now.
    public let deliveries: Int
    /// The number of operations about devices that are due now.
    public let operations: Int
    /// The pauses that are over.
    public let ended: [Pause]
    /// The pauses that stay, such as those that the platform asked for.
    public let kept: [Pause]

    init(_ retried: RetryAPI.Retried) {
        deliveries = retried.deliveries
        operations = retried.operations
        ended = retried.pauses.ended.map { Pause($0) }
        kept = retried.pauses.kept.map { Pause($0) }
    }
}
