internal import Foundation
internal import PushCore

/// Watches the share of dead-token answers of one backend, and says when there are too many to be true.
///
/// A wrong environment or topic makes a platform call every token dead. So above a share the verdicts are doubted: those
/// of the window are taken back, further ones are held back, and an operator decides. Pure: time comes in, a verdict goes
/// out.
struct InvalidationGuard: Sendable {
    /// What to do with the dead-token answers that were just noted.
    enum Verdict: Equatable {
        /// Bury the tokens.
        case bury
        /// Hold them back, and those since a moment as well: there have just become too many.
        case trip(Trip)
        /// Hold them back.
        case hold
    }

    /// Why the verdicts of a backend are doubted.
    struct Trip: Equatable, Sendable {
        /// When the share was too large.
        var at: Date
        /// Verdicts since then are doubted.
        var since: Date
        /// Answers of the platform in the window.
        var answers: Int
        /// Those that declared a token dead.
        var dead: Int

        /// The sentence for operators.
        func explanation(window: Duration) -> String {
            "\(dead) of the last \(answers) answers within \(Int(window.inSeconds)) s declared the device token dead. "
                + "A wrong environment (sandbox tokens sent to production, or the other way round), a wrong topic or a "
                + "wrong project looks exactly like this. No device was lost: check the configuration, then discard "
                + "the verdicts if it was wrong, or release them if the tokens are dead."
        }
    }

    private static let buckets = 30

    let settings: GatewayConfiguration.InvalidationGuard
    /// Set while verdicts are held back.
    private(set) var trip: Trip?
    private var counts: [(answers: Int, dead: Int)]
    /// The number of the bucket that counts now; a bucket is a 30th of the window.
    private var current = 0
    private var answers = 0
    private var dead = 0
    /// Until then verdicts are believed, because an operator has just said so.
    private var trustedUntil = Date.distantPast

    init(_ settings: GatewayConfiguration.InvalidationGuard, trip: Trip? = nil) {
        self.settings = settings
        self.trip = trip
        counts = Array(repeating: (0, 0), count: Self.buckets)
    }

    /// Notes answers of the platform, and how many of them declared a token dead.
    mutating func note(answers: Int, dead: Int, at now: Date) -> Verdict {
        if trip != nil { return .hold }
        guard settings.isEnabled else { return .bury }
        advance(to: now)
        counts[current % Self.buckets].answers += answers
        counts[current % Self.buckets].dead += dead
        self.answers += answers
        self.dead += dead
        guard dead > 0, now >= trustedUntil, self.answers >= settings.minimumAnswers,
            Double(self.dead) > settings.share * Double(self.answers)
        else { return .bury }
        // Nothing that was buried within the window, or in the same millisecond as its beginning, stays buried.
        let since = now.addingTimeInterval(-settings.window.inSeconds - 1)
        let new = Trip(at: now, since: since, answers: self.answers, dead: self.dead)
        trip = new
        return .trip(new)
    }

    /// Ends the doubt: counting begins anew.
    ///
    /// `isTrusting` believes the verdicts of the next window, whatever their share.
    mutating func settle(isTrusting: Bool, at now: Date) {
        trip = nil
        clear()
        trustedUntil = isTrusting ? now.addingTimeInterval(settings.window.inSeconds) : .distantPast
    }

    private mutating func clear() {
        counts = Array(repeating: (0, 0), count: Self.buckets)
        answers = 0
        dead = 0
    }

    /// Lets go of what is older than the window.
    private mutating func advance(to now: Date) {
        let bucket = Int(now.timeIntervalSince1970 * Double(Self.buckets) / settings.window.inSeconds)
        guard bucket > current else { return }  // A clock that went back counts into the newest.
        if bucket - current >= Self.buckets {
            clear()
        } else {
            for old in current + 1...bucket {
                answers -= counts[old % Self.buckets].answers
                dead -= counts[old % Self.buckets].dead
                counts[old % Self.buckets] = (0, 0)
            }
        }
        current = bucket
    }
}
