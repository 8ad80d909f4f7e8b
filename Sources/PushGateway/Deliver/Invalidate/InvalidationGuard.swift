internal import Foundation
internal import PushCore

/// Counts the share of dead-token answers of one backend, and trips when it is too high to be true.
///
/// A wrong environment or topic makes a platform call every token dead. So above a share the guard trips: those of the
/// window are taken back, further ones are held back, and an operator decides. Answers that a wrong configuration
/// explains as well (`BadDeviceToken`) have a low threshold; those that only a dead token explains (410 with the time,
/// `UNREGISTERED`) a high one, since an old base has many of them. Pure: time comes in, a verdict goes out.
struct InvalidationGuard: Sendable {
    /// What to do with the dead-token answers that were just noted.
    enum Verdict: Equatable {
        /// Bury the tokens.
        case invalidate
        /// Hold them back, and those since a moment as well: there have just become too many.
        case trip(Trip)
        /// Hold them back.
        case quarantine
    }

    /// Why the guard of a backend tripped.
    struct Trip: Equatable, Sendable {
        /// When the share was too large, as a time of day.
        var at: Date
        /// Refusals since then are quarantined, as a time of day.
        var since: Date
        /// Answers of the platform in the window.
        var answers: Int
        /// Those that declared a token dead.
        var dead: Int
        /// Those of ``dead`` that were certain.
        var certain: Int

        /// The sentence for operators.
        func explanation(window: Duration) -> String {
            "\(dead) of the last \(answers) answers within \(Int(clamping: window.inSeconds)) s declared the device token dead"
                + " (\(certain) for certain). "
                + "A wrong environment (sandbox tokens sent to production, or the other way round), a wrong topic or a "
                + "wrong project looks exactly like this. No device was lost: check the configuration, then discard "
                + "the verdicts if it was wrong, or release them if the tokens are dead."
        }
    }

    private struct Counts {
        var answers = 0
        var uncertain = 0
        var certain = 0
        /// The earliest time of day of what was counted; nil when nothing was.
        var earliest: Date?
    }

    private static let buckets = 30

    let settings: GatewayConfiguration.InvalidationGuard
    /// Set while refusals are quarantined.
    private(set) var trip: Trip?
    private var counts: [Counts]
    /// The number of the bucket that counts now; a bucket is a 30th of the window.
    private var current = 0
    /// The sums over the window.
    private var sums = Counts()
    /// Until then, by the steady clock, refusals are not counted, because an operator has just said so.
    private var trustedUntil = Date.distantPast

    init(_ settings: GatewayConfiguration.InvalidationGuard, trip: Trip? = nil) {
        self.settings = settings
        self.trip = trip
        counts = Array(repeating: Counts(), count: Self.buckets)
    }

    /// Notes answers that another gateway got: they count, and the next one of this gateway decides.
    mutating func count(answers: Int, uncertain: Int, certain: Int, at now: TimeReading) {
        guard trip == nil, settings.isEnabled else { return }
        advance(to: now.steady)
        let bucket = current % Self.buckets
        counts[bucket].answers += answers
        counts[bucket].uncertain += uncertain
        counts[bucket].certain += certain
        counts[bucket].earliest = min(counts[bucket].earliest ?? now.wall, now.wall)
        sums.answers += answers
        sums.uncertain += uncertain
        sums.certain += certain
    }

    /// Holds refusals back since another gateway does; false when they are held already.
    mutating func hold(_ trip: Trip) -> Bool {
        guard self.trip == nil else { return false }
        self.trip = trip
        return true
    }

    /// Notes answers of the platform, and how many of them declared a token dead: doubtfully, and for certain.
    mutating func add(answers: Int, uncertain: Int, certain: Int, at now: TimeReading) -> Verdict {
        if trip != nil { return .quarantine }
        guard settings.isEnabled else { return .invalidate }
        count(answers: answers, uncertain: uncertain, certain: certain, at: now)
        guard uncertain + certain > 0, now.steady >= trustedUntil, sums.answers >= settings.minimumAnswers,
            Double(sums.uncertain) > settings.share * Double(sums.answers)
                || Double(sums.certain) > settings.certainShare * Double(sums.answers)
        else { return .invalidate }
        // Nothing that was buried within the window, or in the same millisecond as its beginning, stays buried; the clock
        // may have been set meanwhile.
        let start = now.wall.addingTimeInterval(-settings.window.inSeconds)
        let since = counts.compactMap(\.earliest).reduce(start, min).addingTimeInterval(-1)
        let new = Trip(
            at: now.wall,
            since: since,
            answers: sums.answers,
            dead: sums.uncertain + sums.certain,
            certain: sums.certain
        )
        trip = new
        return .trip(new)
    }

    /// Resets the guard: counting begins anew.
    ///
    /// `isTrusting` lets all refusals of the next window pass, whatever their share; `now` is by the steady clock.
    mutating func reset(isTrusting: Bool, at now: Date) {
        trip = nil
        clear()
        trustedUntil = isTrusting ? now.addingTimeInterval(settings.window.inSeconds) : .distantPast
    }

    private mutating func clear() {
        counts = Array(repeating: Counts(), count: Self.buckets)
        sums = Counts()
    }

    /// Lets go of what is older than the window.
    private mutating func advance(to now: Date) {
        let bucket = Int(clamping: now.timeIntervalSince1970 * Double(Self.buckets) / settings.window.inSeconds)
        guard bucket > current else { return }
        if bucket - current >= Self.buckets {
            clear()
        } else {
            for old in current + 1...bucket {
                sums.answers -= counts[old % Self.buckets].answers
                sums.uncertain -= counts[old % Self.buckets].uncertain
                sums.certain -= counts[old % Self.buckets].certain
                counts[old % Self.buckets] = Counts()
            }
        }
        current = bucket
    }
}
