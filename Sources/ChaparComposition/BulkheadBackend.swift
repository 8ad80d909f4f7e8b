internal import Foundation
public import ChaparCore

/// A wrapper that limits the messages in flight and those that wait, so that a slow backend cannot take all memory and
/// time of a process.
///
/// Messages beyond both limits are refused at once with `bulkhead_full` and retry advice. A message does not wait
/// beyond its time to live: it is refused for good with `expired`. With a time to live of 0 it does not wait at all.
public struct BulkheadBackend: BackendWrapper {
    /// The backend behind the limits.
    public let wrapped: any PushBackend
    private let permits: Permits
    private let limit: Int
    private let maximumWait: Duration
    private let time: any TimeSource

    /// Wraps a backend.
    ///
    /// - Parameters:
    ///   - wrapped: The backend behind the limits.
    ///   - limit: The most messages in flight at a time, at least 1.
    ///   - waiting: The most further messages that may wait.
    ///   - maximumWait: The longest time a message may wait.
    public init(
        _ wrapped: any PushBackend,
        limit: Int,
        waiting: Int = 1_000,
        maximumWait: Duration = .seconds(30)
    ) {
        self.init(
            wrapped,
            limit: limit,
            waiting: waiting,
            maximumWait: maximumWait,
            time: SystemTime()
        )
    }

    /// Does the same with a clock of its own, for tests.
    package init(
        _ wrapped: any PushBackend,
        limit: Int,
        waiting: Int = 1_000,
        maximumWait: Duration = .seconds(30),
        time: any TimeSource
    ) {
        self.wrapped = wrapped
        self.limit = max(1, limit)
        self.maximumWait = maximumWait
        self.time = time
        permits = Permits(self.limit, waiting: max(0, waiting))
    }

    /// The wrapped backend's window, within the limit.
    public var window: Int? { min(limit, wrapped.window ?? limit) }

    /// The number of messages in flight now.
    public var inFlight: Int { limit - permits.free }

    /// Sends in parts, as permits become free.
    public func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        let start = time.steady
        let requests = requests.fixingExpiry(at: time.now)
        let ends = requests.map { $0.end(at: start, time) }
        let indices = BatchIndex.all(in: requests)
        let admitted = permits.enter(indices.count)
        if admitted < indices.count { refuse(indices[admitted...], report) }
        await withDiscardingTaskGroup { tasks in
            let end = start.addingTimeInterval(maximumWait.inSeconds)
            var rest = WaitingLine(Array(indices[..<admitted]), ends)
            while !rest.isEmpty {
                let until = min(end, rest.firstEnd ?? end)
                let granted = await permits.reserve(rest.count, until: until, time: time)
                guard granted > 0 else {
                    let now = time.steady
                    if !Task.isCancelled {
                        let late = rest.takeExpired(at: now)
                        permits.leave(late.count)
                        if !late.isEmpty { report(late.map { $0.report(.refused(.expired)) }) }
                        if now < end || rest.isEmpty { continue }
                    }
                    permits.leave(rest.count)
                    refuse(rest.take(rest.count), report)
                    break
                }
                let part = SubBatch(rest.take(granted), of: requests)
                tasks.addTask {
                    await part.send(through: wrapped) { answers in
                        permits.giveBack(answers.count)
                        report(answers.map { $0.index.report($0.outcome) })
                    }
                }
            }
        }
    }

    private func refuse(_ indices: ArraySlice<BatchIndex>, _ report: @Sendable ([DeliveryReport]) -> Void) {
        let refusal = Refusal(
            .platform,
            reason: Task.isCancelled ? GatewayReason.cancelled : GatewayReason.bulkheadFull,
            detail: Task.isCancelled ? nil : "not sent, since too many messages wait for the backend",
            advice: .retry(after: .seconds(1))
        )
        report(indices.map { $0.report(.refused(refusal)) })
    }
}
