import GRDBSQLite
import Synchronization
import Testing

@testable import SimulationDisk

/// Gives the answers that a test prepares.
private final class PreparedDecider: DiskDecider {
    struct Answers: Sendable {
        var answers: [Int: DiskAnswer] = [:]
        var fates: [ChangeFate] = []
        var keptEntries = 0
        var calls: [DiskCall] = []
    }

    let state = Mutex(Answers())

    func prepare(_ change: (inout Answers) -> Void) { state.withLock { change(&$0) } }
    func random() -> UInt64 { 7 }
    func answer(_ call: DiskCall) -> DiskAnswer {
        state.withLock {
            $0.calls.append(call)
            return $0.answers[call.number] ?? .proceed
        }
    }
    func fate(of change: UnsyncedChange) -> ChangeFate {
        state.withLock { $0.fates.isEmpty ? .dropped : $0.fates.removeFirst() }
    }
    func keptEntries(of count: Int) -> Int { state.withLock { $0.keptEntries } }
}

@Suite("Data kept by a simulated disk", .timeLimit(.minutes(1)))
struct FateTests {
    private let decider = PreparedDecider()
    private let disk: SimulatedDisk
    private static let log = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_WAL

    init() { disk = SimulatedDisk(folder: "/simulated/fates", decider: decider) }

    private func open(_ name: String, flags: Int32 = log) -> Int {
        disk.open(name, flags: flags, isOutside: false).handle
    }

    private func write(_ handle: Int, _ byte: UInt8, count: Int, at offset: Int) -> Int32 {
        [UInt8](repeating: byte, count: count).withUnsafeBytes { disk.write(handle, $0, at: offset) }
    }

    /// The bytes of a file as runs, such as `[1×1024, 2×512]`.
    private func runs(_ name: String) -> [String]? {
        guard let bytes = disk.contents[name] else { return nil }
        var runs: [(byte: UInt8, count: Int)] = []
        for byte in bytes {
            if runs.last?.byte == byte { runs[runs.count - 1].count += 1 } else { runs.append((byte, 1)) }
        }
        return runs.map { "\($0.byte)×\($0.count)" }
    }

    static let fates: [(ChangeFate, [String])] = [
        (.kept, ["1×100", "2×1500"]), (.dropped, ["1×1024"]),
        // A write from 100 on begins in the middle of sector 0, and ends in sector 3.
        (.prefix(sectors: 0), ["1×1024"]), (.prefix(sectors: 1), ["1×100", "2×412", "1×512"]),
        (.prefix(sectors: 2), ["1×100", "2×924"]), (.prefix(sectors: 9), ["1×100", "2×1500"]),
        (.suffix(sectors: 1), ["1×1024", "0×512", "2×64"]), (.suffix(sectors: 3), ["1×512", "2×1088"]),
        (.single(sector: 0), ["1×100", "2×412", "1×512"]), (.single(sector: 1), ["1×512", "2×512"]),
        (.single(sector: 3), ["1×1024", "0×512", "2×64"]), (.single(sector: 4), ["1×1024"]),
        (.enlarged, ["1×1024", "0×576"]),
    ]

    @Test("A power failure leaves of an unsynced write what is decided", arguments: fates)
    func fate(fate: ChangeFate, expected: [String]) {
        let log = open("log")
        #expect(write(log, 1, count: 1_024, at: 0) == SQLITE_OK)
        #expect(disk.sync(log) == SQLITE_OK)
        #expect(write(log, 2, count: 1_500, at: 100) == SQLITE_OK)
        #expect(runs("log") == ["1×100", "2×1500"])
        decider.prepare { $0.fates = [fate] }
        disk.crash(.power)
        #expect(runs("log") == expected)
    }

    @Test("Noise stays within the write")
    func noise() throws {
        let log = open("log")
        _ = write(log, 1, count: 1_024, at: 0)
        _ = disk.sync(log)
        _ = write(log, 2, count: 300, at: 500)
        decider.prepare { $0.fates = [.garbled(9)] }
        disk.crash(.power)
        let bytes = try #require(disk.contents["log"])
        #expect(bytes.count == 1_024)
        #expect(Set(bytes[..<500]) == [1] && Set(bytes[800...]) == [1])
        #expect(Set(bytes[500..<800]).count > 50)
    }

    @Test("Noise spares a sector that is written with the bytes it has")
    func sameBytes() throws {
        let log = open("log")
        _ = write(log, 1, count: 2_048, at: 0)
        _ = disk.sync(log)
        _ = write(log, 1, count: 1_024, at: 300)
        decider.prepare { $0.fates = [.garbled(9)] }
        disk.crash(.power)
        #expect(runs("log") == ["1×2048"])
    }

    @Test("Later writes may be there without earlier ones, and a truncation may not have happened")
    func reordered() {
        let log = open("log")
        _ = write(log, 1, count: 1_024, at: 0)
        _ = disk.sync(log)
        _ = disk.truncate(log, to: 0)
        _ = write(log, 2, count: 512, at: 0)
        _ = write(log, 3, count: 512, at: 2_048)
        decider.prepare { $0.fates = [.dropped, .dropped, .kept] }
        disk.crash(.power)
        #expect(runs("log") == ["1×1024", "0×1024", "3×512"])
        #expect(disk.usedBytes == 2_560)
    }

    @Test("Killing the process leaves everything, and a later power failure what was synced")
    func kill() {
        let log = open("log")
        _ = write(log, 1, count: 512, at: 0)
        _ = disk.sync(log)
        _ = write(log, 2, count: 512, at: 512)
        disk.crash(.process)
        #expect(runs("log") == ["1×512", "2×512"])
        #expect(disk.open("log", flags: Self.log, isOutside: false).code == SQLITE_CANTOPEN, "until the restart")
        disk.restart()
        let again = open("log")
        _ = write(again, 3, count: 512, at: 1_024)
        disk.crash(.power)
        #expect(runs("log") == ["1×512"])
    }

    @Test("A handle from before a crash changes nothing, and holds no lock")
    func dead() {
        let log = open("log")
        _ = write(log, 1, count: 512, at: 0)
        #expect(disk.lock(log, SQLITE_LOCK_SHARED) == SQLITE_OK && disk.lock(log, SQLITE_LOCK_EXCLUSIVE) == SQLITE_OK)
        #expect(disk.map(log, region: 0, bytes: 32_768, extend: true) ?? 0 != 0)
        #expect(disk.lockMemory(log, slots: 1, flags: SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) == SQLITE_OK)
        disk.crash(.process)
        disk.restart()
        let again = open("log")
        let calls = disk.counts.calls
        #expect(write(log, 2, count: 512, at: 0) & 0xff == SQLITE_IOERR)
        #expect(disk.truncate(log, to: 0) & 0xff == SQLITE_IOERR && disk.sync(log) & 0xff == SQLITE_IOERR)
        #expect(disk.lock(log, SQLITE_LOCK_SHARED) & 0xff == SQLITE_IOERR && disk.length(log) == nil)
        #expect(disk.lockMemory(log, slots: 2, flags: SQLITE_SHM_LOCK | SQLITE_SHM_SHARED) & 0xff == SQLITE_IOERR)
        #expect(disk.counts.calls == calls, "nobody was asked about them")
        #expect(runs("log") == ["1×512"])
        #expect(disk.lock(again, SQLITE_LOCK_SHARED) == SQLITE_OK)
        #expect(disk.lock(again, SQLITE_LOCK_EXCLUSIVE) == SQLITE_OK)
        #expect(disk.map(again, region: 0, bytes: 32_768, extend: false) == 0, "the shared memory is gone")
        disk.close(log)
        #expect(disk.length(again) == 512)
    }

    @Test("A crash in a write leaves its first bytes, synced or not as any other write")
    func crashInWrite() {
        let log = open("log")
        _ = write(log, 1, count: 512, at: 0)
        decider.prepare {
            $0.answers[2] = .crash(.power, written: 700)
            $0.fates = [.kept, .kept]
            $0.keptEntries = 1
        }
        #expect(write(log, 2, count: 1_024, at: 512) & 0xff == SQLITE_IOERR)
        #expect(disk.isDown)
        #expect(runs("log") == ["1×512", "2×700"])
    }

    @Test("After a sync that fails and forgets, only what is written again becomes durable")
    func forgets() {
        let log = open("log")
        _ = disk.sync(log)
        _ = write(log, 1, count: 512, at: 0)
        _ = write(log, 1, count: 512, at: 512)
        decider.prepare { $0.answers[4] = .forget }
        #expect(disk.sync(log) & 0xff == SQLITE_IOERR)
        #expect(runs("log") == ["1×1024"], "reads go on seeing it")
        _ = write(log, 2, count: 512, at: 512)
        #expect(disk.sync(log) == SQLITE_OK)
        disk.crash(.power)
        #expect(runs("log") == ["0×512", "2×512"])
    }

    @Test("A sync that fails without forgetting is made up for by the next")
    func failingSync() {
        let log = open("log")
        _ = write(log, 1, count: 512, at: 0)
        decider.prepare { $0.answers[2] = .fail(written: 0) }
        #expect(disk.sync(log) & 0xff == SQLITE_IOERR)
        #expect(disk.sync(log) == SQLITE_OK)
        disk.crash(.power)
        #expect(runs("log") == ["1×512"])
    }

    @Test("Creations and deletions come undone from the last on, unless the folder was synced")
    func entries() {
        let first = open("first")
        _ = write(first, 1, count: 8, at: 0)
        #expect(disk.sync(first) == SQLITE_OK, "the first sync of a log syncs the folder")
        #expect(disk.delete("first", syncsFolder: false) == SQLITE_OK)
        #expect(disk.delete("first", syncsFolder: false) == SQLITE_IOERR | 23 << 8)
        let database = open("second", flags: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB)
        _ = write(database, 2, count: 8, at: 0)
        #expect(disk.sync(database) == SQLITE_OK)
        decider.prepare { $0.keptEntries = 1 }
        disk.crash(.power)
        #expect(disk.contents.keys.sorted() == [], "the deletion is kept, the creation after it is not")
        disk.restart()
        let third = open("third")
        _ = disk.sync(third)
        #expect(disk.delete("third", syncsFolder: false) == SQLITE_OK)
        decider.prepare { $0.keptEntries = 0 }
        disk.crash(.power)
        #expect(disk.contents.keys.sorted() == ["third"])
        #expect(disk.counts.faults[.undoneEntry] == 2)
    }

    @Test("Beyond the budget a write ends where the room does")
    func full() {
        disk.budget = 1_000
        let log = open("log")
        #expect(write(log, 1, count: 600, at: 0) == SQLITE_OK)
        #expect(write(log, 2, count: 600, at: 600) == SQLITE_FULL)
        #expect(runs("log") == ["1×600", "2×400"] && disk.freeBytes == 0)
        #expect(write(log, 3, count: 1_000, at: 0) == SQLITE_OK, "what does not grow fits")
        #expect(disk.truncate(log, to: 100) == SQLITE_OK && disk.freeBytes == 900)
        disk.close(log)
        #expect(disk.delete("log", syncsFolder: true) == SQLITE_OK && disk.freeBytes == 1_000)
    }

    @Test("Who wants a file alone keeps others from coming in")
    func locks() {
        let file = DiskFile(number: 1, name: "file")
        func raise(_ handle: Int, _ level: FileLocks.Level) -> Bool { file.locks.raise(handle, to: level) }
        #expect(raise(1, .shared) && raise(2, .shared) && raise(1, .reserved))
        #expect(file.locks.isReserved && !raise(2, .reserved))
        #expect(!raise(1, .exclusive), "another reads")
        #expect(!raise(3, .shared), "nobody new comes in")
        file.locks.lower(2, to: .none)
        #expect(raise(1, .exclusive) && !raise(2, .shared))
        file.locks.lower(1, to: .shared)
        #expect(raise(2, .shared) && !file.locks.isReserved)
    }
}
