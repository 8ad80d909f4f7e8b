import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

/// A file system of so many megabytes, which only root can mount.
private final class SmallDisk {
    let folder: String

    init(megabytes: Int) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "chapar-small-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        guard try Self.run("mount", "-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", folder),
            try Self.run("chown", "postgres", folder)
        else {
            throw CocoaError(.fileWriteNoPermission)
        }
    }

    deinit {
        _ = try? Self.run("umount", "--lazy", folder)
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// Whether one can be mounted here.
    static let isPossible = (try? SmallDisk(megabytes: 1)) != nil

    private static func run(_ words: String...) throws -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}

@Suite(
    "When the server's disk is full",
    .timeLimit(.minutes(2)),
    .enabled(if: SmallDisk.isPossible, "only root can mount")
)
struct FullDiskTests {
    /// Options of a store whose tables are on a disk.
    private static func options(of server: TestServer, on disk: SmallDisk) async throws -> PostgresOptions {
        let options = try await server.options()
        let connection = PostgresConnection(options, name: "tablespace")
        for statement in [
            "CREATE TABLESPACE small LOCATION '\(disk.folder)'",
            "ALTER DATABASE postgres SET default_tablespace = small",
        ] {
            try await connection.session { (db) throws(PostgresError) in try db.perform(statement) }
        }
        await connection.close()
        return options
    }

    @Test("A start without room for the tables is refused with the cause and the fix, and succeeds once there is some")
    func start() async throws {
        let server = TestServer()
        let disk = try SmallDisk(megabytes: 8)
        let options = try await Self.options(of: server, on: disk)
        let filler = disk.folder + "/filler"
        try Data(count: (8 << 20) - (64 << 10)).write(to: URL(fileURLWithPath: filler))
        do throws(StoreError) {
            let store = try await PostgresStore.open(options)
            Issue.record("it started")
            await store.close()
        } catch {
            guard case .full(let reason, _) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(reason.contains("the database has no room") && reason.contains("free"), "\(reason)")
        }
        try FileManager.default.removeItem(atPath: filler)
        let store = try await PostgresStore.open(options)
        #expect(await store.health().acceptsWork)
        await store.close()
        try await server.end()
    }

    @Test(
        "New work is refused with the cause and the fix, what was sent is written once there is room, and work goes on by itself"
    )
    func full() async throws {
        let server = TestServer()
        let disk = try SmallDisk(megabytes: 24)
        let filler = disk.folder + "/filler"
        try Data(count: 8 << 20).write(to: URL(fileURLWithPath: filler))
        let options = try await Self.options(of: server, on: disk)
        let store = try await PostgresStore.open(options)
        let first = try await store.accept(to: (0..<200).map { .user("\($0)") })
        let held = try await store.claim(backend: "apns", limit: 200, wait: .zero)
        // Large, and random so that it is not compressed.
        var accepted: [NotificationID] = [first]
        var refusal: StoreError?
        for size in [64 << 10, 4 << 10, 100] {
            refusal = nil
            while refusal == nil, accepted.count < 20_000 {
                let content = String(
                    (0..<size / 16).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined()
                )
                let new = store.sample(to: [.user("x")], backend: "later", content: content)
                do throws(StoreError) {
                    _ = try await store.enqueue(EnqueueBatch([new]))
                    accepted.append(new.id)
                } catch {
                    refusal = error
                }
            }
        }
        guard case .full(let reason, let retryAfter)? = refusal else {
            Issue.record("\(String(describing: refusal))")
            return
        }
        #expect(reason.contains("the database has no room") && reason.contains("free"), "\(reason)")
        #expect(retryAfter == .seconds(30))
        #expect(await store.health().detail?.contains("has no room") == true)
        let recording = Task { try await store.end(held) }
        let recorder = try #require(store.core.recorder.serverProcess)
        try await eventually("what was sent could not be written") {
            try await store.number(
                "SELECT count(*) FROM pg_stat_activity WHERE pid = \(recorder) AND query = 'ROLLBACK'"
            ) == 1
        }
        try FileManager.default.removeItem(atPath: filler)
        try await recording.value
        #expect(try await store.notification(first)?.counts == [.acceptedByPlatform: 200])
        #expect(try await store.enqueue(EnqueueBatch([store.sample(to: [.user("y")])])) == .accepted)
        #expect(await store.health().acceptsWork)
        for id in accepted { #expect(try await store.notification(id) != nil) }
        await store.close()
        try await server.end()
    }
}
