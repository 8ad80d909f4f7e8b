import Dispatch
import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

@Suite("Searches through the file", .timeLimit(.minutes(1)))
struct ScanTests {
    @Test("Many at a time leave a connection for look-ups")
    func lookUp() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            _ = try await store.put([Device(id: "a", createdAt: .now)])
            let gate = DispatchSemaphore(value: 0)
            let isFound = Mutex(false)
            let searches = (0..<8).map { _ in Task { try await store.scan { _ in gate.wait() } } }
            while store.scans.entered < 8 { await Task.yield() }
            let lookUp = Task {
                defer { isFound.withLock { $0 = true } }
                return try await store.devices(["a"]).count
            }
            try? await eventually("the look-up ends") { isFound.withLock { $0 } }
            #expect(isFound.withLock { $0 }, "the look-up waits behind searches")
            for _ in searches { gate.signal() }
            for search in searches { try await search.value }
            #expect(try await lookUp.value == 1)
            await store.close()
        }
    }

    @Test(
        "One that finds nothing looks at a bounded number of rows in each read",
        arguments: [
            DeviceQuery(platform: "web"), DeviceQuery(service: .iOSHuawei), DeviceQuery(user: "u", platform: "web"),
            DeviceQuery(user: "nobody", tag: "x"), DeviceQuery(tag: "x", service: .iOSHuawei),
        ]
    )
    func steps(_ query: DeviceQuery) async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.rowsPerScan = 100
            let store = try SQLiteStore(options)
            let devices = (0..<950).map {
                Device(id: "d\($0)", user: "u", platform: "ios", tags: ["x"], createdAt: .now)
            }
            _ = try await store.put(devices)
            #expect(try await store.list(query, after: nil, limit: 5) == DevicePage([]))
            #expect(store.scans.entered == 10)
            await store.close()
        }
    }
}
