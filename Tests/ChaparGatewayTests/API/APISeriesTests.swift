import ChaparCore
import ChaparQueue
import ChaparTesting
import Foundation
import HTTPTypes
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery

@Suite("Counts over time", .timeLimit(.minutes(1)))
struct APISeriesTests {
    /// The time at which harnesses begin, in minutes since 1970: the beginning of an hour.
    private static let start: Int64 = 30_000_000

    /// Runs a recorder beside `body`, and ends it as a shutdown does.
    private static func record(
        _ harness: APIHarness,
        metrics: GatewayMetrics? = nil,
        _ body: () async throws -> Void
    ) async throws {
        let recorder = try #require(
            SeriesRecorder(
                store: harness.store,
                metrics: metrics ?? harness.metrics,
                time: harness.time,
                logger: quiet
            )
        )
        let others = harness.time.sleeping
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await recorder.work() }
            while harness.time.sleeping == others { await Task.yield() }
            let result: Result<Void, any Error>
            do {
                try await body()
                result = .success(())
            } catch {
                result = .failure(error)
            }
            recorder.stop()
            try result.get()
        }
    }

    /// Moves the clock on by minutes, and waits until each is stored.
    private static func pass(_ minutes: Int64, _ harness: APIHarness, _ metrics: GatewayMetrics? = nil) async {
        let series = (metrics ?? harness.metrics).series
        for _ in 0..<minutes {
            while harness.time.sleeping == 0 { await Task.yield() }
            harness.time.advance(by: .seconds(60))
            let minute = Int64(harness.time.now.timeIntervalSince1970 / 60)
            while series.storedMinutes != minute { await Task.yield() }
        }
    }

    private static func accepted(_ count: Int, _ ended: [DeliveryState: Int] = [:]) -> StoreChange {
        var change = StoreChange()
        (change.accepted, change.ended) = (count, ended)
        return change
    }

    private static func attempt(_ metrics: GatewayMetrics, _ backend: String, _ outcome: String, _ count: Int) {
        metrics.attempted(
            backend: backend,
            app: .default,
            kind: "apns",
            outcome: outcome,
            reason: outcome == "accepted" ? "" : "because",
            count: count
        )
    }

    private static func numbers(_ answer: JSONValue, _ name: String) -> [Int64?] {
        (answer["series"]?[name]?.arrayValue ?? []).map(\.integerValue)
    }

    private static func running(_ harness: APIHarness, _ query: String = "") async throws -> JSONValue? {
        try await harness.send(.get, "/v1/series" + query).json["running"]
    }

    @Test("say apart what came after the last stored minute, of the gateway and of a backend")
    func running() async throws {
        let harness = APIHarness()
        try await Self.record(harness) {
            harness.metrics.ledger.apply(Self.accepted(9, [.acceptedByPlatform: 5, .failed: 2]))
            Self.attempt(harness.metrics, "ios", "accepted", 5)
            #expect(
                try await Self.running(harness)
                    == [
                        "accepted": 9, "handed_over": 5, "arrived": 0, "failed": 2, "expired": 0, "unknown": 0,
                        "retried": 0,
                    ]
            )
            let ios = try await Self.running(harness, "?backend=ios")
            #expect(ios?["handed_over"] == 5)
            #expect(ios?["accepted"] == nil, "a delivery is accepted for a plan")
            await Self.pass(1, harness)
            #expect(try await Self.running(harness)?["accepted"] == 0, "they are in a step now")
            harness.metrics.ledger.apply(Self.accepted(1))
            #expect(try await Self.running(harness)?["accepted"] == 1)
        }
    }

    @Test("are those of each minute, of the gateway and of a backend; idle minutes are 0, others null and a gap")
    func minutes() async throws {
        let harness = APIHarness()
        try await Self.record(harness) {
            harness.metrics.ledger.apply(Self.accepted(9, [.acceptedByPlatform: 5, .delivered: 1, .failed: 2]))
            harness.metrics.ledger.apply(Self.accepted(0, [.expired: 3, .unknown: 4, .cancelled: 7]))
            Self.attempt(harness.metrics, "ios", "accepted", 5)
            Self.attempt(harness.metrics, "ios", "platform", 3)
            harness.metrics.retried(backend: "ios", reason: "because")
            harness.metrics.expired(backend: "android", count: 2)
            await Self.pass(1, harness)
            harness.metrics.ledger.apply(Self.accepted(1))
            await Self.pass(2, harness)
        }
        let answer = try await harness.send(.get, "/v1/series").json
        #expect(answer["running"]?["accepted"] == 0)
        #expect(answer["step"] == 60)
        #expect(answer["from"] == "2027-01-15T07:03:00.000Z")
        #expect(answer["until"] == "2027-01-15T08:03:00.000Z")
        let whole: [(String, [Int64?])] = [
            ("accepted", [9, 1, 0]), ("handed_over", [6, 0, 0]), ("arrived", [0, 0, 0]), ("failed", [2, 0, 0]),
            ("expired", [3, 0, 0]), ("unknown", [4, 0, 0]), ("retried", [1, 0, 0]), ("oldest", [0, 0, 0]),
        ]
        for (name, last) in whole {
            let values = Self.numbers(answer, name)
            #expect(values.count == 60)
            #expect(Array(values.suffix(3)) == last, "\(name)")
            #expect(values.dropLast(3).allSatisfy { $0 == nil }, "\(name)")
        }
        #expect(answer["gaps"] == [["from": "2027-01-15T07:03:00.000Z", "until": "2027-01-15T08:00:00.000Z"]])
        let ios = try await harness.send(.get, "/v1/series?range=1h&backend=ios").json
        #expect(Array(Self.numbers(ios, "handed_over").suffix(3)) == [5, 0, 0])
        #expect(Array(Self.numbers(ios, "failed").suffix(3)) == [2, 0, 0], "one of three was tried again")
        #expect(Self.numbers(ios, "accepted").allSatisfy { $0 == nil }, "a delivery is accepted for a plan")
        let android = try await harness.send(.get, "/v1/series?backend=android").json
        #expect(Array(Self.numbers(android, "expired").suffix(3)) == [2, 0, 0])
    }

    @Test("have the age of the delivery that is overdue the longest, and the arrivals that were reported")
    func agesAndArrivals() async throws {
        let harness = APIHarness()
        try await Self.record(harness) {
            let posted = try await harness.post(APIHarness.sample(#","backend":"ios""#))
            #expect(posted.status == 202)
            let address = ReceiptAddress(delivery: 1)
            func entry(_ state: DeliveryState?) -> ReceiptEntry {
                ReceiptEntry(address, state: state, logEntry: []) { _ in [] }
            }
            func recorded(_ state: DeliveryState) -> ReceivedDelivery {
                ReceivedDelivery(
                    id: 1,
                    notificationID: NotificationID(rawValue: 1),
                    recipient: .user("ali"),
                    state: state,
                    backend: "ios"
                )
            }
            harness.state.series.received(
                [entry(.delivered), entry(.delivered), entry(.opened), entry(nil), entry(.delivered)],
                [
                    .recorded(recorded(.delivered)), .repeated(recorded(.delivered)), .recorded(recorded(.opened)),
                    .recorded(recorded(.delivered)), .unknown,
                ]
            )
            await Self.pass(2, harness)
        }
        for backend in ["", "?backend=ios"] {
            let answer = try await harness.send(.get, "/v1/series\(backend)").json
            #expect(Array(Self.numbers(answer, "oldest").suffix(2)) == [60, 120], "\(backend)")
            #expect(Array(Self.numbers(answer, "arrived").suffix(2)) == [1, 0], "\(backend)")
        }
    }

    @Test("survive a restart, whose minutes are a gap, and several gateways add up")
    func restart() async throws {
        let harness = APIHarness()
        try await Self.record(harness) {
            harness.metrics.ledger.apply(Self.accepted(4))
            await Self.pass(1, harness)
            // The part of a minute that a shutdown ends is written.
            harness.time.advance(by: .seconds(20))
            harness.metrics.ledger.apply(Self.accepted(2))
        }
        harness.time.advance(by: .seconds(100))
        let second = GatewayMetrics()
        try await Self.record(harness) {
            try await Self.record(harness, metrics: second) {
                harness.metrics.ledger.apply(Self.accepted(10))
                second.ledger.apply(Self.accepted(20))
                await Self.pass(1, harness)
                while second.series.storedMinutes == nil { await Task.yield() }
            }
        }
        let answer = try await harness.send(.get, "/v1/series").json
        #expect(Array(Self.numbers(answer, "accepted").suffix(5)) == [nil, 4, 2, nil, 30])
        let gaps = answer["gaps"]?.arrayValue ?? []
        #expect(gaps.count == 2)
        #expect(gaps.last == ["from": "2027-01-15T08:02:00.000Z", "until": "2027-01-15T08:03:00.000Z"])
    }

    @Test("are steps of five minutes for a day and of an hour for a week; old minutes become hours")
    func ranges() async throws {
        let harness = APIHarness()
        let store = try #require(harness.store.abilities.series)
        let hour = Self.start / 60
        func row(_ hour: Int64, _ accepted: [Int: Int64]) -> SeriesRow {
            var block = SeriesBlock(.minutes)
            for (slot, count) in accepted {
                var counts = SeriesCounts()
                (counts.accepted, counts.oldest) = (count, count)
                block.add(counts, at: slot)
            }
            return SeriesRow(.minutes, start: hour, backend: "", run: 77, block)
        }
        try await store.saveSeries([
            row(hour - 1, [50: 1, 54: 2, 55: 3, 59: 4]), row(hour - 24, [9: 5]), row(hour - 49, [0: 6, 1: 7]),
            row(hour - 168, [1: 8]), row(hour - 24 * 92, [0: 9]),
        ])
        try await Self.record(harness) { await Self.pass(1, harness) }
        let day = try await harness.send(.get, "/v1/series?range=24h").json
        #expect(day["step"] == 300)
        let steps = Self.numbers(day, "accepted")
        #expect(steps.count == 288)
        #expect(Array(steps.suffix(4)) == [nil, 3, 7, 0])
        #expect(Array(Self.numbers(day, "oldest").suffix(4)) == [nil, 2, 4, 0])
        #expect(steps[0] == 5, "08:05 of the day before")
        let week = try await harness.send(.get, "/v1/series?range=7d").json
        #expect(week["step"] == 3_600)
        let hours = Self.numbers(week, "accepted")
        #expect(hours.count == 168)
        #expect(hours[167] == 0)
        #expect(hours[166] == 10)
        #expect(hours[167 - 24] == 5)
        #expect(hours[167 - 49] == 13)
        #expect(hours[0] == nil, "the hour that began 168 hours ago is outside")
        let kept = try await store.series(SeriesLook(of: [""], hours: 0..<hour, days: 0..<hour))
        #expect(Set(kept.filter { $0.scale == .minutes }.map(\.start)) == [hour - 1, hour - 24], "48 hours")
        #expect(kept.filter { $0.scale == .hours }.map { $0.block.sum?.accepted ?? 0 }.sorted() == [8, 13], "90 days")
    }

    @Test("of a limited key are those of its backends")
    func limited() async throws {
        let harness = APIHarness(
            keys: [
                APIHarness.key("all", [.read]), APIHarness.key("own", [.read], backends: ["ios"]),
                APIHarness.key("sender", [.send]),
            ]
        )
        try await Self.record(harness) {
            harness.metrics.ledger.apply(Self.accepted(50, [.acceptedByPlatform: 40]))
            Self.attempt(harness.metrics, "ios", "accepted", 15)
            Self.attempt(harness.metrics, "android", "accepted", 25)
            await Self.pass(1, harness)
        }
        func get(_ path: String, _ key: String) async throws -> APIHarness.Reply {
            try await harness.send(.get, path, headers: APIHarness.bearer(key))
        }
        let whole = try await get("/v1/series", "all").json
        #expect(Self.numbers(whole, "handed_over").last == 40)
        let own = try await get("/v1/series", "own").json
        #expect(Self.numbers(own, "handed_over").last == 15)
        #expect(Self.numbers(own, "accepted").allSatisfy { $0 == nil })
        #expect(try await get("/v1/series?backend=ios", "own").status == 200)
        #expect(try await get("/v1/series?backend=android", "own").status == 404)
        #expect(try await get("/v1/series?backend=none", "all").status == 404)
        #expect(try await get("/v1/series", "sender").status == 403)
    }

    @Test("are refused for another range or an unknown parameter", arguments: ["range=2h", "range=", "step=60"])
    func wrong(query: String) async throws {
        let reply = try await APIHarness().send(.get, "/v1/series?\(query)")
        #expect(reply.status == 400)
        #expect(reply.code == "invalid_parameter")
    }

    @Test("of a refused attempt are not counted while another attempt or backend follows")
    func refusals() {
        let metrics = GatewayMetrics()
        Self.attempt(metrics, "ios", "platform", 6)
        Self.attempt(metrics, "ios", "unknown", 2)
        for _ in 0..<4 { metrics.retried(backend: "ios", reason: "because") }
        metrics.fellBack(from: "ios", to: "android", reason: "because")
        // A backend that is skipped had no attempt.
        for _ in 0..<9 { metrics.fellBack(from: "ios", to: "android", reason: "no_token") }
        let ios = metrics.seriesTotals()["ios"]
        #expect((ios?.failed ?? 0) + (ios?.unknown ?? 0) == 3)
        #expect(ios?.retried == 4)
        #expect(metrics.seriesTotals()["android"] == nil)
    }

    @Test("are counted into the minute in which the clock stood before it was set back")
    func clock() async throws {
        let harness = APIHarness()
        try await Self.record(harness) {
            harness.metrics.ledger.apply(Self.accepted(3))
            await Self.pass(2, harness)
            harness.time.set(harness.time.now - 120)
            harness.metrics.ledger.apply(Self.accepted(5))
            await Self.pass(4, harness)
        }
        let answer = try await harness.send(.get, "/v1/series").json
        #expect(Self.numbers(answer, "accepted").compactMap { $0 }.reduce(0, +) == 8, "nothing is lost")
    }
}
