internal import Foundation
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue
internal import Synchronization

/// The handling of deliveries that are not sent now: those that wait for the platform's status, and those whose wait is
/// over.
extension DeliveryWorker {
    /// The number of deliveries that are read at a time.
    private static let lookedAt = 1_000
    /// The most deliveries that the platform is asked about at a time.
    private static let mostAsked = 2_048
    /// The time that a platform has to report the state of one message.
    private static let trackingDeadline = Duration.seconds(10)

    /// The part of its queue that a stopped worker has read.
    struct StandingQueue {
        /// The time since which the backend has not worked; a later failure starts a new one.
        var since: Date?
        var rounds = WaitingRounds(interval: .seconds(30))
        /// The deliveries about which the platform is being asked.
        var asked: Set<Int64> = []
    }

    /// While the worker is stopped, moves deliveries to their next backend, if their fallback delay has ended or their
    /// wait for the platform's status is over.
    ///
    /// The other deliveries are neither claimed nor written: they keep their order until the worker goes on.
    ///
    /// - Returns: The deliveries about which the platform is to be asked.
    func passOn() async -> [Silence] {
        let reading = dependencies.clock.reading
        let now = reading.steady
        let (reason, since) = gate.update { state in
            ((state.blockReason, state.troubleSince ?? now), wakes: false)
        }
        let look = standing.withLock { standing in
            if standing.since != since {
                standing.since = since
                standing.rounds = WaitingRounds(interval: .seconds(30))
            }
            return standing.rounds.look(at: name, limit: Self.lookedAt, now: now)
        }
        let next = Mutex<Date?>(nil)
        do throws(StoreError) {
            let page = try await dependencies.store.waitingDeliveries(look) { [settings, name] waiting in
                if waiting.isCancelled || waiting.isRecovered || waiting.isReplay && waiting.plan.onUnknown == .wait {
                    return true
                }
                guard let way = settings.wayOn(waiting.plan, waiting.step, from: name, since: since) else {
                    return false
                }
                if way.at > now { next.withLock { $0 = min($0 ?? way.at, way.at) } }
                return way.at <= now
            }
            let (others, silent, _) = parted(page.found, isClaimed: false)
            let resolutions = others.compactMap { waiting -> Resolution? in
                if let resolution = Resolution.ending(waiting, at: reading) ?? recover(waiting, at: reading) {
                    return resolution
                }
                guard let way = settings.wayOn(waiting.plan, waiting.step, from: name, since: since), way.at <= now
                else { return nil }
                return skipped(waiting, reason: reason, to: way.step, at: reading).resolution
            }
            try await settle(resolutions, of: others, reason: reason)
            let isOver = standing.withLock { standing in
                if let next = next.withLock({ $0 }) { standing.rounds.lookAgain(at: next) }
                return standing.rounds.end(at: page.next)
            }
            if !isOver { gate.update { ($0.passOnMore(), wakes: false) } }
            return silent
        } catch {
            await noteStoreFailure(error)
            return []
        }
    }

    /// Writes decisions about deliveries that wait and are not claimed.
    private func settle(
        _ resolutions: [Resolution],
        of waiting: [ClaimedDelivery],
        reason: String
    ) async throws(StoreError) {
        guard !resolutions.isEmpty else { return }
        let settled = try await dependencies.store.settle(resolutions, of: name, dependencies.clock)
        let plans = Dictionary(waiting.map { ($0.id, $0) }) { first, _ in first }
        for resolution in resolutions where settled.contains(resolution.delivery) {
            guard case .retry(_, let step) = resolution.transition, let delivery = plans[resolution.delivery],
                step != delivery.step
            else { continue }
            dependencies.observer.fellBack(from: name, to: delivery.plan.backends[step], reason: reason)
        }
    }

    /// A delivery whose wait for the platform's status is over.
    struct Silence: Sendable {
        let claim: ClaimedDelivery
        /// The platform's id of the message.
        let platformID: String?
    }

    /// Splits off the deliveries whose wait for the platform's status is over.
    ///
    /// When the platform is already being asked about very many deliveries, the others wait a little longer (`late`).
    func parted(_ claims: [ClaimedDelivery], isClaimed: Bool) -> (
        others: [ClaimedDelivery], silent: [Silence], late: [ClaimedDelivery]
    ) {
        guard claims.contains(where: { $0.isReplay && $0.plan.onUnknown == .wait }) else { return (claims, [], []) }
        var others: [ClaimedDelivery] = []
        var silent: [Silence] = []
        var late: [ClaimedDelivery] = []
        let capacity = Self.mostAsked - queriesInFlight.load(ordering: .relaxed)
        for claim in claims {
            guard let last = claim.silence(of: name) else {
                others.append(claim)
                continue
            }
            if silent.count >= capacity {
                late.append(claim)
            } else if isClaimed || standing.withLock({ $0.asked.insert(claim.id).inserted }) {
                silent.append(Silence(claim: claim, platformID: last["platform_id"]?.stringValue))
            }
        }
        queriesInFlight.wrappingAdd(silent.count, ordering: .relaxed)
        return (others, silent, late)
    }

    /// Asks the platform a last time for the states of messages, and settles them.
    func query(_ silent: [Silence], isClaimed: Bool) async {
        guard !silent.isEmpty else { return }
        let states = await states(about: silent.map(\.platformID))
        queriesInFlight.wrappingSubtract(silent.count, ordering: .relaxed)
        let now = dependencies.clock.reading
        let found = zip(silent, states).map { ($0, resolution($0.claim, $1, at: now)) }
        if isClaimed {
            for (silence, resolution) in found { count(resolution.fallback, silence.claim) }
            return record(found.map { $0.1.resolution })
        }
        do throws(StoreError) {
            let settled = try await dependencies.store.settle(
                found.map { $0.1.resolution },
                of: name,
                dependencies.clock
            )
            for (silence, resolution) in found where settled.contains(silence.claim.id) {
                count(resolution.fallback, silence.claim)
            }
        } catch {
            await noteStoreFailure(error)
        }
        standing.withLock { $0.asked.subtract(silent.map(\.claim.id)) }
    }

    private func count(_ fallback: (step: Int, reason: String)?, _ claim: ClaimedDelivery) {
        guard let fallback else { return }
        dependencies.observer.fellBack(
            from: name,
            to: claim.plan.backends[fallback.step],
            reason: fallback.reason
        )
    }

    /// Returns the platform's states of messages; nil where it does not answer in time, or cannot.
    private func states(about ids: [String?]) async -> [DeliveryState?] {
        guard let tracker = backend.tracking else { return ids.map { _ in nil } }
        return await withTaskGroup(of: (Int, DeliveryState?).self) { group in
            var states = [DeliveryState?](repeating: nil, count: ids.count)
            var running = 0
            for (index, id) in ids.enumerated() {
                guard let id else { continue }
                if running == 16, let (index, state) = await group.next() {
                    states[index] = state
                    running -= 1
                }
                running += 1
                group.addTask { [time = dependencies.time] in
                    (index, await Self.state(about: id, tracker, time))
                }
            }
            for await (index, state) in group { states[index] = state }
            return states
        }
    }

    private static func state(
        about id: String,
        _ tracker: any MessageTracker,
        _ time: any TimeSource
    ) async -> DeliveryState? {
        (try? await Deadline.run(trackingDeadline, time: time) { try await tracker.state(of: id) }) ?? nil
    }

    /// Returns the transition of a delivery after its wait for the platform's status, and the next step of its plan, if
    /// there is one.
    private func resolution(
        _ claim: ClaimedDelivery,
        _ state: DeliveryState?,
        at now: TimeReading
    ) -> (resolution: Resolution, fallback: (step: Int, reason: String)?) {
        let verdict = rules.decide(claim.position(at: now), .waited(state), at: now.steady, random: 0)
        let reason = state.map { "platform_says_" + $0.rawValue } ?? "no_word"
        var fallback: (step: Int, reason: String)?
        if case .next(let step) = verdict.move { fallback = (step, reason) }
        let attempt = EventJSON.ending(reason, at: now.wall)
        let resolution = Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now.wall, attempt: attempt, reason: reason)
        )
        return (resolution, fallback)
    }
}

extension DeliveryWorker.Settings {
    /// Returns the next step of a delivery and its time, when its backend has not worked since a time; nil when the
    /// delivery stays.
    func wayOn(_ plan: DeliveryPlan, _ step: Int, from backend: String, since: Date) -> (step: Int, at: Date)? {
        guard let delay = plan.fallbackAfter ?? queue.fallbackAfter,
            let next = plan.laterSteps(audiences, after: step, at: backend, isTokenRefused: false).first
        else { return nil }
        return (next, since.addingTimeInterval(delay.inSeconds))
    }
}
