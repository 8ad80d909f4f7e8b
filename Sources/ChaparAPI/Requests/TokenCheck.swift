internal import ChaparDelivery
internal import ChaparCore

/// Checks whether a text can be a token of a service, by asking the service's backends, and normalizes the text.
///
/// A text is a token if at least one of the backends accepts it. If no backend of the service is configured, every text
/// that is not blank is accepted, since the registry may have devices of a service that is not configured now.
struct TokenCheck: Sendable {
    /// The backends of each service: an array, since comparing a few names costs less than hashing one.
    private let backends: [(service: TokenService, backends: [any PushBackend])]

    init(_ snapshot: GatewaySnapshot) {
        var backends: [TokenService: [any PushBackend]] = [:]
        for configured in snapshot.backends {
            for service in configured.backend.audience.services {
                backends[service, default: []].append(configured.backend)
            }
        }
        self.backends = backends.map { ($0, $1) }
    }

    /// Returns the token in the form that its platform requires, or throws why it is none.
    ///
    /// Called for each token of each notification.
    func form(of token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        guard !token.isBlank else { throw InvalidToken(token.service, "it is blank") }
        guard let own = backends.first(where: { $0.service == token.service })?.backends else { return token }
        // Almost always the first backend accepts the token, with nothing else to ask.
        do throws(InvalidToken) {
            return try own[0].checked(token)
        } catch {
            guard own.count > 1 else { throw error }
            return try own.checked(token)
        }
    }

    /// Returns the token in the form that its platform requires.
    func check(_ token: DeviceToken) -> Result<DeviceToken, InvalidToken> {
        do throws(InvalidToken) {
            return .success(try form(of: token))
        } catch {
            return .failure(error)
        }
    }
}
