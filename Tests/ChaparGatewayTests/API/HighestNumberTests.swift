import Foundation
import HTTPTypes
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Numbers near the end of 64 bits, by every way that leads from a caller to a store.
///
/// Each such request once ended the process, and with it these tests.
@Suite("Numbers that no id has", .timeLimit(.minutes(1)))
struct HighestNumberTests {
    /// An API over a file, with one device and one notification.
    private struct Rig {
        let time = ManualTime(Date(timeIntervalSince1970: 1_800_000_000))
        let store: SQLiteStore
        let api: GatewayAPI

        init(_ folder: URL) throws {
            store = try SQLiteStore(SQLiteStoreOptions(path: folder.appending(path: "test.db").path), time: time)
            let snapshot = GatewaySnapshot(
                configuration: .keyless,
                backends: [.init(name: "ios", backend: StubBackend.ios)]
            )
            let state = GatewayState(snapshot: snapshot, store: store, devices: store, time: time)
            api = GatewayAPI(
                state: state,
                workers: StubWorkers(),
                metrics: GatewayMetrics(),
                knownKinds: ["apns"],
                logger: quiet
            )
        }

        func call(_ method: HTTPRequest.Method, _ path: String, _ body: String? = nil) async throws -> APIHarness.Reply
        {
            try await APIHarness.send(api.responder, method, path, body)
        }

        /// Reports that a phone has opened a message.
        func open(_ message: String) async throws -> APIHarness.Reply {
            try await call(.post, "/v1/devices/phone-1/events", #"{"event":"opened",\#(message)}"#)
        }
    }

    private func run(_ body: (Rig, _ id: String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let rig = try Rig(folder)
        let device = #"{"user":"ada","tokens":{"ios-apns":"\#(String(repeating: "4f", count: 32))"}}"#
        #expect(try await rig.call(.put, "/v1/devices/phone-1", device).status == 201)
        let sent = try await rig.call(.post, "/v1/notifications", APIHarness.sample())
        let id = try #require(sent.json["id"]?.stringValue)
        try await body(rig, id)
        #expect(try await rig.call(.get, "/v1/notifications/\(id)").status == 200, "the gateway goes on")
        await rig.store.close()
    }

    /// The highest id, the first number beyond, and the numbers between which the gateway once died.
    private static let ids = ["3ZZZZZZZZZZZZ", "4000000000000", "7ZZZZZCEZZZZZ", "7ZZZZZCF00000", "7ZZZZZZZZZZZZ"]

    @Test("are unknown to every route of notifications", arguments: ids)
    func notifications(text: String) async throws {
        try await run { rig, id in
            for (method, path) in [
                (.get, text), (.get, "\(text)/deliveries"), (.delete, text), (.delete, "\(text)?platform=true"),
            ] as [(HTTPRequest.Method, String)] {
                let reply = try await rig.call(method, "/v1/notifications/\(path)")
                #expect(reply.status == 404 && reply.code == "not_found", "\(method) \(path): \(reply.text)")
            }
            let isID = text == NotificationID(rawValue: .max).description
            for path in [
                "notifications/\(id)/deliveries?cursor=", "devices?cursor=", "invalidations?backend=ios&cursor=",
            ] {
                let reply = try await rig.call(.get, "/v1/" + path + text)
                #expect(reply.status == (isID ? 200 : 400), "\(path): \(reply.text)")
            }
        }
    }

    @Test("are no message that a phone can have opened", arguments: ids)
    func events(text: String) async throws {
        try await run { rig, _ in
            let reply = try await rig.open(#""notification":"\#(text)""#)
            #expect(reply.status == 422, "\(reply.text)")
        }
    }

    @Test(
        "are no message either behind the half of an id that is in every push",
        arguments: [.max, .max - 1, 1 << 62, NotificationID.highest] as [Int64]
    )
    func ownMessages(number: Int64) async throws {
        try await run { rig, _ in
            let instance = try await rig.store.makeInstance()
            let message = MessageID(instance: instance, delivery: number)
            if number == .max { #expect(message.description.hasSuffix("-ffff-ffffffffffff")) }
            for form in [
                #""delivery":"\#(message)""#, #""payload":{"chapar_id":"\#(message)"}"#,
                #""payload":{"data":{"chapar_id":"\#(message)"}}"#,
            ] {
                let reply = try await rig.open(form)
                #expect(reply.status == 422 || number == NotificationID.highest, "\(form): \(reply.text)")
                #expect(reply.status < 500, "\(form): \(reply.text)")
            }
            #expect((message.delivery(instance: instance) == nil) == (number > NotificationID.highest))
        }
    }

    @Test("are no place in the stream of events", arguments: ["9223372036854775807", "4611686018427387904"])
    func stream(number: String) async throws {
        try await run { rig, _ in
            let after = try await rig.call(.get, "/v1/events?after=\(number)")
            #expect(after.status == 400)
            let field: HTTPFields = [.lastEventID: number]
            #expect(try await APIHarness.send(rig.api.responder, .get, "/v1/events", headers: field).status == 400)
            #expect(try await rig.store.events(after: .max, limit: 10, wait: .zero).isEmpty)
        }
    }
}
