import Foundation
import ChaparCore
import ChaparSimulator
import Testing

@testable import ChaparAPNsSimulator

@Suite("The inbox", .timeLimit(.minutes(1)))
struct APNsInboxTests {
    private var state = APNsState(seed: 1, inboxLimit: 8)

    private mutating func add(
        id: String = "0d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77",
        token: String = "aa",
        body: String = "{}",
        collapse: String? = nil,
        expiration: String? = nil,
        isOnline: Bool = true
    ) {
        var headers = [HTTPHeader("authorization", "bearer x")]
        if let collapse { headers.append(HTTPHeader("apns-collapse-id", collapse)) }
        if let expiration { headers.append(HTTPHeader("apns-expiration", expiration)) }
        state.record(
            APNsInbox.Arrival(
                environment: .production,
                apnsID: id,
                push: APNsPush(token: token, topic: "com.example.app"),
                request: APNsRequest(
                    method: "POST",
                    path: "/3/device/\(token)",
                    headers: headers,
                    body: Array(body.utf8)
                ),
                connection: 1,
                stream: 1,
                isOnline: isOnline
            ),
            at: RuleBench.now
        )
    }

    private var presentations: [APNsDelivery.Presentation] { state.inbox.deliveries.map(\.presentation) }

    @Test("A replay is counted by its id and by its content")
    mutating func duplicates() {
        let other = "1d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77"
        add()
        add()
        add(id: other)
        add(id: "2d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77", token: "bb")
        #expect(state.counters.duplicateIDs == 1)
        #expect(state.counters.duplicateContents == 2)
        #expect(state.counters.doubledOnDevice == 2)
        #expect(state.inbox.deliveries.map(\.isDuplicateID) == [false, true, false, false])
        #expect(state.inbox.deliveries.map(\.isDuplicateContent) == [false, true, true, false])
    }

    @Test("A replay with a collapse id does not show twice")
    mutating func collapsedReplay() {
        add(collapse: "order-1")
        add(collapse: "order-1")
        #expect(state.counters.duplicateContents == 1)
        #expect(state.counters.doubledOnDevice == 0)
        #expect(state.counters.collapsed == 1)
        #expect(presentations == [.replaced, .shown])
    }

    @Test("A collapse id replaces on its own device only")
    mutating func collapse() {
        add(token: "aa", collapse: "order-1")
        add(token: "bb", collapse: "order-1")
        add(token: "aa", body: #"{"a":1}"#, collapse: "order-2")
        #expect(presentations == [.shown, .shown, .shown])
    }

    @Test("One push is stored for a device that is offline, the newest")
    mutating func offline() {
        add(body: #"{"a":1}"#, isOnline: false)
        add(body: #"{"a":2}"#, isOnline: false)
        add(body: #"{"a":3}"#, expiration: "0", isOnline: false)
        #expect(presentations == [.discarded, .stored, .discarded])
        state.inbox.deliverStored(to: "aa")
        #expect(presentations == [.discarded, .shown, .discarded])
    }

    @Test("The inbox is bounded, and pages go on where the last one ended")
    mutating func paging() {
        for number in 0..<11 { add(body: "\(number)") }
        #expect(state.inbox.deliveries.count <= 8)
        #expect(state.inbox.deliveries.last?.number == 10)
        let oldest = state.inbox.deliveries[0].number
        #expect(state.inbox.page(from: 0, limit: 2).map(\.number) == [oldest, oldest + 1])
        #expect(state.inbox.page(from: 9, limit: 100).map(\.number) == [9, 10])
        #expect(state.inbox.page(from: 11, limit: 100).isEmpty)
        #expect(state.counters.accepted == 11)
    }

    @Test("The credentials of a push are not kept")
    mutating func credentials() {
        add(collapse: "x")
        #expect(state.inbox.deliveries[0].headers.map(\.name) == ["apns-collapse-id"])
    }

    @Test("A bounded set remembers at least its limit")
    func boundedSet() {
        var set = BoundedSet<Int>(limit: 10)
        var isNew = (0..<100).map { set.insert($0) }
        #expect(!isNew.contains(false))
        isNew = (91..<100).map { set.insert($0) }
        #expect(!isNew.contains(true))
        isNew = [set.insert(0)]
        #expect(isNew == [true], "the oldest are forgotten")
    }
}
