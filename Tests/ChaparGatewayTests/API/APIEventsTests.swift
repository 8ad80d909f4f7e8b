import HummingbirdCore
import ChaparTesting
import Synchronization
import Foundation
import HTTPTypes
import Hummingbird
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The event stream", .timeLimit(.minutes(1)))
struct APIEventsTests {
    /// Waits until the stream has written what a test looks for.
    private func wait(for text: String, in writer: CollectingWriter) async throws {
        try? await eventually("it is written", within: .seconds(20), every: .milliseconds(2)) {
            writer.text.contains(text)
        }
        try #require(writer.text.contains(text), "\(text) never came; there is: \(writer.text)")
    }

    /// Opens a stream, gives it to `body`, ends it.
    private func withStream(
        _ harness: APIHarness,
        _ query: String = "",
        headers: HTTPFields = [:],
        _ body: (CollectingWriter) async throws -> Void
    ) async throws {
        let response = try await harness.respond(.get, "/v1/events\(query)", headers: headers)
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "text/event-stream")
        let writer = CollectingWriter()
        let stream = Task { try await response.body.write(writer) }
        do {
            try await body(writer)
        } catch {
            stream.cancel()
            _ = await stream.result
            throw error
        }
        stream.cancel()
        try await stream.value
        #expect(writer.isFinished.withLock { $0 })
    }

    private func event(_ type: String, _ more: String = "") -> [UInt8] { Array("{\"type\":\"\(type)\"\(more)}".utf8) }

    @Test("begins with what happens from now on, each event with its number, type and data")
    func live() async throws {
        let harness = APIHarness()
        try await harness.store.publish([event("backend.parked")])
        try await withStream(harness) { writer in
            try await wait(for: "retry: 2000\n\n", in: writer)
            _ = try await harness.post(APIHarness.sample())
            try await wait(
                for: "id: 2\nevent: notification.accepted\ndata: {\"type\":\"notification.accepted\"",
                in: writer
            )
            #expect(!writer.text.contains("backend.parked"))
            #expect(writer.text.hasSuffix("}\n\n"))
        }
    }

    @Test(
        "goes on after the number that the client saw last",
        arguments: [
            ("", [.lastEventID: "2"]), ("?after=2", [:]), ("?after=1", [.lastEventID: "2"]),
        ] as [(String, HTTPFields)]
    )
    func resume(query: String, headers: HTTPFields) async throws {
        let harness = APIHarness()
        try await harness.store.publish((1...4).map { event("delivery.failed", ",\"n\":\($0)") })
        try await withStream(harness, query, headers: headers) { writer in
            try await wait(for: "\"n\":4}", in: writer)
            #expect(!writer.text.contains("\"n\":2}"))
            #expect(writer.text.contains("id: 3\n"))
        }
    }

    @Test("tells a client when events that it did not see are gone")
    func gap() async throws {
        let harness = APIHarness()
        try await harness.store.publish((1...4).map { event("delivery.failed", ",\"n\":\($0)") })
        harness.store.removeEvents(2)
        try await withStream(harness, "?after=1") { writer in
            try await wait(for: "\"n\":4}", in: writer)
            #expect(
                writer.text.contains(
                    "event: gateway.gap\ndata: {\"type\":\"gateway.gap\",\"after\":1,\"next\":3}\n\nid: 3\n"
                )
            )
        }
    }

    @Test("holds only the types that were asked for")
    func types() async throws {
        let harness = APIHarness()
        try await withStream(harness, "?after=0&types=delivery.*,backend.parked") { writer in
            try await harness.store.publish(
                ["notification.accepted", "delivery.sending", "backend.parked", "backend.paused", "delivery.failed"]
                    .map { event($0) }
            )
            try await wait(for: "delivery.failed", in: writer)
            let types = writer.text.split(separator: "\n").filter { $0.hasPrefix("event: ") }
            #expect(types == ["event: delivery.sending", "event: backend.parked", "event: delivery.failed"])
        }
    }

    @Test(
        "tells of the workers only to clients that ask, under the present name or the old one, without a number",
        arguments: ["workers", "lanes"]
    )
    func workers(parameter: String) async throws {
        let harness = APIHarness()
        try await withStream(harness, "?\(parameter)=1") { writer in
            try await wait(for: "event: gateway.lanes\ndata: {\"type\":\"gateway.lanes\"", in: writer)
            #expect(!writer.text.contains("id: "))
            let line = try #require(writer.text.split(separator: "\n").first { $0.hasPrefix("data: ") })
            let data = try JSONValue(parsing: Array(line.dropFirst(6).utf8))
            let backend = data["backends"]?.arrayValue?.first
            #expect(backend?["lane"]?["in_flight"] == 3)
            #expect(backend?["lane"]?["invalidations_held"] == false)
            #expect(backend?["worker"] == nil, "events have the old name until it ends")
            #expect(data["totals"]?["accepted"] == 0)
        }
    }

    @Test("refuses a parameter under both of its names, and says which to leave out")
    func bothNames() async throws {
        let reply = try await APIHarness().send(.get, "/v1/events?workers=1&lanes=1")
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_parameter")
        let detail = reply.json["detail"]?.stringValue ?? ""
        #expect(detail.contains("workers") && detail.contains("leave \"lanes\" out"), "\(detail)")
    }

    @Test("suggests the present name for a parameter that is near the old one", arguments: ["Lanes", "lane", "worker"])
    func nearFormerName(parameter: String) async throws {
        let reply = try await APIHarness().send(.get, "/v1/events?\(parameter)=1")
        #expect(reply.status == 400)
        let detail = reply.json["detail"]?.stringValue ?? ""
        #expect(detail.contains("Did you mean \"workers\"?") && !detail.contains("\"lanes\""), "\(detail)")
    }

    @Test("gives a sign of life with the place in the stream when nothing happens")
    func heartbeat() async throws {
        let harness = APIHarness()
        try await harness.store.publish([event("delivery.failed")])
        let stream = EventStream(
            state: harness.state,
            filter: try EventFilter(nil),
            caller: .everybody,
            authorize: { .everybody },
            after: 0,
            isResumed: true,
            workers: nil,
            heartbeat: .milliseconds(5),
            slot: try StreamSlot(Admission(), .everybody, limit: 1)
        )
        let writer = CollectingWriter()
        let task = Task {
            var own: any ResponseBodyWriter = writer
            try await stream.run(&own)
        }
        try await wait(for: ": heartbeat\nid: 1\n\n", in: writer)
        task.cancel()
        try await task.value
    }

    @Test("ends with the key that opened it, and no key has more streams than it may")
    func key() async throws {
        let harness = APIHarness(keys: [APIHarness.key("dash", [.read]), APIHarness.key("other", [.read])]) {
            $0.limits.streamsPerKey = 1
        }
        try await withStream(harness, headers: APIHarness.bearer("dash")) { writer in
            try await wait(for: "retry", in: writer)
            let second = try await harness.send(.get, "/v1/events", headers: APIHarness.bearer("dash"))
            #expect(second.code == "too_many_streams")
            var configuration = harness.state.snapshot.configuration
            configuration.apiKeys = [APIHarness.key("other", [.read])]
            let backends = harness.state.snapshot.backends
            harness.state.replace(GatewaySnapshot(configuration: configuration, backends: backends))
            try await harness.store.publish([event("backend.parked", #","backend":"ios""#)])
            try await eventually("the stream ends") { writer.isFinished.withLock { $0 } }
            #expect(!writer.text.contains("backend.parked"))
        }
        #expect(harness.api.responder.load.streams == 0)
    }

    @Test("ends when its key does, without a reload: nothing that happens later is told")
    func keyEnds() async throws {
        let start = Date(timeIntervalSince1970: 1_800_000_000)
        let harness = APIHarness(keys: [APIHarness.key("dash", [.read], notAfter: start + 60)])
        let headers = APIHarness.bearer("dash")
        let slot = try StreamSlot(Admission(), .everybody, limit: 1)
        let snapshot = harness.api.responder.snapshots.current
        let stream = EventStream(
            state: harness.state,
            filter: try EventFilter(nil),
            caller: .everybody,
            authorize: { [time = harness.time] in
                try? snapshot.keyring.admit(headers[.authorization], .scope(.read), at: time.reading)
            },
            after: 0,
            isResumed: true,
            workers: nil,
            heartbeat: .milliseconds(5),
            authorizationInterval: .milliseconds(5),
            slot: slot
        )
        let writer = CollectingWriter()
        let task = Task {
            var own: any ResponseBodyWriter = writer
            try await stream.run(&own)
        }
        try await wait(for: ": heartbeat", in: writer)
        try await harness.store.publish([event("backend.parked", #","backend":"ios""#)])
        try await wait(for: "backend.parked", in: writer)
        harness.time.advance(by: .seconds(61))
        try await task.value
        #expect(writer.isFinished.withLock { $0 })
        #expect(try await harness.send(.get, "/v1/events", headers: headers).status == 401)
    }

    @Test("ends when the gateway shuts down, and when the store is closed")
    func shutdown() async throws {
        for close in [true, false] {
            let harness = APIHarness()
            let response = try await harness.respond(.get, "/v1/events?workers=1")
            let writer = CollectingWriter()
            let stream = Task { try await response.body.write(writer) }
            try await wait(for: "gateway.lanes", in: writer)
            if close { await harness.store.close() } else { harness.state.beginDraining() }
            try await stream.value
            #expect(writer.isFinished.withLock { $0 })
            #expect(try await harness.send(.get, "/v1/events").status == 503)
        }
    }

    @Test("has a bounded number of places, and a client that goes gives its place back")
    func places() async throws {
        let harness = APIHarness()
        var open: [Response] = []
        for _ in 0..<Admission.maximumStreams { open.append(try await harness.respond(.get, "/v1/events")) }
        #expect(open.allSatisfy { $0.status == .ok })
        let refused = try await harness.send(.get, "/v1/events")
        #expect(refused.status == 503)
        #expect(refused.code == "too_many_streams")
        open.removeLast(2)
        #expect(try await harness.respond(.get, "/v1/events").status == .ok)
        let writer = CollectingWriter(limit: 0)
        let leaving = try await harness.respond(.get, "/v1/events")
        await #expect(throws: CollectingWriter.Full.self) { try await leaving.body.write(writer) }
    }

    @Test(
        "refuses what it cannot read",
        arguments: [
            ("?after=x", [:]), ("?after=-1", [:]), ("?workers=2", [:]), ("?lanes=2", [:]), ("?type=x", [:]),
            ("", [.lastEventID: "abc"]),
        ] as [(String, HTTPFields)]
    )
    func parameters(query: String, headers: HTTPFields) async throws {
        let reply = try await APIHarness().send(.get, "/v1/events\(query)", headers: headers)
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_parameter")
    }
}
