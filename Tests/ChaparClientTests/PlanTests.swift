import ChaparClient
import Synchronization
import Testing

/// The promises of a client about a plan of its backends.
@Suite("Plan of a client", .timeLimit(.minutes(1)))
struct PlanTests {
    private static let phone = Recipient.token("phone", service: .iOSAPNs)
    /// A phone that only the second backend reaches.
    private static let other = Recipient.token("elsewhere", service: .iOSAPNs)
    private static let everything = PushAccount { _ in LastBackend() }

    @Test("goes from one backend to the next, by their names, and tells each attempt")
    func order() async throws {
        try await PushClient.run(logger: Logger(label: "test")) { client in
            let first = try client.add(PushAccount { _ in CountingBackend() }, as: "first")
            let last = try client.add(Self.everything, as: "last")
            let attempts = Mutex<[String]>([])
            let all = try client.add(.firstOf("first", "last"), as: "all") { entry in
                attempts.withLock { $0.append(entry.backend) }
            }
            let outcomes = await all.send(PushNotification(body: "b"), to: [Self.phone, Self.other])
            #expect(outcomes.map(\.isAccepted) == [true, true])
            #expect(first.sent.map(\.count) == [2])
            #expect(last.count == 1, "who was reached goes no further")
            #expect(attempts.withLock { Set($0) } == ["first", "last"])
        }
    }

    @Test("is refused for names that are none of the client's, none at all, or there twice")
    func mistakes() async throws {
        try await PushClient.run(logger: Logger(label: "test")) { client in
            try client.add(Self.everything, as: "android")
            let wrong: [(DeliveryPlan, String)] = [
                (.firstOf("andriod"), "did you mean android?"), (.firstOf("ios"), "add it first"),
                (.firstOf("android", "android"), "is there twice"), (DeliveryPlan([]), "name one"),
            ]
            for (plan, words) in wrong {
                let error = #expect(throws: PushError.self) { try client.add(plan, as: "all") }
                #expect(error?.message.contains(words) == true, "\(plan)")
            }
            try client.add(.firstOf("android"), as: "all")
            #expect(throws: HTTPPoolError.self) { try client.add(.firstOf("android"), as: "all") }
        }
    }

    @Test("leaves its backends to the client when it is removed")
    func removal() async throws {
        try await PushClient.run(logger: Logger(label: "test")) { client in
            let last = try client.add(Self.everything, as: "last")
            try client.add(.firstOf("last"), as: "all")
            await client.remove("all")
            #expect(!last.isEnded)
            await client.remove("last")
            #expect(last.isEnded)
        }
    }

    @Test("sends to all its backends at the same time, and retries at each of them")
    func all() async throws {
        try await PushClient.run(logger: Logger(label: "test")) { client in
            let first = try client.add(PushAccount { _ in CountingBackend() }, as: "first")
            let last = try client.add(Self.everything, as: "last")
            let rows: [(DeliveryPlan.Need, [Bool])] = [(.any, [true, true]), (.all, [true, false])]
            for (need, expected) in rows {
                let all = try client.add(.all("first", "last", need: need), as: "all")
                let outcomes = await all.send(PushNotification(body: "b"), to: [Self.phone, Self.other])
                #expect(outcomes.map(\.isAccepted) == expected, "\(need)")
                await client.remove("all")
            }
            #expect(first.sent.map(\.count) == [2, 2])
            #expect(last.count == 4 && !last.isEnded)
        }
    }

    @Test("is the value that a store keeps")
    func stored() {
        let plan = DeliveryPlan.firstOf("ios", "android").movingOn(after: .seconds(10)).onUnknown(.wait)
        #expect(plan == DeliveryPlan(storedForm: "ios>android|wait|patience=10000"))
        let waiting = DeliveryPlan.firstOf("ios").onUnknown(.wait, waiting: .seconds(5))
        #expect(waiting == DeliveryPlan(storedForm: "ios|wait|wait=5000"))
    }
}

/// Takes every message, and says whether it was shut down.
private final class LastBackend: PushBackend {
    let kind: BackendKind = "last"
    let audience = BackendAudience(services: [.iOSAPNs])
    private let state = Mutex((count: 0, isEnded: false))

    var count: Int { state.withLock { $0.count } }
    var isEnded: Bool { state.withLock { $0.isEnded } }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (row, request) in requests.enumerated() {
            state.withLock { $0.count += request.recipients.count }
            report(
                request.recipients.indices.map {
                    DeliveryReport(request: row, recipient: $0, outcome: .accepted(Acceptance()))
                }
            )
        }
    }

    func shutdown(grace: Duration) async { state.withLock { $0.isEnded = true } }
}
