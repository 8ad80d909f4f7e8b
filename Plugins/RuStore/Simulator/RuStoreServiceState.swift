internal import ChaparCore
internal import ChaparSimulator
internal import Synchronization

/// The state that the listeners of one RuStore simulator share: behind a lock, with the configuration.
final class RuStoreServiceState: Sendable {
    let configuration: RuStoreSimulatorConfiguration
    private let state: Mutex<RuStoreState>

    init(_ configuration: RuStoreSimulatorConfiguration) {
        self.configuration = configuration
        state = Mutex(RuStoreState(configuration))
    }

    func withState<Value: Sendable>(_ body: (inout sending RuStoreState) throws -> sending Value) rethrows -> Value {
        try state.withLock(body)
    }

    /// Returns the state of a token; throws the refusal of a magic token that is refused once.
    func device(_ token: String, _ state: inout RuStoreState) throws(RuStoreRefusal) -> RuStoreDevice {
        if let device = state.devices[token] { return device }
        if configuration.honoursMagicTokens, let magic = RuStoreMagicToken(token) {
            switch magic {
            case .dead: return .dead
            case .malformed: return .malformed
            case .unregistered: return .unregistered
            case .universal: return .universal
            case .quotaOnce: if state.magicSeen.insert(token) { throw .tooMany }
            case .unavailableOnce: if state.magicSeen.insert(token) { throw .named(nil, status: 503) }
            }
            return .alive
        }
        return configuration.acceptsAnyToken ? .alive : .malformed
    }
}
