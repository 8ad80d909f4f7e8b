import Foundation
import Logging
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import SimulationDisk

/// A store that works, fails and crashes on a simulated disk, and what callers were told until then.
///
/// What a caller was told has to be true in the next life: what was accepted is there, whole, and what has ended stays
/// ended. What a caller was not told may have happened or not, but not in part.
struct StoreScenario {
    /// A fault of the disk.
    struct Trouble: Sendable, CustomStringConvertible {
        var crash: CrashKind
        /// In so many of a thousand calls something fails.
        var faults = 0
        /// The disk has so little room left, for a part of each life.
        var room: Int?
        /// A sync does nothing.
        var liesAboutSync = false
        var description: String {
            "\(crash)" + (faults > 0 ? ", faults" : "") + (room == nil ? "" : ", full disk")
                + (liesAboutSync ? ", lies" : "")
        }
    }

    let seed: Int
    let trouble: Trouble
    private let disk: SimulatedDisk
    private let decider: SeededDecider
    private let time = ManualTime()
    /// How many recipients each notification has whose acceptance was told, or was asked for and not told.
    private var accepted: [NotificationID: Int] = [:]
    private var attempted: [NotificationID: Int] = [:]
    private var ended: Set<Int64> = []
    private var claimed: Set<Int64> = []
    private(set) var problems: [String] = []
    private(set) var refusals = 0
    private(set) var acceptances = 0

    var counts: DiskCounts { disk.counts }

    init(seed: Int, _ trouble: Trouble, folder: String) {
        self.seed = seed
        self.trouble = trouble
        decider = SeededDecider(seed: UInt64(seed))
        disk = SimulatedDisk(folder: folder, decider: decider)
    }

    mutating func run(lives: Int = 2) async throws {
        disk.register()
        defer { disk.unregister() }
        for life in 1...lives {
            let calls = disk.counts.calls.values.reduce(0, +)
            decider.plan = SeededDecider.Plan(
                crashAt: calls + decider.draw(1..<[100, 400, 1_500][decider.draw(0..<3)]),
                crash: trouble.crash,
                faults: trouble.faults,
                liesAboutSync: trouble.liesAboutSync
            )
            if let store = openStore() {
                await work(store)
                disk.crash(trouble.crash)
                await store.close()
            }
            disk.crash(trouble.crash)
            disk.restart()
            disk.budget = nil
            decider.plan = SeededDecider.Plan()
            do throws(StoreError) {
                try await check()
            } catch {
                problems.append("cannot be opened or read: \(error)")
            }
            guard problems.isEmpty else {
                problems = problems.map { "seed \(seed), \(trouble), life \(life): \($0)" }
                return
            }
        }
    }

    private func makeStore() throws(StoreError) -> SQLiteStore {
        var options = SQLiteStoreOptions(path: disk.folder + "/store.db")
        options.pageBytes = 1_024
        options.checkpointPages = 40
        options.minimumFreeBytes = 0
        options.longestGathering = .zero
        options.freeBytes = { [disk] _ in disk.freeBytes }
        return try SQLiteStore(options, time: time, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    /// Opens the store, in several attempts while the machine lives.
    private func openStore() -> SQLiteStore? {
        for _ in 0..<5 where !disk.isDown {
            if let store = try? makeStore() { return store }
        }
        return nil
    }

    private mutating func work(_ store: SQLiteStore) async {
        var mine: [Int64] = []
        for step in 0..<80 where !disk.isDown {
            if let room = trouble.room { disk.budget = step % 40 < 20 ? Int(disk.usedBytes) + room : nil }
            time.advance(by: .seconds(2))
            do throws(StoreError) {
                switch decider.draw(0..<5) {
                case 0...2:
                    let recipients = decider.draw(1..<5)
                    let id = store.makeID(recipients: recipients)
                    let new = NewNotification.sample(id, time, recipients: recipients, content: decider.draw(1..<2_000))
                    attempted[new.id] = new.recipients.count
                    _ = try await store.enqueue(EnqueueBatch([new]))
                    accepted[new.id] = new.recipients.count
                    acceptances += 1
                case 3:
                    mine += try await store.claim(backend: "apns", limit: decider.draw(1..<8), wait: .zero).map(\.id)
                    claimed.formUnion(mine)
                default:
                    let some = Array(mine.prefix(decider.draw(0..<8)))
                    mine.removeFirst(some.count)
                    try await store.record(some.map { Resolution(delivery: $0, transition: .end(.delivered)) }) {
                        _,
                        _,
                        _ in []
                    }
                    ended.formUnion(some)
                }
            } catch {
                refusals += 1
            }
        }
    }

    /// Compares what the next process finds with what callers were told.
    private mutating func check() async throws(StoreError) {
        let store = try makeStore()
        var waiting: Set<Int64> = []
        for (id, recipients) in attempted {
            let rows = try await store.deliveries(of: id, after: nil, limit: 10)
            if rows.isEmpty, accepted[id] == nil { continue }
            if rows.count != recipients { problems.append("\(rows.count) of \(recipients) deliveries are there") }
            accepted[id] = recipients
            for row in rows where !row.state.isFinal {
                waiting.insert(row.id)
                if ended.contains(row.id) { problems.append("a delivery that has ended waits again") }
            }
            for row in rows where row.state.isFinal { ended.insert(row.id) }
        }
        attempted = accepted
        let again = try await store.claim(backend: "apns", limit: 10_000, wait: .zero)
        if Set(again.map(\.id)) != waiting {
            problems.append("\(again.count) of \(waiting.count) waiting can be claimed")
        }
        for delivery in again where claimed.contains(delivery.id) && !delivery.isRecovered {
            problems.append("a claim that was given out is not known")
        }
        claimed.formUnion(waiting)
        await store.close()
    }
}

extension NewNotification {
    /// A notification to so many recipients, with so many bytes of content.
    static func sample(_ id: NotificationID, _ time: ManualTime, recipients: Int = 1, content: Int) -> NewNotification {
        NewNotification(
            id: id,
            notification: PushNotification(title: "Hello"),
            record: NotificationRecord(
                content: Array(repeating: UInt8(ascii: "c"), count: content),
                plans: [DeliveryPlan(["apns"])],
                acceptedAt: time.now
            ),
            recipients: (0..<recipients).map {
                .token(DeviceToken("token\(id.rawValue + Int64($0))", service: .iOSAPNs))
            },
            caller: "shop",
            expiresAt: time.now + 86_400,
            event: [1]
        )
    }
}
