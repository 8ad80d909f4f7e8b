internal import Foundation
internal import ChaparCore
internal import ChaparSimulator
internal import Synchronization

/// The state that the listeners of one FCM simulator share: behind a lock, with the configuration.
final class FCMServiceState: Sendable {
    let configuration: FCMSimulatorConfiguration
    private let state: Mutex<FCMState>
    private let ownTokenURI = Mutex("")

    init(_ configuration: FCMSimulatorConfiguration, seed: UInt64, account: FCMServiceAccountKey) {
        self.configuration = configuration
        var state = FCMState(configuration, seed: seed)
        state.accounts[account.keyID] = account
        self.state = Mutex(state)
    }

    /// The address of the token endpoint, which assertions must name.
    var tokenURI: String {
        get { ownTokenURI.withLock { $0 } }
        set { ownTokenURI.withLock { $0 = newValue } }
    }

    func withState<Value: Sendable>(_ body: (inout sending FCMState) throws -> sending Value) rethrows -> Value {
        try state.withLock(body)
    }

    /// Returns the access token of a request; throws 401 when it is missing, unknown, expired or revoked.
    func bearer(
        of request: SandboxRequest,
        at now: Date,
        _ state: FCMState
    ) throws(FCMRefusal) -> FCMState.AccessToken {
        guard let header = request.header("authorization") else { throw .unauthenticated("CREDENTIALS_MISSING") }
        guard header.hasPrefix("Bearer "), let token = state.accessTokens[String(header.dropFirst(7))] else {
            throw .unauthenticated("ACCESS_TOKEN_TYPE_UNSUPPORTED")
        }
        guard token.expires > now, !token.isRevoked else { throw .unauthenticated("ACCESS_TOKEN_EXPIRED") }
        return token
    }
}
