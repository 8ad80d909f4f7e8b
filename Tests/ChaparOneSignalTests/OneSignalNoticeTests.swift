import Foundation
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparOneSignal
@testable import ChaparOneSignalDevices

/// The notices of the backends beside outcomes, and the comparison of counts after a send.
@Suite("OneSignal: notices", .timeLimit(.minutes(5)))
struct OneSignalNoticeTests {
    @Test("A refused account is announced once, until something works again")
    func account() async throws {
        try await Harness.run { harness in
            let ids = harness.simulator.addPlayers(2)
            harness.simulator.rules.apiKey = nil
            for _ in 0..<3 { _ = await harness.send(ids) }
            #expect(harness.notices.all.map(\.name) == ["account"])
            #expect(harness.notices.all.first?.level == .error)
            #expect(!"\(harness.notices.all)".contains("os_v2_app"))
            harness.simulator.rules.apiKey = "os_v2_app_sandbox"
            _ = await harness.send(ids)
            harness.simulator.rules.apiKey = nil
            _ = await harness.send(ids)
            #expect(harness.notices.all.map(\.name) == ["account", "account"])
        }
    }

    @Test("A platform that refuses nearly all recipients is announced, and no device is left out")
    func massRefusal() async throws {
        try await Harness.run { harness in
            let devices = try #require(harness.oneSignal.devices)
            for number in 0..<4 { _ = try await devices.register(.sample("d-\(number)", token: token(number))) }
            harness.simulator.rules.isWrongApp = true
            _ = await harness.oneSignal.send(.sample, to: (0..<4).map { .device("d-\($0)") })
            #expect(harness.notices.all.map(\.name) == ["mass_refusal"])
            #expect(try await harness.oneSignal.players.load(device: "d-0")?.subscription == .unknown)
        }
    }

    @Test("The guard of the app's message limit is announced")
    func share() async throws {
        try await Harness.run(adjust: { $0.maximumMessagesPer15Minutes = 1 }) { harness in
            _ = await harness.send(harness.simulator.addPlayers(2))
            #expect(harness.notices.all.map(\.name) == ["app_message_limit"])
            #expect(harness.simulator.counters.createRequests == 0)
        }
    }

    @Test("A registration that came while a message was on its way wins over the message's answer")
    func newerRegistration() async throws {
        try await Harness.run { harness in
            let devices = try #require(harness.oneSignal.devices)
            for number in 0..<3 { _ = try await devices.register(.sample("d-\(number)", token: token(number))) }
            var record = try #require(try await harness.oneSignal.players.load(device: "d-1"))
            harness.simulator.setSubscribed(false, record.platformID)
            record.since = harness.time.now.addingTimeInterval(60)
            try await harness.oneSignal.players.save(record)
            #expect(
                await harness.oneSignal.send(.sample, to: (0..<3).map { .device("d-\($0)") })[1].word
                    == "token unsubscribed"
            )
            #expect(try await harness.oneSignal.players.load(device: "d-1")?.subscription == .unknown)
        }
    }

    @Test("A user one of whose devices is not subscribed is sent to, and that is announced without a name")
    func unsubscribedDevice() async throws {
        try await Harness.run { harness in
            let devices = try #require(harness.oneSignal.devices)
            var ids: [String] = []
            for number in 0..<3 {
                let user = number < 2 ? "ali" : "sara"
                ids.append(try await devices.register(.sample("d-\(number)", user: user, token: token(number))))
            }
            harness.simulator.setSubscribed(false, ids[1])
            let outcomes = await harness.oneSignal.send(.sample, to: [.user("ali"), .user("sara")])
            #expect(outcomes.allSatisfy { $0.acceptance != nil })
            #expect(harness.notices.all.map(\.name) == ["unsubscribed_devices"])
            #expect(harness.notices.all.first?.message.hasPrefix("1 users") == true)
            #expect(!"\(harness.notices.all)".contains("ali"))
            #expect(ids.map { harness.simulator.player($0)?.received.count } == [1, 0, 1])
        }
    }

    // MARK: Counts

    @Test("Ids that the app does not know show in the counts, and the shortfall is announced")
    func shortfall() async throws {
        try await Harness.run(adjust: { $0.reconcilesCounts = true }) { harness in
            let ids = harness.simulator.addPlayers(5)
            harness.simulator.setSubscribed(false, ids[0])
            let outcomes = await harness.send(ids + (0..<3).map { _ in UUID().uuidString })
            try await eventually("a notice comes", within: .seconds(20)) { !harness.notices.all.isEmpty }
            let notice = try #require(harness.notices.all.first)
            #expect(notice.name == "shortfall" && notice.detail["unknown"] == 3 && notice.detail["named"] == 8)
            #expect(notice.detail["message"]?.stringValue == outcomes[1].acceptance?.platformID)
        }
    }

    @Test("Counts of any size are compared with what was sent", arguments: [Int64.max, .min, -1])
    func counts(number: Int64) throws {
        let names = ["successful", "failed", "errored", "converted", "received", "remaining"]
        var json: JSONObject = ["id": "m", "completed_at": 1]
        for name in names { json[name] = .integer(number) }
        let report = try #require(OneSignalMessages.Report(json, now: Date()))
        let shortfall = 8 - report.successful - report.failed - report.errored
        #expect(number == .max ? shortfall < 0 : shortfall == 8)
    }

    @Test("When many messages wait, the newest are asked for in one request, within the quota")
    func list() async throws {
        try await Harness.run(OneSignalSimulator.Rules(), adjust: { $0.reconcilesCounts = true }) { harness in
            let ids = harness.simulator.addPlayers(1)
            harness.time.holdsSleepers.withLock { $0 = true }
            for _ in 0..<30 { _ = await harness.send(ids) }
            harness.time.holdsSleepers.withLock { $0 = false }
            try await eventually("a look comes", within: .seconds(20)) { harness.simulator.counters.views > 0 }
            await harness.oneSignal.shutdown(grace: .zero)
            #expect(harness.simulator.counters.views == 1, "one list for thirty messages")
            #expect(harness.notices.all.isEmpty, "nothing is missing")
        }
    }

    @Test("A backend that ends looks no more")
    func ends() async throws {
        try await Harness.run(adjust: { $0.reconcilesCounts = true }) { harness in
            harness.time.holdsSleepers.withLock { $0 = true }
            _ = await harness.send(harness.simulator.addPlayers(1))
            await harness.oneSignal.shutdown(grace: .zero)
            #expect(harness.simulator.counters.views == 0)
        }
    }
}
