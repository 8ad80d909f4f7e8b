internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The parts of a project that must pause while the rest goes on.
///
/// A delivery worker can only pause all messages of its backend. But a wrong APNs key in the Firebase console stops iOS
/// only, and the quota of topics stops topics only. So messages to a paused part are refused here, with the remaining
/// time, and never sent.
final class FCMPartialPauses: Sendable {
    /// The pause of a part after a refusal for a broken key, before the next message is tried.
    static let span = FCMRejections.partPause
    /// The pause after the first such answer, which alone does not prove a broken key; a second one after this pause
    /// does.
    static let firstSpan = Duration.milliseconds(500)
    /// The time after the end of a pause from which the next such answer counts as the first again.
    private static let memory = Duration.seconds(60)

    private struct Hold {
        var until: Date
        var refusal: Refusal

        /// Whether another answer after this one counts as the first.
        func isForgotten(at now: Date) -> Bool { now >= until.addingTimeInterval(FCMPartialPauses.memory.inSeconds) }
    }

    private let pauses = Mutex<[FCMTarget.Part: Hold]>([:])

    /// Begins a pause.
    ///
    /// A longer pause stays in force; the first pause for a broken key is short.
    func hold(_ part: FCMTarget.Part, for span: Duration, after outcome: DeliveryOutcome, at now: Date) {
        guard case .refused(let refusal) = outcome else { return }
        pauses.withLock { pauses in
            let known = pauses[part]
            var span = span
            if part != .topics {
                // Messages that were sent together are refused together, which counts as one answer.
                if let known, known.until > now { return }
                if known?.isForgotten(at: now) ?? true { span = Self.firstSpan }
            }
            let until = now.addingTimeInterval(span.inSeconds)
            if let known, known.until >= until { return }
            pauses[part] = Hold(until: until, refusal: refusal)
        }
    }

    /// Returns the refusal of a message to `target`, with the rest of the pause; nil when it may go out.
    func refusal(of target: FCMTarget.Class, at now: Date) -> Refusal? {
        pauses.withLock { pauses in
            guard !pauses.isEmpty, let part = target.part, let hold = pauses[part] else { return nil }
            let rest = hold.until.timeIntervalSince(now)
            guard rest > 0 else {
                if hold.isForgotten(at: now) { pauses[part] = nil }
                return nil
            }
            var refusal = hold.refusal
            refusal.advice = .retry(after: .milliseconds(clamping: (rest * 1000).rounded(.up)))
            return refusal
        }
    }

    /// Returns why parts are paused now, as text; nil when none is.
    func detail(at now: Date) -> String? {
        pauses.withLock { pauses in
            let texts = pauses.values.filter { $0.until > now }.map { $0.refusal.detail ?? $0.refusal.reason }
            return texts.isEmpty ? nil : texts.sorted().joined(separator: " ")
        }
    }
}
