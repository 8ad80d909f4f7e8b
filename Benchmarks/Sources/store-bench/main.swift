import BenchSupport
import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStorePostgres
import ChaparStoreSQLite
import Synchronization

// What a store costs. Prints rows per second and CPU of this process for each row; give a folder to put the file somewhere else.
//
//     swift run -c release --package-path Benchmarks store-bench [folder] [case ...]
//
// PAGE_BYTES and CHECKPOINT_PAGES in the environment replace the embedded store's defaults. POSTGRES_URL in its place measures a PostgreSQL
// database, each case in a schema of its own, which is left there.

/// Runs a piece of work and prints what it cost.
func measure(_ name: String, rows: Int, _ body: () async throws -> Void) async rethrows {
    let clock = ContinuousClock()
    let (cpuBefore, start) = (used().cpu, clock.now)
    try await body()
    let seconds = (clock.now - start) / .seconds(1)
    let micros = (used().cpu - cpuBefore) * 1e6 / Double(rows)
    let padded = name.padding(toLength: 44, withPad: " ", startingAt: 0)
    print("\(padded) \(Int(Double(rows) / seconds)) rows/s   \(String(format: "%.2f", micros)) us CPU a row")
    fflush(nil)  // Piped output would come at the end only.
}

/// A value that tasks change.
final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>
    init(_ value: Value) { self.value = Mutex(value) }
    func withLock<Result: Sendable>(_ body: (inout Value) -> Result) -> Result { value.withLock { body(&$0) } }
}

/// Three days ago.
struct Earlier: TimeSource {
    var now: Date { Date() - 3 * 86_400 }
    func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration) }
}

struct Bench {
    let folder: String

    func open(_ name: String) async throws -> any NotificationStore {
        if let url = ProcessInfo.processInfo.environment["POSTGRES_URL"] {
            var options = try PostgresOptions(url: url)
            options.schema = "bench_\(name)_\(ProcessInfo.processInfo.processIdentifier)"
            return try await PostgresStore.open(options)
        }
        let path = "\(folder)/\(name).db"
        for suffix in ["", "-wal", "-shm", ".lock"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        var options = SQLiteStoreOptions(path: path)
        let environment = ProcessInfo.processInfo.environment
        if let bytes = environment["PAGE_BYTES"].flatMap(Int.init) { options.pageBytes = bytes }
        if let pages = environment["CHECKPOINT_PAGES"].flatMap(Int.init) { options.checkpointPages = pages }
        return try SQLiteStore(options)
    }

    /// Nodes that share a database.
    func other(_ count: Int, _ name: String, time: (any TimeSource)? = nil) async throws -> [any NotificationStore] {
        guard let url = ProcessInfo.processInfo.environment["POSTGRES_URL"] else { return [] }
        var options = try PostgresOptions(url: url)
        options.schema = "bench_\(name)\(count)_\(ProcessInfo.processInfo.processIdentifier)"
        var stores: [any NotificationStore] = []
        for _ in 0..<count { stores.append(try await PostgresStore.open(options, time: time)) }
        return stores
    }

    /// Notifications as the gateway makes them: 600 bytes of content, an event of 160.
    func batch(_ store: any NotificationStore, _ count: Int, backend: String = "apns", _ make: Make = plain)
        -> EnqueueBatch
    {
        let now = store.time.steady
        let event = [UInt8](repeating: UInt8(ascii: "e"), count: 160)
        return EnqueueBatch(
            (0..<count).map { number in
                let (token, content) = make(number)
                return NewNotification(
                    id: store.makeID(recipients: 1),
                    notification: PushNotification(title: "Order 42", body: "is on its way", sound: "default"),
                    record: NotificationRecord(content: content, plans: [DeliveryPlan([backend])], acceptedAt: now),
                    recipients: [.token(DeviceToken(token, service: .iOSAPNs))],
                    caller: "shop",
                    expiresAt: now + 7_200,
                    event: event
                )
            }
        )
    }

    /// A token and a content.
    typealias Make = @Sendable (Int) -> (String, [UInt8])
    /// The attempt and the event of a delivery that ends; the number is a random one.
    typealias End = @Sendable (ClaimedDelivery, Int) -> ([UInt8], [UInt8])

    static let plain: Make = { number in
        let token = String(repeating: "0123456789abcdef", count: 4) + "\(number % 10)"
        return (token, [UInt8](repeating: UInt8(ascii: "x"), count: 600))
    }

    static let plainEnd: End = { _, _ in
        ([UInt8](repeating: UInt8(ascii: "a"), count: 90), [UInt8](repeating: UInt8(ascii: "e"), count: 200))
    }

    /// Enqueues from many tasks at once.
    func enqueue(
        _ store: any NotificationStore,
        rows: Int,
        perCall: Int,
        producers: Int,
        backend: String = "apns",
        _ make: @escaping Make = plain
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<producers {
                group.addTask {
                    for _ in 0..<rows / producers / perCall {
                        _ = try await store.enqueue(batch(store, perCall, backend: backend, make))
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Claims and ends until so many are done.
    func workOff(
        _ store: any NotificationStore,
        rows: Int,
        limit: Int,
        workers: Int,
        backend: String = "apns",
        _ end: @escaping End = plainEnd
    ) async throws {
        try await workOff([store], rows: rows, limit: limit, workers: workers, backend: backend, end)
    }

    /// Claims and ends at several nodes until so many are done by all of them.
    func workOff(
        _ stores: [any NotificationStore],
        rows: Int,
        limit: Int,
        workers: Int,
        backend: String,
        _ end: @escaping End = plainEnd
    ) async throws {
        let done = Shared(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in stores.flatMap({ Array(repeating: $0, count: workers) }) {
                group.addTask {
                    while done.withLock({ $0 }) < rows {
                        try Task.checkCancellation()
                        let claimed = try await store.claim(backend: backend, limit: limit, wait: .milliseconds(20))
                        if claimed.isEmpty { continue }
                        done.withLock { $0 += claimed.count }
                        try await store.record(
                            claimed.map { claim in
                                let (attempt, event) = end(claim, Int.random(in: 0..<1_000_000))
                                return Resolution(of: claim, .end(.acceptedByPlatform), attempt: attempt, event: event)
                            },
                            event: { _, _, _ in [] }
                        )
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// The longest of the fastest half and of the fastest 99 in a hundred ways from acceptance to end, of 200 a second, in milliseconds.
    func latency(_ store: any NotificationStore, seconds: Int) async throws -> String {
        let spans = Shared<[Duration]>([])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for sender in 0..<4 {
                group.addTask {
                    for _ in 0..<seconds * 50 {
                        let start = ContinuousClock.now
                        try await enqueue(store, rows: 1, perCall: 1, producers: 1, backend: "sender\(sender)")
                        try await workOff(store, rows: 1, limit: 1, workers: 1, backend: "sender\(sender)")
                        spans.withLock { $0.append(start.duration(to: .now)) }
                        try await Task.sleep(until: start + .milliseconds(20), clock: .continuous)
                    }
                }
            }
            try await group.waitForAll()
        }
        let sorted = spans.withLock { $0.sorted() }
        func at(_ part: Double) -> String {
            String(format: "%.1f ms", sorted[Int(Double(sorted.count - 1) * part)] / .milliseconds(1))
        }
        return "median \(at(0.5)), p99 \(at(0.99)), longest \(at(1))"
    }

    /// Accepts one at a time, of which every fourth is due two seconds later, and ends them; prints how many each ten seconds.
    func steady(_ store: any NotificationStore, seconds: Int) async throws {
        let done = Shared(0)
        let end = ContinuousClock.now + .seconds(seconds)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<32 {
                group.addTask {
                    var serial = 0
                    while ContinuousClock.now < end {
                        serial += 1
                        var batch = batch(store, 1)
                        if serial % 4 == 0 { batch.notifications[0].dueAt = store.time.steady + 2 }
                        _ = try await store.enqueue(batch)
                    }
                }
            }
            for _ in 0..<4 {
                group.addTask {
                    while ContinuousClock.now < end + .seconds(3) {
                        let claimed = try await store.claim(backend: "apns", limit: 500, wait: .milliseconds(200))
                        guard !claimed.isEmpty else { continue }
                        try await store.record(
                            claimed.map { claim in
                                let (attempt, event) = Self.plainEnd(claim, 0)
                                return Resolution(of: claim, .end(.acceptedByPlatform), attempt: attempt, event: event)
                            },
                            event: { _, _, _ in [] }
                        )
                        done.withLock { $0 += claimed.count }
                    }
                }
            }
            group.addTask {
                var before = 0
                for tens in 1...max(1, seconds / 10) {
                    try await Task.sleep(for: .seconds(10))
                    let now = done.withLock { $0 }
                    print("steady \(tens * 10) \(now - before)")
                    fflush(nil)
                    before = now
                }
            }
            try await group.waitForAll()
        }
    }

    func run(_ name: String) async throws {
        let store = try await open(name)
        switch name {
        case "makes":
            await measure("only making the batches, for comparison", rows: 200_000) {
                for _ in 0..<2_000 { _ = batch(store, 100) }
            }
        case "single":
            try await measure("enqueue, 1 a call, 128 at once", rows: 128 * 800) {
                try await enqueue(store, rows: 128 * 800, perCall: 1, producers: 128)
            }
        case "batch":
            try await measure("enqueue, 100 a call, 8 at once", rows: 240_000) {
                try await enqueue(store, rows: 240_000, perCall: 100, producers: 8)
            }
            try await measure("claim and end, 500 a call, 4 at once, from disk", rows: 240_000) {
                try await workOff(store, rows: 240_000, limit: 500, workers: 4)
            }
        case "finished":
            let rows = 400_000
            try await measure("accept and end, 100 a call, as the gateway writes them", rows: rows) {
                async let done: Void = workOff(store, rows: rows, limit: 500, workers: 4) { claim, random in
                    let id = UUID().uuidString.lowercased()
                    let attempt =
                        #"{"at":"2026-11-22T09:00:0\(random % 10).\(100 + random % 900)Z","backend":"apns","#
                        + #""outcome":"accepted","platform_id":"\(id)"}"#
                    let event = #"{"type":"delivery.accepted_by_platform","id":"\(claim.id)","attempt":\(attempt)}"#
                    return (Array(attempt.utf8), Array(event.utf8))
                }
                try await enqueue(store, rows: rows, perCall: 100, producers: 8) { number in
                    let token = (0..<4).map { _ in String(format: "%016lx", UInt64.random(in: 0 ... .max)) }.joined()
                    let content =
                        #"{"title":"Order \(number % 90_000 + 10_000)","body":"is on its way","sound":"default"}"#
                    return (token, Array(content.utf8))
                }
                try await done
            }
            let used = await store.health().usedBytes ?? 0
            print("a finished delivery takes \(used / Int64(rows)) bytes, its two events included")
            let before = Date() + 60
            try await measure("purge", rows: rows) {
                while try await store.purge(Retention(notifications: before, events: before)) {}
            }
        case "through":
            try await measure("enqueue 100 a call, claim and end, together", rows: 400_000) {
                async let done: Void = workOff(store, rows: 400_000, limit: 500, workers: 4)
                try await enqueue(store, rows: 400_000, perCall: 100, producers: 8)
                try await done
            }
        case "trickle":
            try await measure("enqueue 1 a call, claim and end, together", rows: 102_400) {
                async let done: Void = workOff(store, rows: 102_400, limit: 500, workers: 4)
                try await enqueue(store, rows: 102_400, perCall: 1, producers: 128)
                try await done
            }
        case "backlog":
            for waiting in [1_000, 1_000_000] {
                let backend = "backend\(waiting)"
                try await enqueue(store, rows: waiting + 48_000, perCall: 500, producers: 4, backend: backend)
                try await measure("claim and end 48,000 before \(waiting) others", rows: 48_000) {
                    try await workOff(store, rows: 48_000, limit: 500, workers: 1, backend: backend)
                }
            }
        case "claimers":
            // Several nodes, each with a claimer, share what waits: only on PostgreSQL.
            for nodes in [1, 2, 4, 8] {
                let stores = try await other(nodes, name)
                let rows = 320_000
                try await enqueue(stores[0], rows: rows, perCall: 500, producers: 4, backend: "b\(nodes)")
                try await measure("claim and end, \(nodes) nodes", rows: rows) {
                    try await workOff(stores, rows: rows, limit: 500, workers: 1, backend: "b\(nodes)")
                }
                for store in stores { await store.close() }
            }
        case "drop":
            // A day that is over, with a million rows, goes while others are sent: only on PostgreSQL.
            let (past, present) = (try await other(1, name, time: Earlier())[0], try await other(1, name)[0])
            try await measure("accept and end a million three days ago", rows: 1_000_000) {
                async let done: Void = workOff(past, rows: 1_000_000, limit: 2_000, workers: 2)
                try await enqueue(past, rows: 1_000_000, perCall: 500, producers: 4)
                try await done
            }
            await past.close()
            for _ in 0..<2 { print("nothing dropped: \(try await latency(present, seconds: 20))") }
            async let dropped: Void = {
                try await Task.sleep(for: .seconds(5))
                let before = Date() - 86_400
                while try await present.purge(Retention(notifications: before, events: before)) {}
                print("dropped")
            }()
            print("a day dropped:   \(try await latency(present, seconds: 20))")
            try await dropped
            for _ in 0..<2 { print("nothing dropped: \(try await latency(present, seconds: 20))") }
            await present.close()
        case "day":
            // What a day brings, as fast as it goes, a line each million: only on PostgreSQL.
            let day = Day(bench: self, nodes: try await other(2, name).compactMap { $0 as? PostgresStore })
            for done in 1...(ProcessInfo.processInfo.environment["MILLIONS"].flatMap(Int.init) ?? 30) {
                try await measure("day \(done)", rows: 1_000_000) { try await day.run(deliveries: 1_000_000) }
            }
            for node in day.nodes { await node.close() }
        case "steady":
            try await steady(store, seconds: ProcessInfo.processInfo.environment["SECONDS"].flatMap(Int.init) ?? 60)
        default: print("there is no case \(name)")
        }
        await store.close()
    }
}

let words = Array(CommandLine.arguments.dropFirst())
let folder = words.first { $0.contains("/") } ?? NSTemporaryDirectory()
let chosen = words.filter { !$0.contains("/") }
for name in chosen.isEmpty ? ["makes", "single", "batch", "through", "trickle", "finished", "backlog"] : chosen {
    try await Bench(folder: folder).run(name)
}
