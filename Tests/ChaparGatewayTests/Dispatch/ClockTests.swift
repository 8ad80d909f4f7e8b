import Foundation
import Logging
import ChaparCore
import ChaparQueue
import ChaparComposition
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// The machine's clock is set while the gateway runs: nothing that is decided by spans of time changes.
@Suite("A jump of the wall clock", .timeLimit(.minutes(2)))
struct ClockTests {
    private static let jumps: [TimeInterval] = [-86400, -1, 1, 86400]
    private static let accepted = DeliveryOutcome.accepted(Acceptance(platformID: "p", status: 200))

    private static func refused(_ advice: Refusal.Advice) -> DeliveryOutcome {
        .refused(Refusal(.platform, reason: "Busy", status: 429, advice: advice))
    }

    private static var queue: GatewayConfiguration.Queue {
        var queue = GatewayConfiguration.Queue()
        queue.firstRetry = .milliseconds(1)
        return queue
    }

    private static func set(_ rig: DispatcherRig, _ jump: TimeInterval) {
        rig.time.set(rig.time.now.addingTimeInterval(jump))
    }

    @Test("does not move a retry", arguments: jumps)
    func retry(jump: TimeInterval) async throws {
        let backend = ScriptedBackend { _, attempt in
            attempt == 1 ? Self.refused(.retry(after: .seconds(30))) : Self.accepted
        }
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            let id = try await rig.accept()
            try await rig.expect(id, [.retrying: 1])
            Self.set(rig, jump)
            rig.time.advance(by: .seconds(29))
            let other = try await rig.accept(["other"])
            try await rig.until { try await rig.store.notification(other)?.counts[.queued] == nil }
            #expect(backend.attempts(.topic("t")).count == 1)
            rig.time.advance(by: .seconds(2))
            try await rig.until { try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1] }
        }
    }

    @Test("neither ends nor lengthens a pause, whose end is shown as a time of day", arguments: jumps)
    func pause(jump: TimeInterval) async throws {
        let backend = ScriptedBackend { addressee, attempt in
            addressee.recipient == .topic("first") && attempt == 1
                ? Self.refused(.slowBackend(after: .seconds(60))) : Self.accepted
        }
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            try await rig.accept(["first"])
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            Self.set(rig, jump)
            let shown = try #require(rig.dispatcher.workers.first?.pausedUntil)
            #expect(abs(shown.timeIntervalSince(rig.time.now) - 60) < 0.01)
            let id = try await rig.accept(["second"])
            rig.time.advance(by: .seconds(59))
            #expect(rig.dispatcher.workers.first?.pausedUntil != nil)
            #expect(backend.attempts(.topic("second")).isEmpty)
            try await rig.until {
                rig.time.advance(by: .milliseconds(500))
                return try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1]
            }
        }
    }

    @Test("ends no message's time to live", arguments: jumps)
    func timeToLive(jump: TimeInterval) async throws {
        let backend = ScriptedBackend { _, attempt in
            attempt == 1 ? Self.refused(.slowBackend(after: .seconds(90))) : Self.accepted
        }
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            try await rig.accept(["first"])
            try await rig.until { rig.dispatcher.workers.first?.pausedUntil != nil }
            let long = try await rig.accept(["long"], lives: .seconds(3600))
            let short = try await rig.accept(["short"], lives: .seconds(80))
            Self.set(rig, jump)
            let start = rig.time.steady
            while try await rig.store.notification(short)?.counts == [.queued: 1] {
                rig.time.advance(by: .milliseconds(500))
                try #require(rig.time.steady.timeIntervalSince(start) < 3600)
                await Task.yield()
            }
            #expect(rig.time.steady.timeIntervalSince(start) >= 80)
            try await rig.expect(short, [.expired: 1])
            try await rig.until {
                rig.time.advance(by: .milliseconds(500))
                return try await rig.store.notification(long)?.counts == [.acceptedByPlatform: 1]
            }
        }
    }

    @Test("keeps an open breaker open for its time", arguments: jumps)
    func breaker(jump: TimeInterval) async throws {
        let backend = ScriptedBackend { addressee, _ in
            addressee.recipient == .topic("good")
                ? Self.accepted : .refused(Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil)))
        }
        try await DispatcherRig.run(["a": backend], queue: Self.queue) { rig in
            try await rig.accept((0..<20).map { "bad\($0)" }, lives: .seconds(20))
            try await rig.until { rig.dispatcher.workers.first?.breaker.status == .open }
            Self.set(rig, jump)
            let id = try await rig.accept(["good"])
            rig.time.advance(by: .seconds(29))
            #expect(rig.dispatcher.workers.first?.breaker.status == .open)
            #expect(backend.attempts(.topic("good")).isEmpty)
            // In steps: a wait that begins while the time is moved counts from where it is then.
            try await rig.until {
                rig.time.advance(by: .milliseconds(500))
                return try await rig.store.notification(id)?.counts == [.acceptedByPlatform: 1]
            }
        }
    }

    @Test("lets a plan bear trouble for its fallback_after, no shorter and no longer", arguments: jumps)
    func fallbackAfter(jump: TimeInterval) async throws {
        let first = ScriptedBackend { _, _ in Self.refused(.retry(after: .seconds(20))) }
        let second = ScriptedBackend { _, _ in Self.accepted }
        let plan = DeliveryPlan(["a", "b"], fallbackAfter: .seconds(60))
        try await DispatcherRig.run(["a": first, "b": second], queue: Self.queue) { rig in
            let id = try await rig.accept(plan: plan)
            try await rig.until { try await rig.attemptLog(id).count == 1 }
            Self.set(rig, jump)
            for attempt in 2...3 {
                rig.time.advance(by: .milliseconds(20_100))
                // The third could be followed by a fourth after 60.3 s only: that is beyond fallback_after.
                try await rig.until { try await rig.attemptLog(id).count >= attempt }
            }
            try await rig.expect(id, [.acceptedByPlatform: 1])
            #expect(first.attemptCount == 3)
            #expect(second.attemptCount == 1)
        }
    }

    @Test("is logged once, with its span")
    func logged() async throws {
        let log = RecordedLog()
        let time = ManualTime()
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-clock-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "test.db").path
        let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time, logger: log.logger)
        let dispatcher = Dispatcher(store: store, time: store.time, logger: log.logger) { _ in
            PushNotification(title: "t")
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await dispatcher.run(DispatcherRig.snapshot(["a": ScriptedBackend { _, _ in nil }])) }
            while time.sleeping == 0 { await Task.yield() }
            time.set(time.now.addingTimeInterval(-3600))
            for _ in 0..<3 {
                time.advance(by: .seconds(1))
                let seen = log.lines.count
                while time.sleeping == 0, log.lines.count == seen { await Task.yield() }
            }
            // With pauses: clocks that move all the time cannot be read together.
            try await eventually("the jump is logged", every: .milliseconds(1)) {
                if log.lines.contains(where: { $0.contains("clock was set") }) { return true }
                time.advance(by: .seconds(1))
                return false
            }
            dispatcher.stop()
            try await group.waitForAll()
        }
        await store.close()
        let told = log.lines.filter { $0.contains("clock was set") }
        #expect(told.count == 1, "\(told)")
        #expect(told.first?.hasPrefix("notice") == true)
        #expect(told.first?.contains("-3600") == true)
    }

    @Test("moves shown times with it; drift moves none until it is half a second")
    func shown() {
        let time = ManualTime()
        let clock = WallClock(time)
        let steady = time.steady.addingTimeInterval(100)
        #expect(clock.wall(steady) == steady)
        time.set(time.now.addingTimeInterval(0.1))
        #expect(clock.wall(steady) == steady)
        time.set(time.now.addingTimeInterval(-86400))
        #expect(clock.wall(steady) == steady.addingTimeInterval(0.1 - 86400))
        #expect(clock.reading.steady(clock.wall(steady)) == steady)
    }
}
