internal import Foundation
internal import PushCore
internal import PushComposition
internal import Synchronization

/// How a backend is used at the moment: what is under way, its pauses, its breaker and its quota.
///
/// Outlives the workers of a backend: a reload that leaves the backend as it is hands it to the new worker, and
/// ``memory(at:)`` is kept over a restart.
final class FlowControl: Sendable {
    /// How much is under way, and whether more may follow.
    let gate: FlowGate
    /// Recipients that get nothing for a while.
    let pauses: Mutex<RecipientPauses>
    /// What the backend is, so that another one under its name begins anew.
    let identity: String
    private let quota: Mutex<Quota>
    private let written = Mutex<FlowMemory?>(nil)
    /// The longest pause that other gateways were told of.
    private let told = Mutex(Date.distantPast)

    private struct Quota {
        var pacing: Pacing?
        var bucket: TokenBucket?
    }

    /// Makes the flow of a backend, as it was left when the gateway ended; nil begins anew.
    init(_ configured: BackendRegistry.ConfiguredBackend, _ memory: FlowMemory? = nil, at now: Date) {
        identity = configured.identity
        var breaker = configured.breaker.map { Breaker($0) }
        if let state = memory?.breaker { breaker?.restore(state, cooldown: memory?.cooldown) }
        gate = FlowGate(breaker: breaker)
        var pauses = RecipientPauses()
        for pause in memory?.recipients ?? [] { pauses.pause(pause.recipient, until: pause.until, at: now) }
        self.pauses = Mutex(pauses)
        let pacing = configured.pacing
        let bucket = pacing.map { TokenBucket($0, at: now, fill: memory?.fill ?? 1, ramp: memory?.ramp ?? 0) }
        quota = Mutex(Quota(pacing: pacing, bucket: bucket))
        guard let memory else { return }
        gate.update { state in
            state.restore(memory)
            return ((), wakes: false)
        }
        written.withLock { $0 = memory }
    }

    /// Takes over other settings for the same backend; what is under way and in force stays.
    func adopt(_ configured: BackendRegistry.ConfiguredBackend, at now: Date) {
        gate.update { state in
            switch (state.breaker, configured.breaker) {
            case (_?, let settings?): state.breaker?.adopt(settings)
            case (nil, let settings?): state.breaker = Breaker(settings)
            case (_, nil): state.breaker = nil
            }
            return ((), wakes: true)
        }
        quota.withLock { quota in
            guard quota.pacing != configured.pacing else { return }
            quota.pacing = configured.pacing
            let (fill, ramp) = (quota.bucket?.fill ?? 1, quota.bucket?.ramp ?? 0)
            quota.bucket = configured.pacing.map { TokenBucket($0, at: now, fill: fill, ramp: ramp) }
        }
    }

    /// What the quota lets go now.
    struct Allowance {
        /// The most messages, if all are urgent.
        var granted: Int
        /// The most messages of normal priority among them.
        var normal: Int
        /// When to ask again, if nothing or nothing normal may go.
        var retryAt: Date
    }

    /// Takes as many messages as the quota lets go, if all are urgent.
    func reserve(_ wanted: Int, at now: Date) -> Allowance {
        quota.withLock { quota in
            guard let normal = quota.bucket?.available(at: now),
                let taken = quota.bucket?.reserve(wanted, isUrgent: true, at: now)
            else { return Allowance(granted: wanted, normal: wanted, retryAt: now) }
            let retryAt = taken.granted > 0 ? normal.retryAt : taken.retryAt
            return Allowance(granted: taken.granted, normal: min(taken.granted, normal.free), retryAt: retryAt)
        }
    }

    /// Says how much of what was taken is used, now.
    func release(reserved: Int, used: Int, at now: Date) {
        quota.withLock { $0.bucket?.release(reserved: reserved, used: used, at: now) }
    }

    /// Whether other gateways are to be told of a pause: each message of a batch may have been answered with it, a little later each.
    func isNewsToOthers(pauseUntil until: Date) -> Bool {
        told.withLock { told in
            guard until.timeIntervalSince(told) > 0.5 else { return false }
            told = until
            return true
        }
    }

    // MARK: Over a restart

    /// What is to be written now; nil when it is what was written last.
    ///
    /// The quota alone is no reason to write more often than every ten seconds, unless `isLast`.
    func changedMemory(at now: Date, isLast: Bool) -> FlowMemory? {
        let memory = memory(at: now)
        return written.withLock { written in
            let isDue = isLast || now >= (written?.at ?? .distantPast).addingTimeInterval(10)
            guard !memory.isLike(written, comparingQuota: isDue) else { return nil }
            written = memory
            return memory
        }
    }

    /// What has to survive a restart, as it stands.
    private func memory(at now: Date) -> FlowMemory {
        var memory = FlowMemory(identity: identity, at: now)
        gate.state.write(to: &memory, at: now)
        memory.recipients = pauses.withLock { $0.longest(FlowMemory.mostRecipients, at: now) }
        quota.withLock { quota in
            // A bucket that is full again within a second needs no memory.
            guard let pacing = quota.pacing, pacing.burst > .seconds(1) || pacing.rampUp > .zero else { return }
            memory.fill = quota.bucket?.fill
            if pacing.rampUp > .zero { memory.ramp = quota.bucket?.ramp }
        }
        return memory
    }
}

extension FlowGate.State {
    /// Puts back what was in force when the gateway ended.
    fileprivate mutating func restore(_ memory: FlowMemory) {
        pausedUntil = memory.pausedUntil
        pauseReason = memory.pauseReason
        isParked = memory.isParked
        nextProbe = memory.nextProbe ?? Self.firstProbe
        troubleSince = memory.troubleSince
    }

    fileprivate func write(to memory: inout FlowMemory, at now: Date) {
        memory.pausedUntil = pausedUntil.flatMap { $0 > now || isParked ? $0 : nil }
        memory.pauseReason = memory.pausedUntil == nil ? nil : pauseReason
        memory.isParked = isParked
        memory.nextProbe = nextProbe == Self.firstProbe ? nil : nextProbe
        memory.troubleSince = isHeld ? nil : troubleSince
        guard let breaker, breaker.state != .closed else { return }
        memory.breaker = breaker.state
        memory.cooldown = breaker.nextCooldown
    }
}
