import Dispatch
import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

@Suite("A store that closes", .timeLimit(.minutes(1)))
final class ClosingTests: Sendable {
    let isHeld = Atomic(false)

    /// How calls ended.
    private struct Tally: Sendable {
        var done = 0
        var closed = 0
        var failed = 0
    }

    private let tally = Mutex(Tally())

    /// Makes a call that is counted when it ends; a task of its own, since it must not keep the test from ending.
    private func call(_ body: @escaping @Sendable () async throws -> Void) {
        Task { [self] in
            do {
                try await body()
                tally.withLock { $0.done += 1 }
            } catch StoreError.closed {
                tally.withLock { $0.closed += 1 }
            } catch {
                tally.withLock { $0.failed += 1 }
            }
        }
    }

    /// How the calls ended, once all have; a call without an answer is missing.
    private func ended(_ count: Int) async throws -> Tally {
        try? await eventually("\(count) calls end", within: .seconds(20)) {
            tally.withLock { $0.done + $0.closed + $0.failed == count }
        }
        return tally.withLock { $0 }
    }

    @Test("does everything that was handed in, though it is more than one commit takes")
    func everythingIsDone() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.rowsPerCommit = 4
            let store = try SQLiteStore(options, time: time)
            let gate = DispatchSemaphore(value: 0)
            call { [self] in
                try await store.look { [self] _ in
                    isHeld.store(true, ordering: .releasing)
                    gate.wait()
                }
            }
            while !isHeld.load(ordering: .acquiring) { await Task.yield() }
            for number in 0..<40 {
                call {
                    switch number % 4 {
                    case 0: try await store.accept(time)
                    case 1: try await store.publish([[1]])
                    case 2: _ = try await store.put([Device(id: "d\(number)", createdAt: time.now)])
                    default: _ = try await store.depths()
                    }
                }
            }
            call { _ = try await store.claim(backend: "other", limit: 1, wait: .seconds(3_600)) }
            // The writer stands still, so that everything waits in the inbox when it is closed.
            while store.callsInInbox < 41 { await Task.yield() }
            async let closing: Void = store.close()
            while !store.isClosed { await Task.yield() }
            gate.signal()
            await closing
            let tally = try await ended(42)
            #expect(tally.done == 42, "what was handed in before the end is done: \(tally)")
            let again = try SQLiteStore(options, time: time)
            #expect(try await again.depths()["apns"]?.waiting == 10)
            #expect(try await again.list(DeviceQuery(), after: nil, limit: 20).devices.count == 10)
            await again.close()
        }
    }

    @Test("leaves a file that is the store without its log")
    func fileAlone() async throws {
        try await TemporaryFolder.use { folder in
            let time = ManualTime()
            let (path, copy) = (folder + "/store.db", folder + "/copy.db")
            let store = try SQLiteStore(SQLiteStoreOptions(path: path), time: time)
            for number in 0..<20 {
                let id = try await store.accept(time, name: "r\(number)-")
                // A connection for reading, which closes after the writer.
                #expect(try await store.notification(id) != nil)
            }
            await store.close()
            let log = try? Data(contentsOf: URL(filePath: path + "-wal"))
            #expect(log?.isEmpty ?? true)
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            let again = try SQLiteStore(SQLiteStoreOptions(path: copy), time: time)
            #expect(try await again.depths()["apns"]?.waiting == 20)
            await again.close()
        }
    }

    @Test("answers everybody who calls at the same moment")
    func racing() async throws {
        for round in 1...10 {
            try await TemporaryFolder.use { folder in
                let time = ManualTime()
                var options = SQLiteStoreOptions(path: folder + "/store.db")
                options.rowsPerCommit = 2
                let store = try SQLiteStore(options, time: time)
                for number in 0..<64 {
                    call {
                        switch number % 4 {
                        case 0: try await store.accept(time)
                        case 1: try await store.publish([[1]])
                        case 2:
                            _ = try await store.claim(backend: "other", limit: 1, wait: .seconds(3_600))
                        default: _ = try await store.depths()
                        }
                    }
                }
                await store.close()
                let tally = try await ended(64 * round)
                try #require(tally.failed == 0 && tally.done + tally.closed == 64 * round, "\(tally)")
            }
        }
    }
}
