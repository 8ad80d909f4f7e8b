internal import Foundation
internal import PushCore
internal import Synchronization

/// What the listeners of one FCM simulator share: the world behind a lock, and the configuration.
final class FCMServiceState: Sendable {
    let configuration: FCMSimulatorConfiguration
    private let world: Mutex<FCMWorld>
    private let ownTokenURI = Mutex("")

    init(_ configuration: FCMSimulatorConfiguration, seed: UInt64, account: FCMServiceAccountKey) {
        self.configuration = configuration
        var world = FCMWorld(configuration, seed: seed)
        world.accounts[account.keyID] = account
        self.world = Mutex(world)
    }

    /// The address of the token endpoint, which assertions must name.
    var tokenURI: String {
        get { ownTokenURI.withLock { $0 } }
        set { ownTokenURI.withLock { $0 = newValue } }
    }

    func withWorld<Value: Sendable>(_ body: (inout sending FCMWorld) throws -> sending Value) rethrows -> Value {
        try world.withLock(body)
    }

    /// The access token of a request, when it is alive.
    func bearer(
        of request: SandboxRequest,
        at now: Date,
        _ world: FCMWorld
    ) throws(FCMRefusal) -> FCMWorld.AccessToken {
        guard let header = request.header("authorization") else { throw .unauthenticated("CREDENTIALS_MISSING") }
        guard header.hasPrefix("Bearer "), let token = world.accessTokens[String(header.dropFirst(7))] else {
            throw .unauthenticated("ACCESS_TOKEN_TYPE_UNSUPPORTED")
        }
        guard token.expires > now, !token.isRevoked else { throw .unauthenticated("ACCESS_TOKEN_EXPIRED") }
        return token
    }
}
