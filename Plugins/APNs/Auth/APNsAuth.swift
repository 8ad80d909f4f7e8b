public import ChaparCore
import Synchronization

/// The connection policy of APNs: one provider token for each connection, and the answers that retire one.
///
/// With a client certificate there is no token, and only the second half applies.
struct APNsConnectionPolicy: HTTPConnectionPolicy {
    let tokens: APNsTokenSource?
    private let pauses = RetirementPauses()

    func headers(for connection: HTTPConnectionInfo) throws(HTTPFailure) -> [HTTPHeader] {
        guard let tokens else { return [] }
        return [try tokens.header(for: connection)]
    }

    func verdict(on answer: HTTPAnswer, from connection: HTTPConnectionInfo) -> HTTPConnectionVerdict {
        guard let reason = APNsAnswer(answer).reason else { return .keep }
        if answer.status == 403 { tokens?.compareClock(with: answer.date) }
        switch reason {
        case "ExpiredProviderToken":
            // Later requests on this connection may be refused in the same way. This cannot end in a storm of new
            // connections: after a second refusal of the same token, the source withholds it from others for a while.
            tokens?.expired(on: connection)
            return .retire
        case "TooManyProviderTokenUpdates":
            tokens?.tooManyUpdates()
            // While a backend is slowed, each single message may open at most two connections.
            return pauses.verdict(reason, for: connection, pause: .seconds(1))
        case "UnrelatedKeyIdInToken":
            return pauses.verdict(reason, for: connection, pause: .seconds(60))
        case "Shutdown", "IdleTimeout":
            return pauses.verdict(reason, for: connection, pause: .seconds(1))
        case "InvalidProviderToken", "TopicDisallowed":
            // A connection keeps the topics that the key had when the connection began. A new one helps if they were
            // changed since.
            return pauses.verdict(reason, for: connection, pause: .seconds(600))
        default:
            return .keep
        }
    }
}

/// Limits new connections after lasting refusals to one for each reason and pause; otherwise each message would open
/// one.
final class RetirementPauses: Sendable {
    private let last = Mutex<[String: ContinuousClock.Instant]>([:])

    /// Retires connections that were open at the last refusal for the reason; newer ones are retired after the pause
    /// only.
    func verdict(_ reason: String, for connection: HTTPConnectionInfo, pause: Duration) -> HTTPConnectionVerdict {
        last.withLock { last in
            let now = ContinuousClock.now
            if let before = last[reason], now < before + pause {
                return connection.openedAt <= before ? .retire : .keep
            }
            last[reason] = now
            return .retire
        }
    }
}

extension APNsTokenSource: AuthStrategy {
    /// Returns the newest token; throws for an address that it must not be sent to.
    public func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard addresses.contains(destination) else {
            throw PushError(.unsupported, "the provider token is not for \(destination)")
        }
        await prepare()
        do throws(HTTPFailure) {
            let token = try newest()
            return AuthCredential(
                headers: [.init("authorization", Secret(token.header.value))],
                generation: token.generation
            )
        } catch {
            throw PushError(.credentialsRefused, error.detail)
        }
    }

    /// Whether the call goes to an address that may get the token.
    public func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { addresses.contains(endpoint) }

    /// Replaces an expired token, unless the newest is younger than Apple's 20 minutes.
    ///
    /// After too many changes of token the caller waits those 20 minutes; every other refusal is for an operator.
    public func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        switch reason {
        case "ExpiredProviderToken": return expired(generation: credential.generation)
        case "TooManyProviderTokenUpdates":
            tooManyUpdates()
            return .wait(.seconds(Rule.leastBetweenMints))
        default:
            return .giveUp(APNsRejections.rule(for: reason ?? "", status: status).detail)
        }
    }
}
