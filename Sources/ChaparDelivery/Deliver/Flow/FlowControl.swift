internal import Foundation
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue
internal import Synchronization

/// The current use of a backend: messages under way, pauses, breaker and quota.
///
/// With a ``ChaparQueue/QuotaLedger`` all gateways on the store share one quota: ``reserve(_:at:)`` takes from the
/// slice that ``reserveSlice(_:_:)`` has reserved, and the worker calls that when the slice is used up. Without a
/// ledger the gateway has a token bucket of its own.
///
/// It outlives the workers of a backend: after a reload that does not change the backend the new worker gets it, and
/// ``memory(at:)`` is stored for a restart.
final class FlowControl: Sendable {
    /// The number of messages under way, and the rules that decide whether more may follow.
    let gate: FlowGate
    /// The recipients that are paused.
    let pauses: Mutex<RecipientPauses>
    /// The identity of the backend: a different backend under the same name starts without this flow.
    let identity: String
    /// The name of the quota in the ledger; a different backend under the same name has a different one.
    private let quotaName: String
    private let ledger: (any QuotaLedger)?
    private let quota: Mutex<Quota>
    private let written = Mutex<FlowMemory?>(nil)
    /// The latest end of a pause that was announced to other gateways.
    private let told = Mutex(Date.distantPast)
    private let retired = Atomic(false)

    private struct Quota {
        var pacing: Pacing?
        /// The gateway's own bucket; nil with a ledger.
        var bucket: TokenBucket?
        /// The slice that is reserved from the ledger.
        var slice = QuotaSlice()
        /// The rate at which this gateway uses the quota.
        var use = RecentRate()
    }

    /// Makes the flow of a backend from what was stored before a restart; nil starts afresh.
    ///
    /// `ledger` holds the quota when other gateways share it.
    init(
        _ configured: BackendRegistry.ConfiguredBackend,
        _ memory: FlowMemory? = nil,
        ledger: (any QuotaLedger)? = nil,
        at now: Date
    ) {
        identity = configured.identity
        quotaName = configured.name + " " + configured.identity
        self.ledger = ledger
        var breaker = configured.breaker.map { Breaker($0) }
        if let state = memory?.breaker { breaker?.restore(state, cooldown: memory?.cooldown) }
        gate = FlowGate(breaker: breaker)
        var pauses = RecipientPauses()
        for pause in memory?.recipients ?? [] { pauses.pause(pause.recipient, until: pause.until, at: now) }
        self.pauses = Mutex(pauses)
        let pacing = configured.pacing
        let own = ledger == nil ? pacing : nil
        let bucket = own.map { TokenBucket($0, at: now, fill: memory?.fill ?? 1, ramp: memory?.ramp ?? 0) }
        quota = Mutex(Quota(pacing: pacing, bucket: bucket))
        guard let memory else { return }
        gate.update { state in
            state.restore(memory)
            return ((), wakes: false)
        }
        written.withLock { $0 = memory }
    }

    /// Applies new settings for the same backend; messages under way and pauses stay.
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
            if configured.pacing == nil { quota.slice = QuotaSlice() }
            guard ledger == nil else { return }
            let (fill, ramp) = (quota.bucket?.fill ?? 1, quota.bucket?.ramp ?? 0)
            quota.bucket = configured.pacing.map { TokenBucket($0, at: now, fill: fill, ramp: ramp) }
        }
    }

    /// Whether the backend is no longer in use: a reload removed it, or put another one under its name.
    var isRetired: Bool { retired.load(ordering: .relaxed) }

    /// Sets whether the backend is out of use.
    func retire(_ isRetired: Bool) { retired.store(isRetired, ordering: .relaxed) }

    /// The number of messages that the quota allows now.
    struct Allowance {
        /// The most messages, if all of them are urgent.
        var granted: Int
        /// The most messages of normal priority among them.
        var normal: Int
        /// The time of the next attempt, when no message, or none of normal priority, may go.
        var retryAt: Date
        /// Whether ``FlowControl/reserveSlice(_:_:)`` must be called first.
        var needsSlice = false
    }

    /// Takes from the quota, as if all messages were urgent.
    func reserve(_ wanted: Int, at now: Date) -> Allowance {
        quota.withLock { quota in
            if ledger != nil, quota.pacing != nil {
                return quota.slice.reserve(wanted, at: now)
                    ?? Allowance(granted: 0, normal: 0, retryAt: now, needsSlice: true)
            }
            guard let normal = quota.bucket?.available(at: now),
                let taken = quota.bucket?.reserve(wanted, isUrgent: true, at: now)
            else { return Allowance(granted: wanted, normal: wanted, retryAt: now) }
            let retryAt = taken.granted > 0 ? normal.retryAt : taken.retryAt
            return Allowance(granted: taken.granted, normal: min(taken.granted, normal.free), retryAt: retryAt)
        }
    }

    /// Returns the unused part of a reservation to the quota.
    func release(reserved: Int, used: Int, at now: Date) {
        quota.withLock { quota in
            if used > 0, quota.pacing != nil { quota.use.add(used, at: now) }
            quota.bucket?.release(reserved: reserved, used: used, at: now)
            if ledger != nil { quota.slice.release(reserved: reserved, used: used, at: now) }
        }
    }

    /// Returns the allowed rate and how much of it this gateway used lately; nil without a quota.
    func quotaStatus(at now: Date) -> WorkerStatus.Quota? {
        quota.withLock { quota in
            guard let pacing = quota.pacing else { return nil }
            let rate = quota.bucket?.rate ?? pacing.perSecond
            return WorkerStatus.Quota(perSecond: rate, used: min(1, quota.use.perSecond(at: now) / rate))
        }
    }

    /// Ends the pauses that no platform asked for; returns those that it ended and those that stay.
    func endOwnPauses(at now: TimeReading) -> EndedPauses {
        var result = gate.update { ($0.endOwnPauses(at: now.steady), wakes: true) }
        if let recipients = pauses.withLock({ $0.running(at: now.steady) }) {
            result.kept.append(
                EndedPauses.Pause(.recipients, reason: nil, until: recipients.until, count: recipients.count)
            )
        }
        for place in result.kept.indices { result.kept[place].until = result.kept[place].until.map(now.wall) }
        return result
    }

    // MARK: A quota that gateways share

    /// Whether other gateways share the quota, so that a reservation must be used or given back soon.
    var isShared: Bool { ledger != nil && quota.withLock { $0.pacing != nil } }

    /// The time when the unused part of the slice is to be given back (``giveBack(_:)``); nil when there is none.
    var sliceLapsesAt: Date? {
        ledger == nil ? nil : quota.withLock { $0.pacing == nil ? nil : $0.slice.lapsesAt }
    }

    /// Reserves a slice, and takes from it like ``reserve(_:at:)``; grants nothing while the ledger does not answer.
    func reserveSlice(_ wanted: Int, _ time: any TimeSource) async -> Allowance {
        // After a reload without a quota, everything may go.
        await request(wanted, time) ?? Allowance(granted: wanted, normal: wanted, retryAt: time.steady)
    }

    /// Gives the unused part of the slice back; if the ledger does not answer, it is lost and the quota fills up again.
    func giveBack(_ time: any TimeSource) async {
        guard sliceLapsesAt != nil else { return }
        _ = await request(0, time)
    }

    /// Asks the ledger; nil without a quota.
    private func request(_ wanted: Int, _ time: any TimeSource) async -> Allowance? {
        let now = time.steady
        let request = quota.withLock { quota in
            quota.pacing.map { quota.slice.makeRequest(wanted, $0, at: now) }
        }
        guard let ledger, let request else { return nil }
        let grant: QuotaGrant?
        do throws(StoreError) {
            grant = try await ledger.reserve(request, of: quotaName)
        } catch {
            grant = nil  // The store logs that it does not answer.
        }
        let after = time.steady
        return quota.withLock { quota in
            guard quota.pacing != nil else { return nil }
            if let grant {
                quota.slice.add(grant, to: request, at: after, random: .random(in: 0...1))
            } else {
                quota.slice.fail(at: after)
            }
            return quota.slice.take(wanted)
        }
    }

    /// Whether a pause is to be sent to other gateways.
    ///
    /// It is false for a pause that ends only a little later than the one that was sent: each message of a batch may
    /// have been answered with the same pause.
    func isNewsToOthers(pauseUntil until: Date) -> Bool {
        told.withLock { told in
            guard until.timeIntervalSince(told) > 0.5 else { return false }
            told = until
            return true
        }
    }

    // MARK: Over a restart

    /// Returns the state to save now; nil when it equals the last saved one.
    ///
    /// A change of the quota alone is saved at most every ten seconds, unless `isLast`.
    func changedMemory(at now: Date, isLast: Bool) -> FlowMemory? {
        let memory = memory(at: now)
        return written.withLock { written in
            let isDue = isLast || now >= (written?.at ?? .distantPast).addingTimeInterval(10)
            guard !memory.isLike(written, comparingQuota: isDue) else { return nil }
            written = memory
            return memory
        }
    }

    /// Returns the state that must survive a restart.
    private func memory(at now: Date) -> FlowMemory {
        var memory = FlowMemory(identity: identity, at: now)
        gate.state.write(to: &memory, at: now)
        memory.recipients = pauses.withLock { $0.longest(FlowMemory.mostRecipients, at: now) }
        quota.withLock { quota in
            // A bucket that is full again within a second need not be saved; the ledger saves its own.
            guard ledger == nil, let pacing = quota.pacing, pacing.burst > .seconds(1) || pacing.rampUp > .zero else {
                return
            }
            memory.fill = quota.bucket?.fill
            if pacing.rampUp > .zero { memory.ramp = quota.bucket?.ramp }
        }
        return memory
    }
}

extension FlowGate.State {
    /// Restores the state that was saved before the gateway ended.
    fileprivate mutating func restore(_ memory: FlowMemory) {
        (isParked, isSlowed) = (memory.isParked, memory.isSlowed)
        if isProbing {
            (probeAt, probeReason) = (memory.pausedUntil, memory.pauseReason)
        } else {
            (pausedUntil, pauseReason) = (memory.pausedUntil, memory.pauseReason)
        }
        nextProbe = memory.nextProbe ?? BackendSignal.firstWait
        troubleSince = memory.troubleSince
    }

    fileprivate func write(to memory: inout FlowMemory, at now: Date) {
        memory.pausedUntil = waitsUntil.flatMap { $0 > now || isProbing ? $0 : nil }
        memory.pauseReason = memory.pausedUntil == nil ? nil : isProbing ? probeReason : pauseReason
        (memory.isParked, memory.isSlowed) = (isParked, isSlowed)
        memory.nextProbe = nextProbe == BackendSignal.firstWait ? nil : nextProbe
        memory.troubleSince = isQuarantined ? nil : troubleSince
        guard let breaker, breaker.state != .closed else { return }
        memory.breaker = breaker.state
        memory.cooldown = breaker.nextCooldown
    }
}
