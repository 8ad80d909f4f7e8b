internal import Foundation
internal import Logging
package import ChaparCore
import ChaparComposition
internal import ChaparQueue
internal import Synchronization

/// The deliveries that wait for backends that are no longer configured.
///
/// A delivery whose plan has a later configured step goes on to that step. The other deliveries wait until their time
/// to live ends, the backend is configured again, or an operator moves them to another backend or drops them.
package final class GoneBackends: Sendable {
    /// The reason why nothing was moved or dropped.
    package enum Failure: Error, Sendable, Hashable {
        /// The backend is configured: its worker handles its deliveries.
        case configured
        /// Nothing waits for a backend of this name.
        case unknown
        /// The backend to move to is not configured; the nearest name that is.
        case unknownTarget(nearest: String?)
        /// The backend to move to belongs to another app than the deliveries.
        case otherApp(waiting: AppName, target: AppName)
        /// Some deliveries are being worked on, or it is not known which gateways are alive; the caller may retry.
        case busy
        /// The store failed.
        case store(StoreError)
    }

    private struct State {
        /// The configuration in force; nil before the first one, when it is not known which backends are gone.
        var snapshot: GatewaySnapshot?
        /// The backends that have been logged.
        var warned: Set<String> = []
        /// The backends that no gateway had at the last check.
        ///
        /// A backend counts as gone when the next check confirms it: a gateway with a new configuration may be about to
        /// declare it.
        var missing: Set<String> = []
        /// Backends whose deliveries are ended as they come due.
        var dropped: Set<String> = []
        /// The position of the search through each backend's deliveries.
        var rounds: [String: WaitingRounds] = [:]
        /// The number of configurations and operators' decisions so far; a round that began before the last of them
        /// stops.
        var turn = 0

        /// Starts again with the first delivery.
        mutating func beginAnew() {
            rounds = [:]
            turn += 1
        }
    }

    /// The most deliveries that one call of the store reads, and the most calls in a round of upkeep.
    private static let page = 1_000
    private static let pages = 20
    /// The interval at which deliveries without another backend are read again; newly due deliveries are read at once.
    private static let interval = Duration.seconds(60)
    /// The longest single wait for the last outcomes of a backend.
    private static let moment = Duration.milliseconds(50)
    private static let droppedKey = "gone_backends.dropped"
    private static let appsKey = "gone_backends.apps"

    private let store: any NotificationStore
    private let nodes: (any NodeExchange)?
    private let clock: WallClock
    private let observer: any DispatchObserver
    private let logger: Logger
    private let state = Mutex(State())

    init(
        store: any NotificationStore,
        nodes: (any NodeExchange)? = nil,
        clock: WallClock,
        observer: any DispatchObserver,
        logger: Logger
    ) {
        self.store = store
        self.nodes = nodes
        self.clock = clock
        self.observer = observer
        self.logger = logger
    }

    // MARK: For the dispatcher

    /// Puts a configuration in force; a dropped backend that is configured again is no longer dropped.
    func install(_ snapshot: GatewaySnapshot) async {
        // If it fails, the store repeats it at the next renewal of its lease.
        try? await nodes?.declare(backends: Set(snapshot.backends.map(\.name)))
        if let nodes { snapshot.elsewhere.begin(with: nodes) }
        try? await lookAround(snapshot)
        await noteApps(snapshot)
        var kept: Set<String>?
        if state.withLock({ $0.snapshot == nil }) {
            do throws(StoreError) {
                let stored = try await store.loadState(Self.droppedKey)
                kept = Set(String(decoding: stored ?? [], as: UTF8.self).split(separator: "\n").map(String.init))
            } catch {
                logger.unlessCancelled?.error(
                    "cannot read which backends were dropped",
                    metadata: ["error": "\(error)"]
                )
            }
        }
        let loaded = kept
        let (before, dropped) = state.withLock { state in
            state.dropped.formUnion(loaded ?? [])
            state.snapshot = snapshot
            state.beginAnew()
            let before = state.dropped
            // Not ``GatewaySnapshot/isGone(_:)``: that is false at each start, until it can be judged which gateways
            // are alive.
            state.dropped = before.filter { !snapshot.has($0) && !snapshot.elsewhere.has($0) }
            return (before, state.dropped)
        }
        if dropped != before { try? await save(dropped) }  // If it fails, the next start repeats it.
    }

    /// Goes once through the due deliveries, and moves them to their next step or ends them, as their plans say.
    ///
    /// The others stay unchanged, and a backend that is configured again gets them at once.
    func work() async {
        // Until it can be judged which gateways are alive, no backend is known to be gone. When the store fails, the
        // next round repeats this.
        guard state.withLock({ $0.snapshot })?.elsewhere.mayJudge ?? false, let depths = try? await depths() else {
            return
        }
        let known = state.withLock { state in
            defer { state.missing = Set(depths.keys) }
            return nodes == nil ? Set(depths.keys) : state.missing
        }
        for (name, depth) in depths where depth.waiting > 0 && known.contains(name) {
            let (isNew, turn, begun) = state.withLock {
                ($0.warned.insert(name).inserted, $0.turn, $0.rounds[name])
            }
            if isNew {
                logger.warning(
                    "deliveries wait for a backend that is not configured",
                    metadata: [
                        "backend": "\(name)", "waiting": .stringConvertible(depth.waiting),
                        "fix":
                            "configure it again, or settle them: chapar backends move \(name) OTHER, or drop \(name)",
                    ]
                )
            }
            var rounds = begun ?? WaitingRounds(interval: Self.interval)
            for _ in 0..<Self.pages {
                guard await look(at: name, &rounds) == .more else { break }
            }
            state.withLock { [rounds] in if $0.turn == turn { $0.rounds[name] = rounds } }
        }
        state.withLock { state in
            state.warned.formIntersection(depths.keys)
            state.rounds = state.rounds.filter { depths[$0.key] != nil }
        }
    }

    /// Reads which backends the other live gateways have.
    private func lookAround(_ snapshot: GatewaySnapshot) async throws(StoreError) {
        guard let nodes else { return }
        snapshot.elsewhere.note(try await nodes.nodes().filter { !$0.isSelf && $0.leaseLeft > .zero })
    }

    /// The result of reading a page of deliveries.
    private enum LookResult {
        case more, over, failed
    }

    /// Reads a page of the deliveries that wait for a gone backend, and writes the decisions about them.
    private func look(at name: String, _ rounds: inout WaitingRounds) async -> LookResult {
        let (snapshot, isDropped) = state.withLock { ($0.snapshot, $0.dropped.contains(name)) }
        guard let snapshot, snapshot.isGone(name) else { return .over }
        let look = rounds.look(at: name, limit: Self.page, now: clock.reading.steady)
        do throws(StoreError) {
            let page = try await store.waitingDeliveries(look) { waiting in
                isDropped || waiting.isCancelled || waiting.isRecovered
                    || Self.nextStep(waiting.plan, waiting.step, snapshot) != nil
            }
            let now = clock.reading
            let rules = PlanRules(snapshot.configuration.queue)
            var passedOn: [Int64: String] = [:]
            var resolutions: [Resolution] = []
            for delivery in page.found {
                if let end = end(of: delivery, isDropped: isDropped, at: now) {
                    resolutions.append(end)
                } else if let next = Self.nextStep(delivery.plan, delivery.step, snapshot) {
                    resolutions.append(passOn(delivery, to: next, name, rules, at: now))
                    passedOn[delivery.id] = delivery.plan.backends[next]
                }
            }
            if !resolutions.isEmpty {
                let settled = try await store.settle(resolutions, of: name, clock)
                for (delivery, next) in passedOn where settled.contains(delivery) {
                    observer.fellBack(from: name, to: next, reason: GatewayReason.backendGone)
                }
            }
            return rounds.end(at: page.next) ? .over : .more
        } catch {
            return .failed  // The store logs the failure; the next round tries again.
        }
    }

    /// Returns the next step of a plan whose backend is not gone.
    private static func nextStep(_ plan: DeliveryPlan, _ step: Int, _ snapshot: GatewaySnapshot) -> Int? {
        plan.laterSteps(after: step) { !snapshot.isGone($0) }.first
    }

    /// Returns the final state of a delivery that goes nowhere any more; nil when it may go on.
    private func end(of claim: ClaimedDelivery, isDropped: Bool, at now: TimeReading) -> Resolution? {
        if let ending = Resolution.ending(claim, at: now) { return ending }
        if claim.isRecovered, claim.plan.onUnknown != .retry, claim.plan.onUnknown != .next {
            // The delivery's last owner died, and no backend is left to say whether a second copy does harm.
            return .ending(claim, as: .unknown, reason: "gateway_restarted", at: now)
        }
        guard isDropped else { return nil }
        return .ending(claim, as: claim.isReplay ? .unknown : .failed, reason: "backend_dropped", at: now)
    }

    private func passOn(
        _ claim: ClaimedDelivery,
        to next: Int,
        _ name: String,
        _ rules: PlanRules,
        at now: TimeReading
    ) -> Resolution {
        let reason = GatewayReason.backendGone
        var position = claim.position(at: now)
        position.nextStep = next
        let verdict = rules.decide(position, .skipped(reason: reason), at: now.steady, random: 0)
        let attempt = EventJSON.skipped(name, reason: reason, at: now.wall, steady: now.steady)
        return Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now.wall, attempt: attempt, reason: reason)
        )
    }

    // MARK: For operators

    /// Returns the number of deliveries that wait for each gone backend.
    func depths() async throws(StoreError) -> [String: QueueDepth] {
        let depths = try await store.depths()
        guard let snapshot = state.withLock({ $0.snapshot }) else { return [:] }
        // Checked after the depths: a gateway declares its backends before it accepts anything for them.
        if depths.keys.contains(where: { !snapshot.has($0) }) { try await lookAround(snapshot) }
        return depths.filter { snapshot.isGone($0.key) && ($0.value.waiting > 0 || $0.value.claimed > 0) }
    }

    /// Moves all deliveries that wait for a backend, now or for a later retry, to another backend.
    ///
    /// With `isDryRun` it only checks whether it can do so.
    ///
    /// - Returns: The number of deliveries that were moved, or would be.
    package func move(_ name: String, to other: String, isDryRun: Bool = false) async throws(Failure) -> Int {
        let count = try await requireGone(name)
        let snapshot = state.withLock { $0.snapshot }
        guard let target = snapshot?.app(ofBackend: other) else {
            let names = snapshot?.backends.map(\.name) ?? []
            throw .unknownTarget(nearest: Suggestion.nearest(to: other, among: names.sorted()))
        }
        let waiting: AppName?
        do throws(StoreError) {
            waiting = try await foreignApp(of: name, target)
        } catch {
            throw .store(error)
        }
        if let waiting { throw .otherApp(waiting: waiting, target: target) }
        guard !isDryRun else { return count }
        do throws(StoreError) {
            for _ in 0..<20 {
                if let moved = try await store.move(backend: name, to: other) {
                    await forgetDropped(name)
                    logger.notice(
                        "deliveries were moved",
                        metadata: ["from": "\(name)", "to": "\(other)", "deliveries": .stringConvertible(moved)]
                    )
                    return moved
                }
                // The last outcomes of the removed backend have not been written yet.
                try? await clock.time.sleep(for: Self.moment)
            }
        } catch {
            throw .store(error)
        }
        throw .busy
    }

    /// Fails all deliveries that wait for a backend: due deliveries now, the others when they are due.
    ///
    /// With `isDryRun` it only counts them.
    ///
    /// - Returns: The number of deliveries that are affected.
    package func drop(_ name: String, isDryRun: Bool = false) async throws(Failure) -> Int {
        let waiting = try await requireGone(name)
        guard !isDryRun else { return waiting }
        let dropped = state.withLock { state in
            state.dropped.insert(name)
            state.beginAnew()
            return state.dropped
        }
        do throws(StoreError) {
            try await save(dropped)
        } catch {
            throw .store(error)
        }
        logger.notice(
            "deliveries are dropped",
            metadata: ["backend": "\(name)", "deliveries": .stringConvertible(waiting)]
        )
        var rounds = WaitingRounds(interval: Self.interval)
        while await look(at: name, &rounds) == .more {}  // When the store fails, upkeep does the rest.
        return waiting
    }

    private func requireGone(_ name: String) async throws(Failure) -> Int {
        guard let snapshot = state.withLock({ $0.snapshot }) else { throw .busy }
        guard !snapshot.has(name) else { throw .configured }
        let depth: QueueDepth?
        do throws(StoreError) {
            depth = try await depths()[name]
        } catch {
            throw .store(error)
        }
        guard snapshot.isGone(name) else { throw snapshot.elsewhere.mayJudge ? .configured : .busy }
        guard let depth else { throw .unknown }
        return depth.waiting + depth.claimed
    }

    // MARK: Apps

    /// Saves which app each backend belongs to, since a delivery to a token does not tell the app once the backend is
    /// gone.
    ///
    /// Nothing is written as long as there was never an app other than the default one.
    private func noteApps(_ snapshot: GatewaySnapshot) async {
        do throws(StoreError) {
            let known = try await notedApps()
            guard !known.isEmpty || snapshot.apps.contains(where: { $0 != .default }) else { return }
            var apps = known
            // Adds the backends from before the first configuration with another app.
            if known.isEmpty { for old in state.withLock({ $0.snapshot })?.backends ?? [] { apps[old.name] = old.app } }
            for backend in snapshot.backends { apps[backend.name] = backend.app }
            guard apps != known else { return }
            let lines = apps.map { "\($0.key) \($0.value)" }.sorted()
            try await store.saveState(Self.appsKey, Array(lines.joined(separator: "\n").utf8))
        } catch {
            // A move then reads the deliveries instead, and the next installation tries again.
            logger.unlessCancelled?.warning(
                "the apps of the backends were not noted",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func notedApps() async throws(StoreError) -> [String: AppName] {
        let stored = try await store.loadState(Self.appsKey)
        var apps: [String: AppName] = [:]
        for line in String(decoding: stored ?? [], as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 2 { apps[String(words[0])] = AppName(rawValue: String(words[1])) }
        }
        return apps
    }

    /// Returns the app of the deliveries that wait for a backend, when it differs from the wanted one; nil also when it
    /// is unknown.
    private func foreignApp(of name: String, _ wanted: AppName) async throws(StoreError) -> AppName? {
        if let noted = try await notedApps()[name] { return noted == wanted ? nil : noted }
        // An older version had the backend. Devices and users name their app; deliveries that are not due are not read.
        var place: WaitingPlace?
        repeat {
            let look = WaitingLook(backend: name, after: place, limit: Self.page)
            let page = try await store.waitingDeliveries(look) { waiting in
                Self.app(of: waiting.recipient).map { $0 != wanted } ?? false
            }
            if let foreign = page.found.first { return Self.app(of: foreign.recipient) }
            place = page.next
        } while place != nil
        return nil
    }

    /// Returns the app that a recipient names: that of a device or a user.
    private static func app(of recipient: Recipient) -> AppName? {
        switch recipient {
        case .device(let key), .user(let key): AppName.default.owns(key) ? .default : AppName(ofDevice: key)
        case .token, .platformID, .topic, .tags, .everyone: nil
        }
    }

    private func forgetDropped(_ name: String) async {
        let dropped = state.withLock { state in state.dropped.remove(name) == nil ? nil : state.dropped }
        if let dropped { try? await save(dropped) }  // Its configuration also ends the drop.
    }

    private func save(_ dropped: Set<String>) async throws(StoreError) {
        let text = dropped.sorted().joined(separator: "\n")
        try await store.saveState(Self.droppedKey, dropped.isEmpty ? nil : Array(text.utf8))
    }
}
