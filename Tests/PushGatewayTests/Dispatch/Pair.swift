import PushQueue
import PushCore
import Synchronization

@testable import PushGateway

/// Two nodes whose notes reach each other at once.
final class Pair: NodeExchange {
    private let listeners = Mutex<[@Sendable (NodeNote) -> Void]>([])
    private let other = Mutex<Pair?>(nil)
    private let told = Mutex<[NodeNote]>([])

    static func make() -> (Pair, Pair) {
        let (one, two) = (Pair(), Pair())
        one.other.withLock { $0 = two }
        two.other.withLock { $0 = one }
        return (one, two)
    }

    var notes: [NodeNote] { told.withLock { $0 } }
    func nodes() async throws(StoreError) -> [StoreNode] { [] }
    func hear(_ listener: @escaping @Sendable (NodeNote) -> Void) { self.listeners.withLock { $0.append(listener) } }

    func tell(_ note: NodeNote) {
        told.withLock { $0.append(note) }
        for listener in other.withLock({ $0 })?.listeners.withLock({ $0 }) ?? [] { listener(note) }
    }
}
