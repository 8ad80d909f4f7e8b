import Foundation
import Logging
import PushCore
import PushQueue
import PushStoreSQLite
import PushTesting
import SimulationDisk
import Synchronization
import Testing

/// Lets one call fail or be the last, and notes all calls.
private final class OneFault: DiskDecider {
    private let state = Mutex((calls: [DiskCall](), generator: SmallGenerator(seed: 1), forgets: false))
    private let number: Int
    private let crash: CrashKind?

    init(_ number: Int, crash: CrashKind?) {
        self.number = number
        self.crash = crash
    }

    func forgetNextSync() { state.withLock { $0.forgets = true } }
    var calls: [DiskCall] { state.withLock { $0.calls } }
    func random() -> UInt64 { state.withLock { $0.generator.next() } }
    func answer(_ call: DiskCall) -> DiskAnswer {
        state.withLock {
            $0.calls.append(call)
            if $0.forgets, call.kind == .sync {
                $0.forgets = false
                return .forget
            }
            guard call.number == number else { return .proceed }
            if let crash { return .crash(crash, written: call.count) }
            return call.kind == .sync ? .forget : .full(written: 0)
        }
    }
}

@Suite("A store whose disk fails while it opens", .serialized, .timeLimit(.minutes(1)))
struct OpeningFaultTests {
    /// Opens a store, lets it accept some notifications, cuts the power, opens it again and looks for them.
    ///
    /// The call with the number fails, or everything ends with it; returns all calls, and how many accepted notifications
    /// are missing.
    private func run(_ number: Int, crash: CrashKind? = nil) async throws -> (calls: [DiskCall], missing: Int) {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-disk-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let decider = OneFault(number, crash: crash)
        let disk = SimulatedDisk(folder: folder.path, decider: decider)
        disk.register()
        defer { disk.unregister() }
        let time = ManualTime()
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let options = SQLiteStoreOptions(path: folder.path + "/store.db")
        var accepted: [NotificationID] = []
        // As a supervisor does, once more on the same machine, whose page cache may have forgotten what a sync failed to write.
        let store =
            (try? SQLiteStore(options, time: time, logger: logger))
            ?? (try? SQLiteStore(options, time: time, logger: logger))
        if let store {
            for _ in 0..<2 {
                let new = NewNotification.sample(store.makeID(recipients: 1), time, content: 20)
                if (try? await store.enqueue(EnqueueBatch([new]))) != nil { accepted.append(new.id) }
            }
        }
        let calls = decider.calls
        disk.crash(.power)
        await store?.close()
        disk.restart()
        let next = try SQLiteStore(options, time: time, logger: logger)
        var missing = 0
        for id in accepted where try await next.deliveries(of: id, after: nil, limit: 1).isEmpty { missing += 1 }
        await next.close()
        return (calls, missing)
    }

    @Test("It does not open, or it loses nothing that it accepts")
    func opening() async throws {
        let all = try await run(0)
        #expect(all.missing == 0)
        // The first calls turn the new file into one with a log; after that it is the syncs that count.
        let failing = all.calls.filter { $0.kind == .sync || $0.number <= 40 }
        #expect(failing.count > 40 && failing.count < 80)
        for call in failing {
            let missing = try await run(call.number).missing
            #expect(missing == 0, "\(missing) accepted notifications are missing after a fault of \(call)")
        }
    }
    @Test("One whose first opening was cut short opens", arguments: CrashKind.allCases)
    func cutShort(crash: CrashKind) async throws {
        for number in 1...30 { _ = try await run(number, crash: crash) }
    }
    @Test("What a sync forgot in an earlier process is no gap in the log before what this one accepts")
    func forgotten() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-disk-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let decider = OneFault(0, crash: nil)
        let disk = SimulatedDisk(folder: folder.path, decider: decider)
        disk.register()
        defer { disk.unregister() }
        let time = ManualTime()
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let options = SQLiteStoreOptions(path: folder.path + "/store.db")
        let first = try SQLiteStore(options, time: time, logger: logger)
        decider.forgetNextSync()
        let refused = NewNotification.sample(first.makeID(recipients: 1), time, content: 20)
        await #expect(throws: StoreError.self) { try await first.enqueue(EnqueueBatch([refused])) }
        disk.crash(.process)
        await first.close()
        disk.restart()
        // The log is whole as far as reads see, so that the refused notification is there after all; on the disk it is not.
        let second = try SQLiteStore(options, time: time, logger: logger)
        let accepted = NewNotification.sample(second.makeID(recipients: 1), time, content: 20)
        _ = try await second.enqueue(EnqueueBatch([accepted]))
        disk.crash(.power)
        await second.close()
        disk.restart()
        let third = try SQLiteStore(options, time: time, logger: logger)
        #expect(try await third.deliveries(of: accepted.id, after: nil, limit: 1).count == 1)
        await third.close()
    }
}
