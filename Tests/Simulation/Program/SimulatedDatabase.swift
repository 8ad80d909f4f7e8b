import Foundation
import ChaparCore
import ChaparStoreContract
import SimulationDisk

/// A database on another machine, which stays when a gateway dies, and the network in between.
///
/// What a dead gateway had claimed can be claimed again when its lease is over. `@unchecked Sendable`: one thread at a
/// time, see ``Scheduler``.
final class SimulatedDatabase: @unchecked Sendable {
    /// A fault of the database.
    enum Fault: Int, CaseIterable {
        /// Nothing comes through for a while.
        case cut
        /// Calls are carried out, and their answers are lost.
        case losing
        /// Calls take seconds.
        case slow
        /// The gateway is taken for dead, and goes on.
        case lapse
    }

    private let scheduler: Scheduler
    let time: VirtualTime
    let database: MemoryDatabase
    /// How many calls went wrong.
    private(set) var faults = 0
    /// How many calls were carried out whose answers are on their way.
    private var onTheirWay = 0
    /// Whether a gateway that dies now does not hear what became of a call.
    var isWriting: Bool { onTheirWay > 0 }
    /// The gateway's process died at a call.
    private(set) var hasCrashed = false
    private var crashIn: Int?
    private var downUntil: Int64 = 0
    private var losing = 0
    private var slow = 0
    /// The nodes that have died, with the ends of their leases.
    private var leases: [(node: Int64, end: Int64)] = []

    /// The longest that what a dead node had claimed stays so, in milliseconds.
    private static let longestLease = 10_000

    init(_ scheduler: Scheduler) {
        self.scheduler = scheduler
        time = VirtualTime(scheduler)
        database = MemoryDatabase(time: time)
    }

    /// Opens it for a gateway with a clock.
    func open(_ own: VirtualTime) -> MemoryStore {
        hasCrashed = false
        return MemoryStore(database, time: NodeTime(database: time, own: own), connection: Connection(self, own))
    }

    /// A gateway has died.
    func forget(_ node: Int64) {
        crashIn = nil
        hasCrashed = false
        database.forget(node)
        time.forgetSleepers()
        onTheirWay = 0
        leases.append((node, scheduler.now + Int64(scheduler.draw(below: Self.longestLease)) * 1_000_000))
    }

    /// When something happens by itself next.
    var nextEnd: Int64? { [leases.map(\.end).min(), time.nextEnd].compactMap { $0 }.min() }

    /// Ends what has come to its end; whether a lease was among it.
    func wake() -> Bool {
        time.wake()
        let over = leases.filter { $0.end <= scheduler.now }
        leases.removeAll { $0.end <= scheduler.now }
        for lease in over { database.recover(lease.node) }
        return !over.isEmpty
    }

    /// Kills the gateway at one of the next calls.
    func crash(inCalls calls: Int) { crashIn = calls }

    /// Lets something go wrong; `node` is the gateway that runs.
    func fault(_ fault: Fault, _ number: Int, node: Int64?) {
        switch fault {
        case .cut: downUntil = scheduler.now + [200, 2_000, 8_000, 30_000][number % 4] * 1_000_000
        case .losing: losing = 1 + number % 12
        case .slow: slow = 1 + number % 24
        case .lapse:
            guard let node else { return }
            faults += 1
            database.recover(node)
        }
    }

    /// Whether no connection to it can be made, or none could be a moment ago: an answer about a call that waited for
    /// it comes when it is back.
    var wasAway: Bool { scheduler.now < downUntil + 1_000_000_000 }

    /// Everything works again.
    func heal() {
        (downUntil, losing, slow) = (0, 0, 0)
        crashIn = nil
    }

    /// A time that all nodes have in common, with the waits of one process.
    private struct NodeTime: TimeSource {
        let database: VirtualTime
        let own: VirtualTime
        var now: Date { database.now }
        var steady: Date { database.steady }
        func sleep(for duration: Duration) async throws { try await own.sleep(for: duration) }
    }

    private struct Connection: MemoryConnection {
        private let network: SimulatedDatabase
        private let time: VirtualTime

        init(_ network: SimulatedDatabase, _ time: VirtualTime) { (self.network, self.time) = (network, time) }

        var isThere: Bool { network.scheduler.now >= network.downUntil }

        func request() async throws(StoreError) {
            await pass()
            guard !isThere else { return }
            network.faults += 1
            await sleep(min(network.downUntil - network.scheduler.now, 2_000_000_000))
            throw MemoryConnectionLoss.error
        }

        func answer() async throws(StoreError) {
            network.onTheirWay += 1
            await pass()
            network.onTheirWay -= 1
            guard network.losing > 0 || !isThere else { return }
            network.losing = max(0, network.losing - 1)
            network.faults += 1
            throw MemoryConnectionLoss.error
        }

        /// The way there or back.
        private func pass() async {
            if let left = network.crashIn {
                network.crashIn = left - 1
                if left <= 0 {
                    network.crashIn = nil
                    network.hasCrashed = true
                }
            }
            var span = 50_000 + network.scheduler.draw(below: 1_000_000)
            if network.slow > 0 {
                network.slow -= 1
                network.faults += 1
                span += network.scheduler.draw(below: 3_000) * 1_000_000
            }
            await sleep(Int64(span))
        }

        private func sleep(_ nanoseconds: Int64) async {
            try? await time.sleep(for: .nanoseconds(nanoseconds))  // A call that is cancelled comes through at once.
        }
    }
}
