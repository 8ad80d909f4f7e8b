internal import Foundation
internal import PushCore

/// Counts the share of dead-token answers of one backend, and trips when it is too high to be true.
///
/// A wrong environment or topic makes a platform call every token dead. So above a share the guard trips: those of the
/// window are taken back, further ones are held back, and an operator decides. Answers that a wrong configuration
/// explains as well (`BadDeviceToken`) have a low threshold; those that only a dead token explains (410 with the time,
/// `UNREGISTERED`) a high one, since an old base has many of them.
///
/// A caller that sends to made-up tokens must not stop a backend for the others. So when the share would be in order
/// without one caller, and the platform has accepted a message under this configuration, only the refusals of this
/// caller are held back and the guard does not trip. It does when a second caller follows within the window. Answers
/// without an API key belong to no caller: they always count for all.
///
/// Pure: time comes in, a verdict goes out.
struct InvalidationGuard: Sendable {
    /// What to do with the dead-token answers that were just noted.
    enum Verdict: Equatable {
        /// Bury the tokens.
        case invalidate
        /// Hold them back, and those since a moment as well: there have just become too many.
        case trip(Trip)
        /// Hold back those of one caller, and those since a moment as well: this caller alone causes too many.
        case hold(caller: String, Trip)
        /// Hold them back.
        case quarantine
    }

    /// Whose dead-token answers are not believed.
    enum Doubt: Equatable, Sendable {
        /// Those of every caller: the guard is tripped.
        case all
        /// Those of some callers, which are none as a rule.
        case callers(Set<String>)

        /// Whether it is about the answers to a caller's messages.
        func covers(_ caller: String) -> Bool {
            switch self {
            case .all: true
            case .callers(let held): held.contains(caller)
            }
        }
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

        /// The sentence for operators when one caller alone is the cause; it does not name the caller.
        func explanationOfOneCaller(window: Duration) -> String {
            "\(dead) of the last \(answers) answers within \(Int(clamping: window.inSeconds)) s declared the token dead"
                + " (\(certain) for certain), and too many of them only because of one API key. "
                + "What is declared dead of this key is held back, and the backend goes on for all. "
                + "No device was lost: release the verdicts if the tokens are dead, or discard them if they are not."
        }
    }

    private struct Bucket {
        var counts = AnswerCounts()
        /// The earliest time of day of what was counted; nil when nothing was.
        var earliest: Date?
    }

    private static let bucketCount = 30

    let settings: GatewayConfiguration.InvalidationGuard
    /// Set while refusals are quarantined.
    private(set) var trip: Trip?
    /// The callers whose refusals alone are quarantined, with the time of the beginning by the steady clock.
    private(set) var held: [String: Date]
    /// The sums over the window.
    private(set) var sums = AnswerCounts()
    /// Which platform and account the backend has, see `BackendRegistry.ConfiguredBackend.identity`.
    private(set) var identity = ""
    /// Whether the platform has accepted a message under ``identity``.
    private(set) var hasAccepted = false
    /// When this gateway last had a message accepted under ``identity``, by the steady clock.
    private var acceptedAt = Date.distantPast
    private var buckets: [Bucket]
    /// The number of the bucket that counts now; a bucket is a 30th of the window.
    private var current = 0
    /// Until then, by the steady clock, refusals are not counted, because an operator has just said so.
    private var trustedUntil = Date.distantPast

    /// Makes a guard that has counted nothing; `trip` and `held` are what one before it has left.
    init(_ settings: GatewayConfiguration.InvalidationGuard, trip: Trip? = nil, held: Set<String> = []) {
        self.settings = settings
        self.trip = trip
        self.held = Dictionary(held.map { ($0, Date.distantPast) }) { first, _ in first }
        buckets = Array(repeating: Bucket(), count: Self.bucketCount)
    }

    /// Whose refusals are quarantined.
    var doubt: Doubt { trip == nil ? .callers(Set(held.keys)) : .all }

    /// Puts other settings in force: counting begins anew, what is held stays held.
    mutating func adopt(_ settings: GatewayConfiguration.InvalidationGuard) {
        guard self.settings != settings else { return }
        var new = InvalidationGuard(settings, trip: trip)
        new.held = held
        new.identity = identity
        (new.hasAccepted, new.acceptedAt) = (hasAccepted, acceptedAt)
        self = new
    }

    /// Notes which platform and account the backend has: what another one has accepted shows nothing.
    mutating func adopt(identity: String) {
        guard self.identity != identity else { return }
        self.identity = identity
        (hasAccepted, acceptedAt) = (false, .distantPast)
    }

    /// Notes that the platform has accepted a message under an identity.
    ///
    /// `time` is when, by the steady clock; nil where another gateway had it at a time that is not known.
    mutating func noteAcceptance(under identity: String, at time: Date?) {
        guard identity == self.identity else { return }
        hasAccepted = true
        if let time { acceptedAt = max(acceptedAt, time) }
    }

    /// Notes answers that another gateway got: they count, and the next one of this gateway decides.
    mutating func count(_ new: AnswerCounts, at now: TimeReading) { _ = countUndoubted(new, at: now) }

    /// Counts answers without the refusals of callers that are held; returns how many declared a token dead.
    private mutating func countUndoubted(_ new: AnswerCounts, at now: TimeReading) -> Int {
        guard trip == nil, settings.isEnabled else { return 0 }
        advance(to: now.steady)
        var new = new
        if !new.callers.isEmpty {
            for caller in held.keys { new.remove(caller) }
        }
        sums.add(new)
        // The sums have every caller that a bucket has: else a bucket that ends would leave some of it behind.
        if !new.callers.isEmpty { new.callers = new.callers.filter { sums.callers[$0.key] != nil } }
        let bucket = current % Self.bucketCount
        buckets[bucket].counts.add(new)
        buckets[bucket].earliest = min(buckets[bucket].earliest ?? now.wall, now.wall)
        return new.dead.total
    }

    /// Holds refusals back since another gateway does; false when they are held already.
    mutating func hold(_ trip: Trip) -> Bool {
        guard self.trip == nil else { return false }
        self.trip = trip
        return true
    }

    /// Notes answers of the platform, and how many of them declared a token dead: doubtfully, and for certain.
    ///
    /// The verdict is about those whose caller is not held already; see ``doubt``.
    mutating func add(_ counts: AnswerCounts, at now: TimeReading) -> Verdict {
        if trip != nil { return .quarantine }
        guard settings.isEnabled else { return .invalidate }
        let dead = countUndoubted(counts, at: now)
        guard dead > 0, now.steady >= trustedUntil, isTooMuch(sums) else { return .invalidate }
        // Nothing that was buried within the window, or in the same millisecond as its beginning, stays buried; the
        // clock may have been set meanwhile.
        let start = now.wall.addingTimeInterval(-settings.window.inSeconds)
        let since = buckets.compactMap(\.earliest).reduce(start, min).addingTimeInterval(-1)
        let all = sums.dead
        let new = Trip(at: now.wall, since: since, answers: sums.answers, dead: all.total, certain: all.certain)
        if hasAccepted, !hasHeldLately(at: now.steady), let caller = onlyCause {
            held[caller] = now.steady
            for index in buckets.indices { buckets[index].counts.remove(caller) }
            sums = buckets.reduce(into: AnswerCounts()) { $0.add($1.counts) }
            return .hold(caller: caller, new)
        }
        trip = new
        return .trip(new)
    }

    private func isTooMuch(_ counts: AnswerCounts) -> Bool {
        counts.answers >= settings.minimumAnswers
            && (Double(counts.dead.uncertain) > settings.share * Double(counts.answers)
                || Double(counts.dead.certain) > settings.certainShare * Double(counts.answers))
    }

    /// The caller without whose dead-token answers there are not too many; that with the most of several, nil for none.
    private var onlyCause: String? {
        sums.callers.filter { !isTooMuch(sums.without($0.value)) }
            .max { ($0.value.total, $1.key) < ($1.value.total, $0.key) }?.key
    }

    /// Whether a caller was held within the window, and nothing was accepted since: another one then shows that the
    /// cause is no single caller.
    private func hasHeldLately(at now: Date) -> Bool {
        held.values.contains { now.timeIntervalSince($0) < settings.window.inSeconds && acceptedAt <= $0 }
    }

    /// Resets the guard: counting begins anew.
    ///
    /// `isTrusting` lets all refusals of the next window pass, whatever their share; `now` is by the steady clock.
    mutating func reset(isTrusting: Bool, at now: Date) {
        trip = nil
        held = [:]
        clear()
        trustedUntil = isTrusting ? now.addingTimeInterval(settings.window.inSeconds) : .distantPast
    }

    private mutating func clear() {
        buckets = Array(repeating: Bucket(), count: Self.bucketCount)
        sums = AnswerCounts()
    }

    /// Lets go of what is older than the window.
    private mutating func advance(to now: Date) {
        let bucket = Int(clamping: now.timeIntervalSince1970 * Double(Self.bucketCount) / settings.window.inSeconds)
        guard bucket > current else { return }
        if bucket - current >= Self.bucketCount {
            clear()
        } else {
            for old in current + 1...bucket {
                sums.subtract(buckets[old % Self.bucketCount].counts)
                buckets[old % Self.bucketCount] = Bucket()
            }
        }
        current = bucket
    }
}
