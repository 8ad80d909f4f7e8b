internal import ChaparDelivery
internal import ChaparCore

/// The check, with the backends of a service, of whether a text can be one of its tokens; it also normalizes the text.
///
/// A text that one of them accepts is a token; only one that all of them refuse is not. Without such a backend every
/// text that is not blank is accepted, since the registry may know more services than are configured now.
struct TokenCheck: Sendable {
    private let backends: [TokenService: [any PushBackend]]

    init(_ snapshot: GatewaySnapshot) {
        var backends: [TokenService: [any PushBackend]] = [:]
        for configured in snapshot.backends {
            for service in configured.backend.audience.services {
                backends[service, default: []].append(configured.backend)
            }
        }
        self.backends = backends
    }

    /// Returns the token in the form that its platform requires.
    func check(_ token: DeviceToken) -> Result<DeviceToken, InvalidToken> {
        do throws(InvalidToken) {
            return .success(try (backends[token.service] ?? []).checked(token))
        } catch {
            return .failure(error)
        }
    }
}
