@testable import ChaparStoreSQLite

extension SQLiteStore {
    /// Whether a call waits for work of a backend.
    func hasOpenClaim(of backend: String) async throws -> Bool {
        try await look { queues in queues.existingQueue(backend)?.tickets.isEmpty == false }
    }
}
