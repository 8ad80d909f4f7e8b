internal import Foundation
internal import PushCore
internal import Synchronization

/// The parts of a project that must pause while the rest goes on.
///
/// A delivery worker pauses as a whole; but a wrong APNs key in the Firebase console stops iOS only, and the quota of topics
/// stops topics only. What is held is refused here, with the time that is left, and never leaves.
final class FCMPartialPauses: Sendable {
    /// A part of a project.
    enum Part: Hashable, Sendable {
        /// Tokens of Apple devices.
        case iOS
        /// Tokens of browsers.
        case web
        /// Topics and conditions.
        case topics
    }

    /// How long a part pauses before the next message tries again.
    static let span = Duration.seconds(60)

    private struct Hold {
        var until: Date
        var refusal: Refusal
    }

    private let pauses = Mutex<[Part: Hold]>([:])

    /// Begins a pause; one that lasts longer stays in force.
    func hold(_ part: Part, for span: Duration, after outcome: DeliveryOutcome, at now: Date) {
        guard case .refused(let refusal) = outcome else { return }
        let until = now.addingTimeInterval(span.inSeconds)
        pauses.withLock { pauses in
            if let known = pauses[part], known.until >= until { return }
            pauses[part] = Hold(until: until, refusal: refusal)
        }
    }

    /// The refusal of a message to `target`, with the rest of the pause; nil when it may go out.
    func refusal(of target: FCMTarget.Class, at now: Date) -> Refusal? {
        pauses.withLock { pauses in
            guard !pauses.isEmpty, let part = target.part, let hold = pauses[part] else { return nil }
            let rest = hold.until.timeIntervalSince(now)
            guard rest > 0 else {
                pauses[part] = nil
                return nil
            }
            var refusal = hold.refusal
            refusal.advice = .retry(after: .seconds(clamping: rest.rounded(.up)))
            return refusal
        }
    }

    /// What is held now, in a sentence; nil when nothing is.
    func detail(at now: Date) -> String? {
        pauses.withLock { pauses in
            let texts = pauses.values.filter { $0.until > now }.map { $0.refusal.detail ?? $0.refusal.reason }
            return texts.isEmpty ? nil : texts.sorted().joined(separator: " ")
        }
    }
}
