import Foundation
import ChaparQueue
import ChaparCore
import Synchronization

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

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
    /// The backends of the other one; nil where it has not said so.
    ///
    /// While nothing is set here there is no other one.
    let otherBackends = Mutex<Set<String>??>(nil)
    let declared = Mutex<Set<String>>([])
    /// The answer of ``mayJudge``.
    let isCurrent = Mutex(true)

    var mayJudge: Bool { isCurrent.withLock { $0 } }

    func declare(backends: Set<String>) async throws(StoreError) { declared.withLock { $0 = backends } }

    func nodes() async throws(StoreError) -> [StoreNode] {
        guard let backends = otherBackends.withLock({ $0 }) else { return [] }
        return [
            StoreNode(
                number: 2,
                name: "other",
                startedAt: .now,
                leaseLeft: .seconds(10),
                isSelf: false,
                backends: backends
            )
        ]
    }

    func hear(_ listener: @escaping @Sendable (NodeNote) -> Void) { self.listeners.withLock { $0.append(listener) } }

    func tell(_ note: NodeNote) {
        told.withLock { $0.append(note) }
        for listener in other.withLock({ $0 })?.listeners.withLock({ $0 }) ?? [] { listener(note) }
    }
}
