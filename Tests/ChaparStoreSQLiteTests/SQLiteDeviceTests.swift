import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparStoreSQLite

@Suite("The device registry", .timeLimit(.minutes(1)))
struct SQLiteDeviceTests {
    @Test("The embedded store keeps the contract", arguments: DeviceStoreConformance.cases)
    func contract(_ check: DeviceStoreConformanceCase) async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            try await check.run(store)
            await store.close()
        }
    }

    @Test("Lists and counts are the same when they take many steps", arguments: DeviceStoreConformance.cases)
    func contractInSteps(_ check: DeviceStoreConformanceCase) async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.rowsPerScan = 2
            let store = try SQLiteStore(options)
            try await check.run(store)
            await store.close()
        }
    }

    @Test("It keeps the contract of audiences", arguments: AudienceStoreConformance.cases)
    func audiences(_ check: AudienceStoreConformanceCase) async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            try await check.run(store)
            await store.close()
        }
    }

    @Test("The registry in memory keeps that, too", arguments: AudienceStoreConformance.cases)
    func audiencesInMemory(_ check: AudienceStoreConformanceCase) async throws {
        try await check.run(MemoryDeviceStore())
    }

    @Test("The registry in memory keeps it too", arguments: DeviceStoreConformance.cases)
    func contractInMemory(_ check: DeviceStoreConformanceCase) async throws { try await check.run(MemoryDeviceStore()) }

    @Test("Devices survive a restart, and their numbers go on")
    func restart() async throws {
        try await TemporaryFolder.use { folder in
            let options = SQLiteStoreOptions(path: folder + "/store.db")
            let store = try SQLiteStore(options)
            let device = Device(id: "a", user: "u", tags: ["x"], createdAt: Date(timeIntervalSince1970: 5))
            _ = try await store.put([device, Device(id: "b", createdAt: .now)])
            let first = try await store.list(DeviceQuery(), after: nil, limit: 1)
            await store.close()
            let next = try SQLiteStore(options)
            #expect(try await next.device("a") == device)
            let second = try await next.list(DeviceQuery(), after: first.next, limit: 5)
            #expect(second.devices.map(\.id) == ["b"])
            await next.close()
        }
    }

    @Test("A full disk refuses new devices, and still lets tokens be buried and devices be deleted")
    func fullDisk() async throws {
        try await TemporaryFolder.use { folder in
            let isFull = Mutex(false)
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.freeBytes = { _ in isFull.withLock { $0 } ? 0 : 1 << 40 }
            let time = ManualTime()
            let store = try SQLiteStore(options, time: time)
            let token = DeviceToken("t", service: .iOSAPNs)
            let device = Device(
                id: "a",
                tokens: [RegisteredToken(token, registeredAt: time.now)],
                createdAt: time.now
            )
            _ = try await store.put([device])
            isFull.withLock { $0 = true }
            time.advance(by: .seconds(2))
            await #expect(throws: StoreError.self) { _ = try await store.put([device]) }
            await #expect(throws: StoreError.self) { _ = try await store.patch("a") { $0.user = "u" } }
            let refusal = TokenRefusal(token, asOf: time.now, at: time.now, backend: "ios", reason: "Gone")
            #expect(try await store.invalidate([refusal]).count == 1)
            #expect(try await store.delete("a"))
            await store.close()
        }
    }

    @Test("What the window of a campaign has read is not read again at the send, unless it has changed")
    func windowIsKept() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            let devices = (0..<3).map { number in
                let token = DeviceToken("t\(number)", service: .iOSAPNs)
                let registered = RegisteredToken(token, registeredAt: .now)
                return Device(id: "d\(number)", tokens: [registered], tags: ["x"], createdAt: .now)
            }
            _ = try await store.put(devices)
            let audience = Audience(app: .default, rule: .tag("x"), services: ["ios-apns"], moment: 0)
            var plan = try await store.plan(audience)
            _ = try await store.window(plan, after: 0, through: 3, limit: 10)
            #expect(store.core.subjects.count == 0, "a count needs nothing again")
            plan.isForSends = true
            let window = try await store.window(plan, after: 0, through: 3, limit: 10)
            #expect(store.core.subjects.count == 3)
            #expect(try await store.subjects(["d0"])["d0"] == window.devices.first)
            #expect(store.core.subjects.count == 2, "it is handed out once")
            _ = try await store.patch("d1") { $0.tags = [] }
            #expect(store.core.subjects.count == 1)
            #expect(try await store.subjects(["d1"])["d1"]?.device.tags == [])
            _ = try await store.quarantine(tombstonesOf: "ios", since: .distantPast)
            #expect(store.core.subjects.count == 0, "it may have been any device")
            await store.close()
        }
    }

    @Test("What a window has read before a change is committed is not kept after it")
    func readBeforeAChange() {
        let memory = SubjectMemory()
        let subject = AudienceSubject(number: 7, device: Device(id: "a", createdAt: .now))
        let mark = memory.mark
        var changed = ChangedDevices()
        changed.note(9)
        memory.forget(changed)
        memory.keep([subject], readAfter: mark)
        #expect(memory.count == 0)
        memory.keep([subject], readAfter: memory.mark)
        #expect(memory.count == 1)
        let many = (0..<SubjectMemory.most).map {
            AudienceSubject(number: Int64($0), device: Device(id: "d\($0)", createdAt: .now))
        }
        memory.keep(many, readAfter: memory.mark)
        #expect(memory.count == SubjectMemory.most, "a bound")
        #expect(memory.take(["a", "d1"]).keys.sorted() == ["d1"])
    }

    @Test("A device that cannot be stored fails alone: what was handed in with it is committed")
    func failsAlone() async throws {
        try await TemporaryFolder.use { folder in
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/store.db"))
            // A trigger in the place of a failing disk: SQLite refuses one row.
            try refuseDevice("bad", in: folder + "/store.db")
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<40 {
                    let id = number % 10 == 7 ? "bad" : "d\(number)"
                    group.addTask {
                        do {
                            _ = try await store.put([Device(id: id, createdAt: .now)])
                            return id != "bad"
                        } catch {
                            return id == "bad"
                        }
                    }
                }
                for try await isAsWanted in group { #expect(isAsWanted) }
            }
            #expect(try await store.list(DeviceQuery(), after: nil, limit: 100).devices.count == 36)
            await store.close()
        }
    }

    private func refuseDevice(_ id: String, in path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE INSERT ON devices WHEN NEW.id = '\(id)'
                    BEGIN SELECT RAISE(ABORT, 'refused by the test'); END
                    """
            )
        }
        try queue.close()
    }

    @Test("Devices acknowledged before a kill are kept, whole")
    func kill() async throws {
        try await TemporaryFolder.use { folder in
            var options = SQLiteStoreOptions(path: folder + "/store.db")
            options.checkpointPages = 0  // Never, so that the copies below are faithful.
            let store = try SQLiteStore(options)
            var acknowledged: [String] = []
            for round in 0..<5 {
                let batch = (0..<20).map { number in
                    Device(
                        id: "r\(round)-\(number)",
                        tokens: [
                            RegisteredToken(
                                DeviceToken("t\(round)-\(number)", service: .androidFirebase),
                                registeredAt: .now
                            )
                        ],
                        tags: ["x"],
                        createdAt: .now
                    )
                }
                async let unanswered = store.put([Device(id: "maybe\(round)", createdAt: .now)])
                _ = try await store.put(batch)
                acknowledged += batch.map(\.id)
                // The files as they are now are what the next process would find if this one were killed now.
                let copy = "\(folder)/copy\(round).db"
                for suffix in ["", "-wal"] {
                    try FileManager.default.copyItem(atPath: options.path + suffix, toPath: copy + suffix)
                }
                let next = try SQLiteStore(SQLiteStoreOptions(path: copy))
                let found = try await next.devices(acknowledged)
                #expect(found.count == acknowledged.count)
                #expect(found.values.allSatisfy { $0.tokens.count == 1 && $0.tags == ["x"] })
                await next.close()
                _ = try await unanswered
            }
            await store.close()
        }
    }
}
