import BenchSupport
import Foundation
import PushComposition
import PushCore
import PushQueue
import PushStorePostgres
import PushStoreSQLite

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
    let seconds = (clock.now - start).inSeconds
    let micros = (used().cpu - cpuBefore) * 1e6 / Double(rows)
    let padded = name.padding(toLength: 44, withPad: " ", startingAt: 0)
    print("\(padded) \(Int(Double(rows) / seconds)) rows/s   \(String(format: "%.2f", micros)) us CPU a row")
    fflush(nil)  // Piped output would come at the end only.
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
    func other(_ count: Int, _ name: String) async throws -> [any NotificationStore] {
        guard let url = ProcessInfo.processInfo.environment["POSTGRES_URL"] else { return [] }
        var options = try PostgresOptions(url: url)
        options.schema = "bench_\(name)\(count)_\(ProcessInfo.processInfo.processIdentifier)"
        var stores: [any NotificationStore] = []
        for _ in 0..<count { stores.append(try await PostgresStore.open(options)) }
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
                    content: content,
                    recipients: [.token(DeviceToken(token, service: .iOSAPNs))],
                    plan: DeliveryPlan([backend]),
                    caller: "shop",
                    acceptedAt: now,
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
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<workers {
                group.addTask {
                    var left = rows / workers
                    while left > 0 {
                        let claimed = try await store.claim(
                            backend: backend,
                            limit: min(left, limit),
                            wait: .seconds(5)
                        )
                        if claimed.isEmpty { break }
                        left -= claimed.count
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
                let rows = 64_000
                try await enqueue(stores[0], rows: rows, perCall: 500, producers: 4, backend: "b\(nodes)")
                try await measure("claim and end, \(nodes) nodes", rows: rows) {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for store in stores {
                            group.addTask {
                                try await workOff(store, rows: rows, limit: 500, workers: 1, backend: "b\(nodes)")
                            }
                        }
                        try await group.waitForAll()
                    }
                }
                for store in stores { await store.close() }
            }
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
