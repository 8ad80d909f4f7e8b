import ChaparStoreContract
import Testing

@testable import ChaparStorePostgres

@Suite("The PostgreSQL store keeps the contract", .serialized, .timeLimit(.minutes(2)))
struct PostgresConformanceTests {
    @Test("As it comes", arguments: StoreConformance.cases)
    func contract(_ check: StoreConformanceCase) async throws {
        var options = try await TestServer.shared.options()
        options.cheapScan = .seconds(10)
        try await check.run { [options] time in try await PostgresStore.open(options, time: time) }
    }
}
