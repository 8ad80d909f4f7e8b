import Foundation
import HTTPTypes
import ChaparCore
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Users whose names mean something elsewhere.
@Suite("Erasing a user by the name", .timeLimit(.minutes(1)))
struct ErasedNameTests {
    @Test("A user whose name stands for no user in a switch is erased as any other")
    func anonymous() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let time = ManualTime(Date(timeIntervalSince1970: 1_800_000_000))
        let options = SQLiteStoreOptions(path: folder.appending(path: "test.db").path)
        let store = try SQLiteStore(options, time: time, logger: quiet)
        let snapshot = GatewaySnapshot(
            configuration: .keyless,
            backends: [.init(name: "ios", backend: StubBackend.ios)]
        )
        let state = GatewayState(snapshot: snapshot, store: store, devices: store, time: time)
        let api = GatewayAPI(state: state, workers: StubWorkers(), metrics: GatewayMetrics(), logger: quiet)
        for (device, user) in [("phone", UserSwitchAPI.nobody), ("tablet", "eve")] {
            let path = "/v1/devices/\(device)"
            #expect(try await APIHarness.send(api.responder, .put, path, #"{"user":"\#(user)"}"#).status == 201)
        }
        let erased = try await APIHarness.send(api.responder, .delete, "/v1/users/anonymous")
        #expect(erased.status == 200, "\(erased.text)")
        #expect(erased.json["devices"] == 1)
        #expect(try await APIHarness.send(api.responder, .get, "/v1/devices/phone").status == 404)
        #expect(try await APIHarness.send(api.responder, .get, "/v1/devices/tablet").status == 200)
        await store.close()
    }
}
