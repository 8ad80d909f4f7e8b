import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Devices are introduced to backends", .timeLimit(.minutes(1)))
struct BackfillTests {
    /// A store whose small values are damaged.
    private struct DamagedState: StateStore {
        func loadState(_ name: String) async throws(StoreError) -> [UInt8]? { throw .damaged("state.value") }
        func saveState(_ name: String, _ value: [UInt8]?) async throws(StoreError) { throw .damaged("state.value") }
    }

    @Test("A damaged value of how far it came is reported and not waited for: the end of a gateway waits for this")
    func damaged() async throws {
        try await OperationRig.run { rig in
            let log = RecordedLog()
            let backfill = Backfill(
                store: rig.store,
                state: DamagedState(),
                time: ManualTime(),
                logger: log.logger
            )
            await backfill.keep(["crm"])
            await backfill.markIncomplete("crm")
            #expect(log.lines.contains { $0.contains("how far introductions came cannot be read") })
        }
    }
}
