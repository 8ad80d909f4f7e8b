import ChaparCore
import Synchronization

/// The app's API key as a strategy: one header field that nothing refreshes, unless its file has changed.
final class OneSignalAuth: AuthStrategy {
    private struct State {
        var key: Secret
        var generation: UInt64 = 1
    }

    private let state: Mutex<State>
    private let base: HTTPBaseURL
    private let scheme: OneSignalOptions.AuthScheme
    private let reload: (@Sendable () -> Secret?)?

    init(_ options: OneSignalOptions) {
        state = Mutex(State(key: options.apiKey))
        base = options.base
        scheme = options.authScheme
        reload = options.reloadKey
    }

    func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { base.covers(endpoint, path: path) }

    func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        guard destination == base.endpoint else { return AuthCredential(headers: [], generation: 0) }
        let now = state.withLock { $0 }
        return AuthCredential(
            headers: [.init("authorization", Secret(Self.field(now.key.reveal(), scheme)))],
            generation: now.generation
        )
    }

    /// Returns the field's value; a legacy key is written as it is, not encoded.
    static func field(_ key: String, _ scheme: OneSignalOptions.AuthScheme) -> String {
        switch scheme {
        case .key: "Key \(key)"
        case .basic: "Basic \(key)"
        case .auto: key.hasPrefix("os_v2_") ? "Key \(key)" : "Basic \(key)"
        }
    }

    /// Returns whether the key was refused and another one can be read; otherwise the caller reports OneSignal's own
    /// words.
    func isRefusal(_ answer: HTTPAnswer) -> Bool {
        guard answer.status == 401 || answer.status == 403, let fresh = reload?() else { return false }
        return fresh != state.withLock { $0.key }
    }

    func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        let fresh = reload?()
        return state.withLock { state in
            if credential.generation < state.generation { return .retry }
            guard let fresh, fresh != state.key else {
                return .giveUp("OneSignal refused the API key (\(status)): check api_key and app_id")
            }
            state = State(key: fresh, generation: state.generation + 1)
            return .retry
        }
    }
}
