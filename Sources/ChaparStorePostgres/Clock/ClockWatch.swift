internal import ChaparCore

/// Judges by readings of the database's clock whether it was set.
///
/// One node decides for all, and shifts the time of day (``ClockShift``). Any other cannot tell: after its machine was
/// suspended, a reading looks the same as after a step of the database's clock. Until the decision it keeps its known
/// time.
struct ClockWatch {
    /// The reaction to a reading.
    enum Verdict: Equatable {
        /// Set this node's time by it.
        case follow
        /// Keep the known time; another node is to shift the time of day, or has not recorded it yet.
        case wait
        /// Shift the time of day, to this number of milliseconds ahead of the steady time.
        case shift(to: Int64)
    }

    /// The time since which readings differ from what this node knows.
    private var since: ContinuousClock.Instant?

    /// Judges a reading.
    ///
    /// - Parameters:
    ///   - jump: How far the steady time by the reading is ahead of this node's, in milliseconds.
    ///   - ahead: How far the time of day is ahead of the steady time, as all nodes know it, in milliseconds.
    ///   - isFirst: Whether this node is the one that decides.
    ///   - noted: How far another node has shifted the time of day since this one last followed, in milliseconds.
    ///   - isMoving: Whether an earlier shift is still under way, before which there is no other.
    ///   - patience: The longest wait for the node that decides; after it, this node's own machine must have been
    ///     suspended.
    ///   - now: The time of the reading.
    /// - Returns: The reaction.
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
        // A node that has taken a step for elapsed time differs by exactly that step.
        let tookStep = jump.adding(clamping: noted).magnitude < StoreCore.smallestJump
        guard !tookStep, begin.duration(to: now) < patience else { return .follow }
        since = begin
        return .wait
    }
}
