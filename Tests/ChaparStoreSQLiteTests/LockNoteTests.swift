import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStoreSQLite

@Suite("The note in the file of the lock", .timeLimit(.minutes(1)))
struct LockNoteTests {
    private static let start = Date(timeIntervalSince1970: 1_764_000_000)

    @Test("Every next owner finds a run that did not end in order, until a later run has ended in order")
    func brokenRun() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            let first = try FileOwnership(of: path)
            #expect(first.brokenRun == nil)
            first.beginRun(at: Self.start)
            // As the file is when the process is gone.
            let left = try Data(contentsOf: URL(filePath: path + ".lock"))
            first.release()
            #expect(try FileOwnership(of: path).brokenRun == nil, "it was given up")
            try left.write(to: URL(filePath: path + ".lock"))

            let broken = BrokenRun(process: getpid(), since: Self.start)
            let command = try FileOwnership(of: path)
            #expect(command.brokenRun == broken)
            command.release()
            let next = try FileOwnership(of: path)
            #expect(next.brokenRun == broken, "a command is no run")
            next.beginRun(at: Self.start + 60)
            #expect(StoreLook.brokenRun(of: path) == broken, "the one before the run that goes on")
            next.release()
            let later = try FileOwnership(of: path)
            #expect(later.brokenRun == broken, "a start that failed has told nobody")
            later.beginRun(at: Self.start + 120)
            later.noteServing()
            later.release()
            #expect(try FileOwnership(of: path).brokenRun == nil)
            #expect(StoreLook.brokenRun(of: path) == nil)
        }
    }

    @Test("A start after an orderly end misses what an older file in the store's place lacks, until its lock goes")
    func olderFile() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let first = try SQLiteStore(options, time: time)
            try await first.accept(time)
            await first.close()
            try FileManager.default.copyItem(atPath: options.path, toPath: folder + "/old.db")
            let second = try SQLiteStore(options, time: time)
            for _ in 0..<3 { try await second.accept(time) }
            await second.close()
            for suffix in ["", "-wal", "-shm"] { unlink(options.path + suffix) }
            try FileManager.default.copyItem(atPath: folder + "/old.db", toPath: options.path)
            for _ in 0..<2 {
                let error = #expect(throws: StoreError.self) { try SQLiteStore(options, time: time) }
                #expect(error?.description.contains("3 of them are missing") == true, "\(String(describing: error))")
            }
            unlink(options.path + ".lock")
            let third = try SQLiteStore(options, time: time)
            #expect(try await third.depths()["apns"]?.waiting == 1)
            await third.close()
        }
    }

    @Test("The last commit is noted within seconds, and nothing is written after that")
    func trailingNote() async throws {
        try await SQLiteStore.use { store, options, time in
            for _ in 0..<3 { try await store.accept(time) }
            let last = try await store.lastEvent()
            func note() throws -> String { try String(contentsOfFile: options.path + ".lock", encoding: .utf8) }
            try await eventually("event \(last) is noted", within: .seconds(20)) {
                if try note().contains("committed: \(last)\n") { return true }
                time.advance(by: .seconds(1))
                return false
            }
            func written() throws -> Date? {
                try FileManager.default.attributesOfItem(atPath: options.path + ".lock")[.modificationDate] as? Date
            }
            let before = try written()
            for _ in 0..<10 {
                time.advance(by: .seconds(2))
                // The writer notes what is due before it answers.
                _ = try await store.depths()
            }
            #expect(try written() == before)
        }
    }

    @Test(
        "A start after a kill misses what a damaged, cut or removed log had, and says so until a backup takes the place",
        arguments: ["whole", "cut", "header", "middle", "removed", "database removed"]
    )
    func lostLog(_ how: String) async throws {
        try await TemporaryFolder.use { folder in
            let (time, killed) = (ManualTime(), folder + "/killed.db")
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            let store = try SQLiteStore(options, time: time)
            try await store.accept(time, recipients: 1)
            _ = try StoreBackup(of: options.path, to: folder + "/backup.db").write()
            for number in 0..<20 {
                time.advance(by: .seconds(2))
                try await store.accept(time, recipients: 1, name: "later\(number)-")
            }
            // As the files are when the process is gone.
            for suffix in ["", "-wal", ".lock"] {
                try FileManager.default.copyItem(atPath: options.path + suffix, toPath: killed + suffix)
            }
            await store.close()
            options.path = killed
            var log = try Data(contentsOf: URL(filePath: killed + "-wal"))
            switch how {
            case "cut": log = log.prefix(log.count / 2)
            case "header": log.replaceSubrange(0..<32, with: Data(count: 32))
            case "middle": log.replaceSubrange(log.count / 2..<log.count / 2 + 5_000, with: Data(count: 5_000))
            default: break
            }
            try log.write(to: URL(filePath: killed + "-wal"))
            if how == "removed" { unlink(killed + "-wal") }
            if how == "database removed" { unlink(killed) }
            guard how != "whole" else {
                let store = try SQLiteStore(options, time: time)
                #expect(try await store.depths()["apns"]?.waiting == 21)
                return await store.close()
            }
            for _ in 0..<2 {
                let error = #expect(throws: StoreError.self) { try SQLiteStore(options, time: time) }
                guard case .damaged(let sentence)? = error else {
                    Issue.record("\(String(describing: error))")
                    return
                }
                #expect(sentence.contains("-wal was damaged, cut or removed"))
            }
            options.durability = .normal
            await (try SQLiteStore(options, time: time)).close()
            options.durability = .full
            _ = try StoreRestore(of: folder + "/backup.db", to: killed).run(now: time.now)
            await (try SQLiteStore(options, time: time)).close()
        }
    }

    @Test("A process that was killed counts as ended before its parent has asked for its end")
    func dying() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            var process: pid_t = 0
            var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("sleep"), strdup("60"), nil]
            defer { for argument in arguments { free(argument) } }
            let failure = posix_spawn(&process, "/bin/sleep", nil, nil, &arguments, nil)
            try #require(failure == 0)
            let note = LockNote(process: process, runSince: Self.start, broken: nil)
            let descriptor = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            note.write(to: descriptor)
            close(descriptor)
            #expect(StoreLook.brokenRun(of: path) == nil, "it runs")
            kill(process, SIGKILL)
            // At once, while it still ends, and as a zombie.
            let atOnce = StoreLook.brokenRun(of: path)
            var end = siginfo_t()
            waitid(P_PID, id_t(process), &end, WEXITED | WNOWAIT)
            let dead = StoreLook.brokenRun(of: path)
            waitpid(process, nil, 0)
            let broken = BrokenRun(process: process, since: Self.start)
            #expect(atOnce == broken && dead == broken)
        }
    }

    @Test(
        "A note of another version, or none, is no broken run",
        arguments: [
            "", "4711\n", "x\ny\nz\n", "4711\nrunning since soon\n", "\nbroken off: 1\n",
            String(repeating: "9", count: 4_000),
        ]
    )
    func foreign(text: String) async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            try Data(text.utf8).write(to: URL(filePath: path + ".lock"))
            #expect(StoreLook.brokenRun(of: path) == nil)
            #expect(try FileOwnership(of: path).brokenRun == nil)
        }
    }

    @Test("A store that fails to open leaves the note of the run before as it was")
    func failing() async throws {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            try Data("no database at all, but long enough to look like one".utf8).write(to: URL(filePath: path))
            try Data("1\nrunning since \(RFC3339.string(Self.start))\n".utf8).write(to: URL(filePath: path + ".lock"))
            #expect(throws: StoreError.self) { try SQLiteStore(SQLiteStoreOptions(path: path)) }
            #expect(try FileOwnership(of: path).brokenRun == BrokenRun(process: 1, since: Self.start))
        }
    }
}
