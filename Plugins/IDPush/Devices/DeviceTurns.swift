import Foundation
import PushCore

/// Lets one operation of a device run at a time, with a span between two writes.
///
/// OneSignal takes one write a second for each subscription. Waiting callers are bounded.
actor DeviceTurns {
    private struct Line {
        var isBusy = true
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The most callers that may wait for one device.
    static let longestLine = 100

    private let time: any TimeSource
    private let spacing: Duration
    private var lines: [String: Line] = [:]
    private var ended: [String: Date] = [:]

    init(time: any TimeSource, spacing: Duration) {
        self.time = time
        self.spacing = spacing
    }

    /// Runs `body` when nobody else works on the device; `body` must end on its own.
    func run<Value: Sendable>(
        _ device: String,
        _ body: @Sendable () async throws(PushError) -> Value
    ) async throws(PushError) -> Value {
        try await enter(device)
        defer { leave(device) }
        if let last = ended[device] {
            let left = last.addingTimeInterval(spacing.inSeconds).timeIntervalSince(time.steady)
            if left > 0 {
                do {
                    try await time.sleep(for: .seconds(clamping: min(left, spacing.inSeconds)))
                } catch {
                    throw PushError(.unavailable, "the caller was cancelled", reason: "cancelled")
                }
            }
        }
        defer { note(device) }
        return try await body()
    }

    private func note(_ device: String) {
        guard spacing > .zero else { return }
        if ended.count > 10_000 {
            let old = time.steady.addingTimeInterval(-spacing.inSeconds)
            ended = ended.filter { $0.value > old }
        }
        ended[device] = time.steady
    }

    private func enter(_ device: String) async throws(PushError) {
        guard lines[device] != nil else {
            lines[device] = Line()
            return
        }
        guard lines[device, default: Line()].waiting.count < Self.longestLine else {
            throw PushError(.rateLimited, "too much waits for this device", reason: "device_busy")
        }
        await withCheckedContinuation { lines[device]?.waiting.append($0) }
    }

    private func leave(_ device: String) {
        guard var line = lines[device] else { return }
        guard !line.waiting.isEmpty else {
            lines[device] = nil
            return
        }
        let next = line.waiting.removeFirst()
        lines[device] = line
        next.resume()
    }
}

/// A budget of requests that a platform grants: callers wait for their turn, not longer than the patience.
actor RequestBudget {
    /// The most callers that may wait.
    static let longestLine = 10_000

    private let time: any TimeSource
    private var bucket: TokenBucket
    private var pausedUntil: Date?
    private var waiting = 0

    init(perSecond: Double, time: any TimeSource) {
        self.time = time
        bucket = TokenBucket(Pacing(perSecond: perSecond, burst: .seconds(1)), at: time.steady)
    }

    /// Waits for a turn; throws when it would take longer than `patience`.
    func take(patience: Duration) async throws(PushError) {
        let end = time.steady.addingTimeInterval(patience.inSeconds)
        while true {
            let now = time.steady
            let ready: Date
            if let pausedUntil, now < pausedUntil {
                ready = pausedUntil
            } else {
                let (granted, retryAt) = bucket.take(1, at: now)
                if granted > 0 { return }
                ready = retryAt
            }
            let wait = Duration.seconds(clamping: max(ready.timeIntervalSince(now), 0.001))
            guard ready <= end, waiting < Self.longestLine else {
                throw PushError(.rateLimited, "the platform's quota is used up", reason: "quota", retryAfter: wait)
            }
            waiting += 1
            defer { waiting -= 1 }
            do {
                try await time.sleep(for: wait)
            } catch {
                throw PushError(.unavailable, "the caller was cancelled", reason: "cancelled")
            }
        }
    }

    /// Grants nothing for a while: the platform said so.
    func pause(_ span: Duration) {
        let end = time.steady.addingTimeInterval(span.inSeconds)
        if pausedUntil.map({ $0 < end }) ?? true { pausedUntil = end }
    }
}

/// Keeps the messages to an app within OneSignal's limit, beyond which it disables the app until a person acts.
actor MessageShare {
    private static let window = Duration.seconds(900)

    private let limit: Int
    private let time: any TimeSource
    private var sent: [(at: Date, count: Int)] = []
    private var total = 0

    /// A limit of 0 is none.
    init(limit: Int, time: any TimeSource) {
        self.limit = limit
        self.time = time
    }

    /// Takes up room for so many recipients; nil when there is, else how long until there may be.
    func take(_ count: Int) -> Duration? {
        guard limit > 0 else { return nil }
        let now = time.steady
        let old = now.addingTimeInterval(-Self.window.inSeconds)
        while let first = sent.first, first.at <= old {
            total -= first.count
            sent.removeFirst()
        }
        guard total + count <= limit else {
            guard let first = sent.first else { return Self.window }  // One send alone is more than the limit.
            return .seconds(clamping: first.at.addingTimeInterval(Self.window.inSeconds).timeIntervalSince(now))
        }
        total += count
        sent.append((now, count))
        return nil
    }
}
