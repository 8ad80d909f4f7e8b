import PushTesting
import Testing

@testable import PushStorePostgres

@Suite("The PostgreSQL store keeps the contract", .serialized, .timeLimit(.minutes(2)))
struct PostgresConformanceTests {
    @Test("As it comes", arguments: StoreConformance.cases)
    func contract(_ check: StoreConformanceCase) async throws {
        let options = try await TestServer.shared.options()
        try await check.run { time in try await PostgresStore.open(options, time: time) }
    }
}
