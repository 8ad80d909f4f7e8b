import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@Suite("The store in memory keeps the contract", .timeLimit(.minutes(1)))
struct MemoryStoreTests {
    /// Keeps the database of a check, which opens its store several times.
    private final class Opening: Sendable {
        private let database = Mutex<MemoryDatabase?>(nil)

        func open(_ time: ManualTime) -> MemoryStore {
            MemoryStore(
                database.withLock { database in
                    let opened = database ?? MemoryDatabase(time: time)
                    database = opened
                    return opened
                }
            )
        }
    }

    @Test("Notifications", arguments: StoreConformance.cases)
    func notifications(_ check: StoreConformanceCase) async throws {
        let opening = Opening()
        try await check.run { opening.open($0) }
    }

    @Test("Devices", arguments: DeviceStoreConformance.cases)
    func devices(_ check: DeviceStoreConformanceCase) async throws {
        try await check.run(MemoryStore(MemoryDatabase(time: ManualTime())))
    }

    @Test("The outbox", arguments: OutboxStoreConformance.cases.filter { !$0.needsDisk })
    func outbox(_ check: OutboxStoreConformanceCase) async throws {
        try await check.run { MemoryStore(MemoryDatabase(time: $0)) }
    }
}
