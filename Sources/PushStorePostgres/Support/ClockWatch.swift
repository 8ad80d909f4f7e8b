internal import PushCore

/// Judges whether the database's clock was set, by readings of it.
///
/// One node alone says so and moves the time of day that all go by (``ClockShift``): a machine that stood still sees
/// the same as when the database's clock was set. The others wait for that with the clock as they know it.
struct ClockWatch {
    /// What to do about a reading.
    enum Verdict: Equatable {
        /// Go by it.
        case follow
        /// Go by what was known; another node is to move the time of day, or has not told yet.
        case wait
        /// Move the time of day: so far it is ahead of the steady time now, in milliseconds.
        case shift(to: Int64)
    }

    /// Since when readings have been apart from what this node knows.
    private var since: ContinuousClock.Instant?

    /// Judges a reading.
    ///
    /// - Parameters:
    ///   - jump: By how much the steady time that follows from it is ahead of this node's, in milliseconds.
    ///   - ahead: By how much the time of day is ahead of the steady time as all nodes know it, in milliseconds.
    ///   - isFirst: Whether this node is the one that judges.
    ///   - noted: By how much another node has moved the time of day since this one last followed, in milliseconds.
    ///   - isMoving: Whether a former step is still being moved, before which there is no other.
    ///   - patience: So long the others wait for it; then it must be their own machine's clock that has stood still.
    ///   - now: When it was read.
    /// - Returns: What to do.
    mutating func judge(
        jump: Int64,
        ahead: Int64,
        isFirst: Bool,
        noted: Int64,
        isMoving: Bool,
        patience: Duration,
        at now: ContinuousClock.Instant = .now
    ) -> Verdict {
        let begin = isMoving ? now : since ?? now
        since = nil
        guard jump.magnitude >= StoreCore.smallestJump else { return .follow }
        if isFirst { return .shift(to: ahead.adding(clamping: jump)) }
        // Who took a step for the time is apart by just that.
        let tookStep = jump.adding(clamping: noted).magnitude < StoreCore.smallestJump
        guard !tookStep, begin.duration(to: now) < patience else { return .follow }
        since = begin
        return .wait
    }
}
