import Foundation
import GRDB
import Logging
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import SimulationDisk
import Synchronization
import Testing

/// Lets one call fail or be the last, and notes all calls.
private final class OneFault: DiskDecider {
    private struct State {
        var calls: [DiskCall] = []
        var generator = SmallGenerator(seed: 1)
        var forgets = false
        var number: Int
        var crash: CrashKind?
        var keeps = false
    }

    private let state: Mutex<State>

    init(_ number: Int, crash: CrashKind?) {
        state = Mutex(State(number: number, crash: crash))
    }

    func forgetNextSync() { state.withLock { $0.forgets = true } }

    /// Everything ends with one of the calls that come next, and the power leaves some of what is not synced then.
    func losePower(inCalls calls: Int) {
        state.withLock {
            $0.number = $0.calls.count + calls
            $0.crash = .power
            $0.keeps = true
        }
    }

    /// Nothing ends any more.
    func heal() { state.withLock { $0.number = 0 } }

    func fate(of change: UnsyncedChange) -> ChangeFate {
        state.withLock {
            guard $0.keeps else { return .dropped }
            return [.kept, .dropped, .garbled($0.generator.next())][Int.random(in: 0..<3, using: &$0.generator)]
        }
    }

    var calls: [DiskCall] { state.withLock { $0.calls } }
    func random() -> UInt64 { state.withLock { $0.generator.next() } }
    func answer(_ call: DiskCall) -> DiskAnswer {
        state.withLock {
            $0.calls.append(call)
            if $0.forgets, call.kind == .sync {
                $0.forgets = false
                return .forget
            }
            guard call.number == $0.number else { return .proceed }
            if let crash = $0.crash { return .crash(crash, written: call.count) }
            return call.kind == .sync ? .forget : .full(written: 0)
        }
    }
}

/// A disk that fails as its decider says, in a folder of its own, and stores on it.
private struct Rig {
    let decider: OneFault
    let disk: SimulatedDisk
    let time = ManualTime()
    let options: SQLiteStoreOptions
    private let folder: URL

    init(_ decider: OneFault) throws {
        self.decider = decider
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("chapar-disk-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        options = SQLiteStoreOptions(path: folder.path + "/store.db")
        disk = SimulatedDisk(folder: folder.path, decider: decider)
        disk.register()
    }

    /// Opens the store, with other options where given.
    func open(_ options: SQLiteStoreOptions? = nil) throws -> SQLiteStore {
        try SQLiteStore(
            options ?? self.options,
            time: time,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    func remove() {
        disk.unregister()
        try? FileManager.default.removeItem(at: folder)
    }
}

@Suite("A store whose disk fails while it opens", .serialized, .timeLimit(.minutes(3)))
struct OpeningFaultTests {
    /// Opens a store, lets it accept some notifications, cuts the power, opens it again and looks for them.
    ///
    /// The call with the number fails, or everything ends with it; returns all calls, and how many accepted
    /// notifications are missing.
    private func run(_ number: Int, crash: CrashKind? = nil) async throws -> (calls: [DiskCall], missing: Int) {
        let rig = try Rig(OneFault(number, crash: crash))
        defer { rig.remove() }
        let (decider, disk, time) = (rig.decider, rig.disk, rig.time)
        var accepted: [NotificationID] = []
        // As a supervisor does, once more on the same machine, whose page cache may have forgotten what a sync failed
        // to write.
        let store =
            (try? rig.open())
            ?? (try? rig.open())
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
        let next = try rig.open()
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

    /// Lets a store accept something and then a sync forget, ends its process, and cuts the power while the next store
    /// opens.
    ///
    /// Gives what is wrong with the file after that, and whether the power was cut before the store had opened.
    private func runForgotten(powerIn calls: Int) async throws -> (trouble: [String], isCut: Bool) {
        let rig = try Rig(OneFault(0, crash: nil))
        defer { rig.remove() }
        var options = rig.options
        let (decider, disk, time) = (rig.decider, rig.disk, rig.time)
        options.pageBytes = 1_024
        let first = try rig.open(options)
        var accepted: [NotificationID] = []
        for _ in 0..<3 {
            let new = NewNotification.sample(first.makeID(recipients: 20), time, recipients: 20, content: 3_000)
            _ = try await first.enqueue(EnqueueBatch([new]))
            accepted.append(new.id)
        }
        decider.forgetNextSync()
        let refused = NewNotification.sample(first.makeID(recipients: 40), time, recipients: 40, content: 3_000)
        await #expect(throws: StoreError.self) { try await first.enqueue(EnqueueBatch([refused])) }
        disk.crash(.process)
        await first.close()
        disk.restart()
        decider.losePower(inCalls: calls)
        options.checkpointPages = 1  // Its first commit copies the log.
        let second = try? rig.open(options)
        let isCut = disk.isDown
        decider.heal()
        disk.crash(.power)
        await second?.close()
        disk.restart()
        var trouble: [String] = []
        do {
            let third = try rig.open(options)
            for id in accepted where try await third.deliveries(of: id, after: nil, limit: 100).count != 20 {
                trouble.append("what was accepted is not there")
            }
            await third.close()
            let file = try DatabaseQueue(path: options.path)
            trouble += try await file.read { try String.fetchAll($0, sql: "PRAGMA integrity_check") }.filter {
                $0 != "ok"
            }
            try file.close()
        } catch {
            trouble.append("\(error)")
        }
        return (trouble, isCut)
    }

    @Test("Pages forgotten by an earlier process's sync and a power loss at the next opening damage nothing")
    func forgottenAndCut() async throws {
        var cut = 0
        let moments = Array(stride(from: 1, through: 600, by: 4))
        for calls in moments {
            let (trouble, isCut) = try await runForgotten(powerIn: calls)
            #expect(trouble == [], "the power is lost at call \(calls)")
            if isCut { cut += 1 }
        }
        #expect(cut > 10 && cut < moments.count, "the first call of an opening is among them, and the last: \(cut)")
    }

    @Test("Pages forgotten by an earlier process's sync leave no gap in the log before new commits")
    func forgotten() async throws {
        let rig = try Rig(OneFault(0, crash: nil))
        defer { rig.remove() }
        let (decider, disk, time) = (rig.decider, rig.disk, rig.time)
        let first = try rig.open()
        decider.forgetNextSync()
        let refused = NewNotification.sample(first.makeID(recipients: 1), time, content: 20)
        await #expect(throws: StoreError.self) { try await first.enqueue(EnqueueBatch([refused])) }
        disk.crash(.process)
        await first.close()
        disk.restart()
        // The log is whole as far as reads see, so that the refused notification is there after all; on the disk it is
        // not.
        let second = try rig.open()
        let accepted = NewNotification.sample(second.makeID(recipients: 1), time, content: 20)
        _ = try await second.enqueue(EnqueueBatch([accepted]))
        disk.crash(.power)
        await second.close()
        disk.restart()
        let third = try rig.open()
        #expect(try await third.deliveries(of: accepted.id, after: nil, limit: 1).count == 1)
        await third.close()
    }
}
