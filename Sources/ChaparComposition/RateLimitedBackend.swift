internal import Foundation
internal import Synchronization
public import ChaparCore

/// A wrapper that sends no faster than a quota allows: messages wait for their turn, and are refused if that takes too
/// long.
///
/// A refusal has the reason `rate_limited` and advises when to try again. A message does not wait beyond its time to
/// live: it is refused for good with `expired`, and with a time to live of 0 it does not wait at all.
public struct RateLimitedBackend: BackendWrapper {
    /// The backend whose rate is limited.
    public let wrapped: any PushBackend
    private let core: Core
    private let maximumWait: Duration
    private let maximumWaiting: Int
    private let isUrgent: @Sendable (PushNotification) -> Bool
    private let time: any TimeSource

    /// The state that all copies of the value share.
    private final class Core: Sendable {
        let bucket: Mutex<TokenBucket>
        let waiting = Mutex(0)
        init(_ bucket: TokenBucket) { self.bucket = Mutex(bucket) }
    }

    /// Wraps a backend.
    ///
    /// - Parameters:
    ///   - wrapped: The backend whose rate is limited.
    ///   - pacing: The quota.
    ///   - maximumWait: The longest time a message may wait for its turn.
    ///   - maximumWaiting: The most messages that may wait at a time; further messages are refused at once.
    ///   - isUrgent: Whether a message may use ``ChaparCore/Pacing/urgentShare``; by default messages of high priority
    ///     may.
    public init(
        _ wrapped: any PushBackend,
        pacing: Pacing,
        maximumWait: Duration = .seconds(30),
        maximumWaiting: Int = 100_000,
        isUrgent: @escaping @Sendable (PushNotification) -> Bool = { $0.priority == .high }
    ) {
        self.init(
            wrapped,
            pacing: pacing,
            maximumWait: maximumWait,
            maximumWaiting: maximumWaiting,
            isUrgent: isUrgent,
            time: SystemTime()
        )
    }

    /// Does the same with a clock of its own, for tests.
    package init(
        _ wrapped: any PushBackend,
        pacing: Pacing,
        maximumWait: Duration = .seconds(30),
        maximumWaiting: Int = 100_000,
        isUrgent: @escaping @Sendable (PushNotification) -> Bool = { $0.priority == .high },
        time: any TimeSource
    ) {
        self.wrapped = wrapped
        core = Core(TokenBucket(pacing, at: time.steady))
        self.maximumWait = maximumWait
        self.maximumWaiting = maximumWaiting
        self.isUrgent = isUrgent
        self.time = time
    }

    /// None, since this wrapper keeps the rate itself.
    public var pacing: Pacing? { nil }

    /// Sends in parts, as the quota allows, urgent messages first.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let start = time.steady
        let requests = requests.fixingExpiry(at: time.now)
        let ends = requests.map { $0.end(at: start, time) }
        let indices = BatchIndex.all(in: requests)
        let admitted = core.waiting.withLock { waiting in
            let admitted = min(indices.count, max(0, maximumWaiting - waiting))
            waiting += admitted
            return admitted
        }
        if admitted < indices.count { refuse(indices[admitted...], after: .seconds(1), report) }
        let urgent = requests.map { isUrgent($0.notification) }
        let lines = [
            indices[..<admitted].filter { urgent[$0.request] }, indices[..<admitted].filter { !urgent[$0.request] },
        ]
        await withDiscardingTaskGroup { tasks in
            let end = start.addingTimeInterval(maximumWait.inSeconds)
            for (line, isUrgent) in zip(lines, [true, false]) {
                var rest = WaitingLine(line, ends)
                while !rest.isEmpty {
                    let now = time.steady
                    let (granted, retryAt) = core.bucket.withLock {
                        $0.reserve(rest.count, isUrgent: isUrgent, at: now)
                    }
                    if granted > 0 {
                        let part = SubBatch(rest.take(granted), of: requests)
                        core.waiting.withLock { $0 -= granted }
                        tasks.addTask {
                            await part.send(through: wrapped) { report($0.map { $0.index.report($0.outcome) }) }
                        }
                        continue
                    }
                    let span = Duration.milliseconds(
                        Int64(clamping: max(1, (retryAt.timeIntervalSince(now) * 1000).rounded(.up)))
                    )
                    let late = rest.takeExpired(at: retryAt)
                    if !late.isEmpty {
                        core.waiting.withLock { $0 -= late.count }
                        report(late.map { $0.report(.refused(.expired)) })
                        continue
                    }
                    if retryAt <= end, (try? await time.sleep(for: span)) != nil { continue }
                    core.waiting.withLock { $0 -= rest.count }
                    refuse(rest.take(rest.count), after: span, report)
                }
            }
        }
    }

    private func refuse(
        _ indices: ArraySlice<BatchIndex>,
        after span: Duration,
        _ report: @Sendable ([DeliveryReport]) -> Void
    ) {
        let refusal = Refusal(
            .platform,
            reason: Task.isCancelled ? GatewayReason.cancelled : GatewayReason.rateLimited,
            detail: Task.isCancelled ? nil : "not sent, since the backend's quota is used up",
            advice: .retry(after: span)
        )
        report(indices.map { $0.report(.refused(refusal)) })
    }
}
