import Foundation
package import ChaparCore

/// Runs the operations of one device one after another, with a minimum span between the ends of two.
///
/// OneSignal takes one write a second for each subscription. At most ``longestLine`` callers wait for one device;
/// further ones get `device_busy`. The registrars of OneSignal and IDPush run every write through one.
package actor DeviceLimiter {
    private struct Line {
        var isBusy = true
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The most callers that may wait for one device.
    package static let longestLine = 100

    private let time: any TimeSource
    private let spacing: Duration
    private var lines: [String: Line] = [:]
    private var ended: [String: Date] = [:]

    package init(time: any TimeSource, spacing: Duration) {
        self.time = time
        self.spacing = spacing
    }

    /// Runs `body` when no other operation of the device runs; `body` must end on its own.
    package func run<Value: Sendable>(
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
        defer { recordEnd(device) }
        return try await body()
    }

    private func recordEnd(_ device: String) {
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
