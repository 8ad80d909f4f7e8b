import Foundation
import ChaparCore

/// Checks, some time after a send to named ids, whether OneSignal counts all of them.
///
/// An answer does not mention ids that the app does not know. Only the counts show how many there are, and nothing
/// shows which. One task watches all messages. It ends when none is left, or with ``shutdown()``, which awaits it.
actor OneSignalReconciler {
    private struct Entry {
        var id: String
        var expected: Int
        var sentAt: Date
        var looks = 0
        var due: Date
    }

    /// The most messages that are watched; further ones are not.
    static let capacity = 1_000
    /// The times after the send at which a message is checked; after the last it is given up.
    static let moments: [Duration] = [.seconds(5), .seconds(30), .seconds(120), .seconds(600), .seconds(3600)]
    /// With more messages due than this, the newest are asked for in one request.
    static let listThreshold = 20

    private let messages: OneSignalMessages
    private let time: any TimeSource
    private let announce: @Sendable (BackendNotice) -> Void
    private var entries: [Entry] = []
    private var task: Task<Void, Never>?
    private var isEnded = false

    init(_ messages: OneSignalMessages, _ context: BackendContext) {
        self.messages = messages
        time = context.time
        announce = context.announce
    }

    /// Watches a message that was made for `expected` ids.
    func watch(_ id: String, expected: Int) {
        guard !isEnded, entries.count < Self.capacity, !entries.contains(where: { $0.id == id }) else { return }
        let now = time.steady
        entries.append(
            Entry(id: id, expected: expected, sentAt: now, due: now.addingTimeInterval(Self.moments[0].inSeconds))
        )
        if task == nil { task = Task { await self.run() } }  // Awaited by `shutdown`.
    }

    /// Stops watching.
    func shutdown() async {
        isEnded = true
        task?.cancel()
        await task?.value
    }

    private func run() async {
        while !Task.isCancelled, let next = entries.map(\.due).min() {
            let wait = next.timeIntervalSince(time.steady)
            if wait > 0 {
                do { try await time.sleep(for: .seconds(clamping: wait)) } catch { break }
            }
            await look()
        }
        task = nil
    }

    private func look() async {
        let now = time.steady
        let due = entries.filter { $0.due <= now }
        var reports: [String: OneSignalMessages.Report] = [:]
        if due.count > Self.listThreshold, let newest = try? await messages.list() {
            for report in newest { reports[report.id] = report }
        }
        for entry in due where !Task.isCancelled {
            var report = reports[entry.id]
            if report == nil { report = try? await messages.report(of: entry.id) }
            update(entry.id, report)
        }
    }

    private func update(_ id: String, _ report: OneSignalMessages.Report?) {
        guard let index = entries.firstIndex(where: { $0.id == id }) else { return }
        if let report, report.completedAt != nil {
            let entry = entries.remove(at: index)
            let missing = entry.expected - report.successful - report.failed - report.errored
            guard missing > 0 else { return }
            announce(
                BackendNotice(
                    .error,
                    "shortfall",
                    message: "OneSignal does not know \(missing) of the \(entry.expected) ids of a message.",
                    detail: [
                        "message": .string(id), "named": .integer(Int64(entry.expected)),
                        "unknown": .integer(Int64(missing)),
                    ]
                )
            )
            return
        }
        entries[index].looks += 1
        guard entries[index].looks < Self.moments.count else {
            entries.remove(at: index)
            return
        }
        entries[index].due = entries[index].sentAt.addingTimeInterval(Self.moments[entries[index].looks].inSeconds)
    }
}
