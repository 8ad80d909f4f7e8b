import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Requests of several messages", .timeLimit(.minutes(1)))
struct OpenRequestsTests {
    /// Eight connections that take a hundred messages in a request.
    private static func limit(isMixed: Bool) -> OpenRequests.Limit {
        OpenRequests.Limit(window: 800, RequestBatching(limit: 100, isMixed: isMixed))
    }

    /// Returns what a claim may take, and leaves what follows when it finds `messages` in `requests`.
    private static func claim(
        _ state: inout OpenRequests,
        _ limit: OpenRequests.Limit,
        finds messages: Int,
        in requests: Int
    ) -> OpenRequests.Room {
        let room = state.room(limit, messages: 10_000)
        state.reserve(room.requests)
        var claim = OpenRequests.RequestClaim(limit: limit, reserved: room.requests, asked: room.messages)
        (claim.messages, claim.requests) = (messages, requests)
        state.end(claim)
        return room
    }

    @Test("are claimed for the connections that are free, and for one more only while a backlog waits")
    func room() {
        let limit = Self.limit(isMixed: true)
        #expect(limit.requests == 8)
        #expect(limit.messages == 900)
        var state = OpenRequests(limit)
        #expect(Self.claim(&state, limit, finds: 3, in: 1) == .init(messages: 800, requests: 8, mayWait: true))
        #expect(state.open == 1)
        #expect(Self.claim(&state, limit, finds: 700, in: 7).messages == 700)
        #expect(state.hasBacklog)
        let more = state.room(limit, messages: 10_000)
        #expect(more.requests == 0, "one is kept ready, but not for a trip of its own")
        state.end()
        #expect(Self.claim(&state, limit, finds: 200, in: 2) == .init(messages: 200, requests: 2, mayWait: true))
        #expect(state.open == 9)
        state.end()
        #expect(state.room(limit, messages: 10_000).requests == 0)
        state.end()
        #expect(Self.claim(&state, limit, finds: 50, in: 1).messages == 200)
        #expect(!state.hasBacklog)
        #expect(state.open == 8)
        let none = state.room(limit, messages: 10_000)
        #expect(none.requests == 0, "nothing waits: no request is filled before it can go")
    }

    @Test("do not wait for work that only the request kept ready would take")
    func kept() {
        let limit = OpenRequests.Limit(window: 100, RequestBatching(limit: 100, isMixed: true))
        var state = OpenRequests(limit)
        #expect(Self.claim(&state, limit, finds: 100, in: 1).mayWait)
        #expect(state.room(limit, messages: 10_000) == .init(messages: 100, requests: 1, mayWait: false))
        #expect(state.room(limit, messages: 7).messages == 7, "an operator's bound")
        #expect(state.room(limit, messages: 0).requests == 0)
    }

    @Test("of one notification each grow to what a request takes, and shrink at once when notifications differ")
    func sizes() {
        let limit = Self.limit(isMixed: false)
        var state = OpenRequests(limit)
        // Different ones: the first claim is a guess.
        #expect(Self.claim(&state, limit, finds: 128, in: 128).messages == 128)
        for _ in 0..<120 { state.end() }
        #expect(state.perRequest == 1)
        #expect(state.room(limit, messages: 10_000).requests == 0)
        for _ in 0..<8 { state.end() }
        // A notification to many.
        var sizes: [Int] = []
        for _ in 0..<6 {
            let room = state.room(limit, messages: 10_000)
            let requests = max(1, room.messages / 100)
            sizes.append(Self.claim(&state, limit, finds: room.messages, in: requests).messages)
            for _ in 0..<requests { state.end() }
        }
        #expect(sizes == [9, 81, 729, 900, 900, 900])
        _ = Self.claim(&state, limit, finds: 2, in: 2)
        #expect(state.perRequest == 1)
    }

    @Test("of before a reload never make the count negative")
    func ends() {
        var state = OpenRequests(Self.limit(isMixed: true))
        state.end()
        #expect(state.open == 0)
    }

    @Test("are cut from claims: by notification where one takes no other, and by size")
    func parts() {
        func claim(_ notification: Int64, _ place: Int64) -> ClaimedDelivery {
            ClaimedDelivery(
                id: notification * 1_000 + place,
                notificationID: NotificationID(rawValue: notification * 1_000),
                content: .decoded(PushNotification()),
                recipient: .topic("t"),
                plan: DeliveryPlan(["a"]),
                step: 0,
                attempts: 0,
                acceptedAt: .now,
                expiresAt: .now
            )
        }
        let claims = [claim(1, 0), claim(1, 1), claim(1, 2), claim(2, 0), claim(3, 0), claim(3, 1)]
        func sizes(_ isMixed: Bool, _ limit: Int) -> [Int] {
            RequestBatching(limit: limit, isMixed: isMixed).parts(claims).map(\.count)
        }
        #expect(sizes(true, 4) == [4, 2])
        #expect(sizes(true, 6) == [6])
        #expect(sizes(false, 2) == [2, 1, 1, 2])
        #expect(sizes(false, 9) == [3, 1, 2])
        #expect(RequestBatching(limit: 0, isMixed: true).limit == 1)
        #expect(RequestBatching(limit: 5, isMixed: true).parts([]).isEmpty)
    }

    @Test("leave in the store what cannot go out now, and go full when they go", arguments: [true, false])
    func stored(isMixed: Bool) async throws {
        let backend = BatchingBackend(connections: 2, RequestBatching(limit: 10, isMixed: isMixed))
        defer { backend.open() }
        try await DispatcherRig.run(["a": backend]) { rig in
            // One after the other, as they come: each begins alone.
            for number in 0..<2 {
                try await rig.accept(["first \(number)"])
                try await rig.until { backend.sizes.count == number + 1 }
            }
            if isMixed {
                for number in 0..<100 { try await rig.accept(["t\(number)"]) }
            } else {
                try await rig.accept((0..<100).map { "t\($0)" })
            }
            // Time in which more would be claimed, or a third request would go out.
            try await Task.sleep(for: .milliseconds(100))
            #expect(backend.sizes == [1, 1])
            let depth = try #require(try await rig.store.depths()["a"])
            #expect((depth.waiting, depth.claimed) == (100, 2))
            backend.open()
            try await rig.until { backend.sizes.reduce(0, +) == 102 }
            #expect(backend.mostAtOnce <= 3, "two on their way, and one that is kept ready")
            #expect(backend.sizes.count <= (isMixed ? 13 : 30), "\(backend.sizes)")
        }
    }

    @Test("of which one fails as a whole stop nothing, be it the first or the second", arguments: [1, 2])
    func failsOnce(number: Int) async throws {
        let backend = BatchingBackend(connections: 1, RequestBatching(limit: 10, isMixed: true), failing: [number])
        backend.open()
        try await DispatcherRig.run(["a": backend]) { rig in
            let first = try await rig.accept((0..<20).map { "t\($0)" })
            try await rig.expect(first, [.acceptedByPlatform: 10, .retrying: 10])
            let later = try await rig.accept(["later"])
            try await rig.expect(later, [.acceptedByPlatform: 1])
            #expect(rig.dispatcher.workers.first?.breaker.status == .closed)
        }
    }

    @Test("that all fail open the breaker with the fifth")
    func failAll() async throws {
        let backend = BatchingBackend(connections: 1, RequestBatching(limit: 10, isMixed: true), failing: Set(1...100))
        backend.open()
        try await DispatcherRig.run(["a": backend]) { rig in
            try await rig.accept((0..<200).map { "t\($0)" })
            try await rig.until { rig.dispatcher.workers.first?.breaker.status == .open }
            #expect((5...7).contains(backend.sizes.count), "\(backend.sizes)")
        }
    }

    @Test("of a gateway that may have lost its claims are not sent")
    func lost() async throws {
        let backend = BatchingBackend(connections: 2, RequestBatching(limit: 10, isMixed: true))
        backend.open()
        let time = ManualTime()
        let store = HeldStore(time: time)
        store.loseClaims(afterRefusing: 1)
        let dispatcher = Dispatcher(store: store, devices: nil, time: store.time, logger: quiet) { _ in
            PushNotification(title: "t")
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await dispatcher.run(DispatcherRig.snapshot(["a": backend])) }
            let id = store.makeID(recipients: 1)
            let notification = NewNotification(
                id: id,
                notification: PushNotification(title: "t"),
                record: NotificationRecord(
                    content: Array("{}".utf8),
                    plans: [DeliveryPlan(["a"])],
                    acceptedAt: store.time.steady
                ),
                recipients: [.topic("t")],
                caller: "",
                expiresAt: store.time.steady.addingTimeInterval(3_600),
                event: Array("{}".utf8)
            )
            _ = try await store.enqueue(EnqueueBatch([notification]))
            try await eventually("a claim is lost", within: .seconds(20), every: .milliseconds(2)) {
                if store.hasLostClaim { return true }
                #expect(backend.sizes.isEmpty)
                time.advance(by: .milliseconds(50))
                return false
            }
            try await eventually("the message is accepted", within: .seconds(20), every: .milliseconds(2)) {
                if try await store.notification(id)?.counts == [.acceptedByPlatform: 1] { return true }
                time.advance(by: .milliseconds(50))
                return false
            }
            #expect(backend.sizes == [1])
            #expect(backend.permits == [true], "the transport can ask again")
            #expect(store.records == 2, "the lost claim went back, and the message was recorded")
            dispatcher.stop()
            try await group.waitForAll()
        }
    }

    @Test("are not waited for by a stop")
    func stopsWhileLost() async throws {
        let time = ManualTime()
        let store = HeldStore(time: time)
        store.loseClaims(afterRefusing: .max)
        let backend = BatchingBackend(connections: 2, RequestBatching(limit: 10, isMixed: true))
        let dispatcher = Dispatcher(store: store, devices: nil, time: time, logger: quiet) { _ in
            PushNotification(title: "t")
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await dispatcher.run(DispatcherRig.snapshot(["a": backend])) }
            try await eventually("three tasks wait", within: .seconds(20), every: .milliseconds(2)) {
                time.sleeping >= 3
            }
            // The clock is not moved: only the stop can end the wait.
            dispatcher.stop()
            try await group.waitForAll()
        }
    }
}

/// Takes messages in requests, which it answers once it is opened; some fail as a whole.
private final class BatchingBackend: PushBackend {
    let kind: BackendKind = "batching"
    let audience = BackendAudience(forms: [.topic])
    let window: Int?
    let batching: RequestBatching?
    private let state = Mutex((sizes: [Int](), permits: [Bool?](), underWay: 0, most: 0, isOpen: false))

    /// The numbers, from 1, of the requests that fail.
    private let failing: Set<Int>

    init(connections: Int, _ batching: RequestBatching, failing: Set<Int> = []) {
        window = connections * batching.limit
        self.failing = failing
        self.batching = batching
    }

    /// The sizes of the requests, in order.
    var sizes: [Int] { state.withLock { $0.sizes } }
    /// The permits that a transport would read, one for each call; nil where there is none.
    var permits: [Bool?] { state.withLock { $0.permits } }
    var mostAtOnce: Int { state.withLock { $0.most } }

    func open() { state.withLock { $0.isOpen = true } }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let permit = SendPermit.current?.mayWrite
        let number = state.withLock { state in
            state.permits.append(permit)
            state.sizes.append(requests.reduce(0) { $0 + $1.recipients.count })
            state.underWay += 1
            state.most = max(state.most, state.underWay)
            return state.sizes.count
        }
        try? await eventually("the test opens it", within: .seconds(60), every: .milliseconds(1)) {
            state.withLock { $0.isOpen }
        }
        // Real time: a request takes a moment, in which too many would be seen together.
        try? await Task.sleep(for: .milliseconds(5))
        state.withLock { $0.underWay -= 1 }
        let refusal = Refusal(.platform, reason: "http_500", status: 500, advice: .retry(after: nil))
        let outcome: DeliveryOutcome = failing.contains(number) ? .refused(refusal) : .accepted(Acceptance())
        report(
            requests.enumerated().flatMap { row, request in
                request.recipients.indices.map { DeliveryReport(request: row, recipient: $0, outcome: outcome) }
            }
        )
    }

    func shutdown(grace: Duration) async {}
}
