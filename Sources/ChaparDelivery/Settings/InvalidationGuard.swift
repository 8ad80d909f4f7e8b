internal import Foundation
internal import ChaparCore

/// The guard of one backend, which trips when the share of dead-token answers is too high to be credible.
///
/// A wrong environment or topic makes a platform call every token dead. Above a share the guard trips: invalidations of
/// the window are taken back, further ones are quarantined, and an operator decides. Answers that a wrong configuration
/// can cause as well (`BadDeviceToken`) have a low threshold. Answers that only a dead token can cause (410 with the
/// time, `UNREGISTERED`) have a high threshold, since an app with old installations has many of them.
///
/// A caller that sends to made-up tokens must not stop a backend for other callers. If the share would be acceptable
/// without one caller, and the platform has accepted a message under this configuration, only this caller's refusals
/// are quarantined and the guard does not trip. It trips when a second caller follows within the window. Answers
/// without an API key belong to no caller: they always count for all.
///
/// It is a value without side effects: callers give it times, and it returns verdicts.
package struct InvalidationGuard: Sendable {
    /// The treatment of the dead-token answers that were just counted.
    enum Verdict: Equatable {
        /// Mark the tokens invalid.
        case invalidate
        /// Quarantine them, and those since a moment as well: the share has just become too high.
        case trip(Trip)
        /// Quarantine those of one caller, and those since a moment as well: this caller alone causes the excess.
        case quarantineCaller(String, Trip)
        /// Quarantine them.
        case quarantine
    }

    /// The callers whose dead-token answers are not believed.
    package enum Doubt: Equatable, Sendable {
        /// Every caller: the guard has tripped.
        case all
        /// Some callers, usually none.
        case callers(Set<String>)

        /// Whether it includes the answers to a caller's messages.
        package func covers(_ caller: String) -> Bool {
            switch self {
            case .all: true
            case .callers(let callers): callers.contains(caller)
            }
        }
    }

    /// The reason why the guard of a backend tripped.
    struct Trip: Equatable, Sendable {
        /// The time when the share became too high, on the wall clock.
        var at: Date
        /// The time since which refusals are quarantined, on the wall clock.
        var since: Date
        /// The platform's answers in the window.
        var answers: Int
        /// The answers that called a token dead.
        var dead: Int
        /// The part of ``dead`` that was certain.
        var certain: Int

        /// Returns the sentence for operators.
        func explanation(window: Duration) -> String {
            "\(dead) of the last \(answers) answers within \(Int(clamping: window.inSeconds)) s declared the device token dead"
                + " (\(certain) for certain). "
                + "A wrong environment (sandbox tokens sent to production, or the other way round), a wrong topic or a "
                + "wrong project looks exactly like this. No device was lost: check the configuration, then discard "
                + "the verdicts if it was wrong, or release them if the tokens are dead."
        }

        /// Returns the sentence for operators when one caller alone is the cause; it does not name the caller.
        func explanationOfOneCaller(window: Duration) -> String {
            "\(dead) of the last \(answers) answers within \(Int(clamping: window.inSeconds)) s declared the token dead"
                + " (\(certain) for certain), and too many of them only because of one API key. "
                + "What is declared dead of this key is quarantined, and the backend goes on for all. "
                + "No device was lost: release the verdicts if the tokens are dead, or discard them if they are not."
        }
    }

    private struct Bucket {
        var counts = AnswerCounts()
        /// The earliest wall-clock time of the counted answers; nil when there are none.
        var earliest: Date?
    }

    private static let bucketCount = 30

    let settings: GatewayConfiguration.InvalidationGuard
    /// The trip while refusals are quarantined; nil otherwise.
    private(set) var trip: Trip?
    /// The callers whose refusals alone are quarantined, with the steady time when that began.
    private(set) var quarantined: [String: Date]
    /// The sums over the window.
    private(set) var sums = AnswerCounts()
    /// The platform and account of the backend, see `BackendRegistry.ConfiguredBackend.identity`.
    private(set) var identity = ""
    /// Whether the platform has accepted a message under ``identity``.
    private(set) var hasAccepted = false
    /// The steady time when this gateway last had a message accepted under ``identity``.
    private var acceptedAt = Date.distantPast
    private var buckets: [Bucket]
    /// The number of the current bucket; a bucket is a 30th of the window.
    private var current = 0
    /// The steady time until which refusals are not counted, since an operator has just released some.
    private var trustedUntil = Date.distantPast

    /// Makes a guard without counts; `trip` and `quarantined` come from an earlier one.
    init(_ settings: GatewayConfiguration.InvalidationGuard, trip: Trip? = nil, quarantined: Set<String> = []) {
        self.settings = settings
        self.trip = trip
        self.quarantined = Dictionary(quarantined.map { ($0, Date.distantPast) }) { first, _ in first }
        buckets = Array(repeating: Bucket(), count: Self.bucketCount)
    }

    /// The callers whose refusals are quarantined.
    var doubt: Doubt { trip == nil ? .callers(Set(quarantined.keys)) : .all }

    /// Applies new settings: counts start from zero, quarantined refusals stay.
    mutating func adopt(_ settings: GatewayConfiguration.InvalidationGuard) {
        guard self.settings != settings else { return }
        var new = InvalidationGuard(settings, trip: trip)
        new.quarantined = quarantined
        new.identity = identity
        (new.hasAccepted, new.acceptedAt) = (hasAccepted, acceptedAt)
        self = new
    }

    /// Sets the platform and account of the backend: acceptances under another one prove nothing.
    mutating func adopt(identity: String) {
        guard self.identity != identity else { return }
        self.identity = identity
        (hasAccepted, acceptedAt) = (false, .distantPast)
    }

    /// Records that the platform has accepted a message under an identity.
    ///
    /// `time` is on the steady clock; nil when another gateway's message was accepted, at an unknown time.
    mutating func noteAcceptance(under identity: String, at time: Date?) {
        guard identity == self.identity else { return }
        hasAccepted = true
        if let time { acceptedAt = max(acceptedAt, time) }
    }

    /// Adds answers that another gateway got; they count when this gateway's next answer is judged.
    mutating func count(_ new: AnswerCounts, at now: TimeReading) { _ = countUndoubted(new, at: now) }

    /// Adds answers without the refusals of quarantined callers; returns the number of dead-token answers among them.
    private mutating func countUndoubted(_ new: AnswerCounts, at now: TimeReading) -> Int {
        guard trip == nil, settings.isEnabled else { return 0 }
        advance(to: now.steady)
        var new = new
        if !new.callers.isEmpty {
            for caller in quarantined.keys { new.remove(caller) }
        }
        sums.add(new)
        // The sums must have every caller that a bucket has; otherwise part of an expired bucket would stay in them.
        if !new.callers.isEmpty { new.callers = new.callers.filter { sums.callers[$0.key] != nil } }
        let bucket = current % Self.bucketCount
        buckets[bucket].counts.add(new)
        buckets[bucket].earliest = min(buckets[bucket].earliest ?? now.wall, now.wall)
        return new.dead.total
    }

    /// Trips the guard because another gateway's has; false when it has tripped already.
    mutating func adopt(trip: Trip) -> Bool {
        guard self.trip == nil else { return false }
        self.trip = trip
        return true
    }

    /// Counts answers of the platform, and those that called a token dead.
    ///
    /// An API key whose refusals are quarantined already (``doubt``) has no part in the verdict.
    mutating func add(_ counts: AnswerCounts, at now: TimeReading) -> Verdict {
        if trip != nil { return .quarantine }
        guard settings.isEnabled else { return .invalidate }
        let dead = countUndoubted(counts, at: now)
        guard dead > 0, now.steady >= trustedUntil, isTooMuch(sums) else { return .invalidate }
        // Takes back every invalidation of the window, also from the millisecond in which it began; the clock may have
        // been set meanwhile.
        let start = now.wall.addingTimeInterval(-settings.window.inSeconds)
        let since = buckets.compactMap(\.earliest).reduce(start, min).addingTimeInterval(-1)
        let all = sums.dead
        let new = Trip(at: now.wall, since: since, answers: sums.answers, dead: all.total, certain: all.certain)
        if hasAccepted, !hasQuarantinedLately(at: now.steady), let caller = onlyCause {
            quarantined[caller] = now.steady
            for index in buckets.indices { buckets[index].counts.remove(caller) }
            sums = buckets.reduce(into: AnswerCounts()) { $0.add($1.counts) }
            return .quarantineCaller(caller, new)
        }
        trip = new
        return .trip(new)
    }

    private func isTooMuch(_ counts: AnswerCounts) -> Bool {
        counts.answers >= settings.minimumAnswers
            && (Double(counts.dead.uncertain) > settings.share * Double(counts.answers)
                || Double(counts.dead.certain) > settings.certainShare * Double(counts.answers))
    }

    /// The caller without whose dead-token answers the share would be acceptable; of several such callers the one with
    /// the most, nil when there is none.
    private var onlyCause: String? {
        sums.callers.filter { !isTooMuch(sums.without($0.value)) }
            .max { ($0.value.total, $1.key) < ($1.value.total, $0.key) }?.key
    }

    /// Whether a caller was quarantined within the window with nothing accepted since.
    ///
    /// A second caller then shows that the cause is not one caller.
    private func hasQuarantinedLately(at now: Date) -> Bool {
        quarantined.values.contains { now.timeIntervalSince($0) < settings.window.inSeconds && acceptedAt <= $0 }
    }

    /// Resets the guard: counts start from zero.
    ///
    /// `isTrusting` lets all refusals of the next window pass at any share; `now` is on the steady clock.
    mutating func reset(isTrusting: Bool, at now: Date) {
        trip = nil
        quarantined = [:]
        clear()
        trustedUntil = isTrusting ? now.addingTimeInterval(settings.window.inSeconds) : .distantPast
    }

    private mutating func clear() {
        buckets = Array(repeating: Bucket(), count: Self.bucketCount)
        sums = AnswerCounts()
    }

    /// Drops counts that are older than the window.
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
