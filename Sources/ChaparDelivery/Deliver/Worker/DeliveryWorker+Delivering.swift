internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparComposition
internal import ChaparObservability
internal import ChaparQueue
internal import Synchronization

/// The path of a claimed batch: it is addressed, sent to the backend, and recorded.
extension DeliveryWorker {
    func deliver(_ claimed: Claimed) async {
        let (claims, silent, late) = parted(claimed.deliveries, isClaimed: true)
        if !late.isEmpty {
            let later = dependencies.time.steady.addingTimeInterval(1)
            record(late.map { Resolution(of: $0, .retry(at: later, step: $0.step)) })
        }
        var due = claimed
        due.deliveries = claims
        guard !silent.isEmpty else { return await send(due) }
        // The platform is asked in parallel, so that sending does not wait for it.
        async let queried: Void = query(silent, isClaimed: true)
        await send(due)
        await queried
    }

    private func send(_ claimed: Claimed) async {
        let unregistered = await handOver(claimed)
        if claimed.isRequest { gate.endRequest() }
        guard let (batch, outcomes) = unregistered else { return }
        finish(await awaitingRegistration(outcomes, of: batch), of: batch)
    }

    /// Sends deliveries to the backend and waits for its answers; returns the refusals for a missing registration, nil
    /// when nothing was sent.
    private func handOver(_ claimed: Claimed) async -> (WorkerBatch, [WorkerBatch.Outcome])? {
        let (permitted, known) = await permitted(claimed.deliveries)
        let claims = await takingOver(permitted)
        guard !claims.isEmpty, let addresses = await addresses(of: claims, known) else { return nil }
        var receipts: ReceiptMarks?
        if settings.takesReceipts { receipts = await receiptMarks() }
        guard dependencies.store.holdsClaims(since: claimed.since) else {
            // Deliveries that another gateway has taken meanwhile remain that gateway's.
            giveBack(claims, at: dependencies.clock.reading)
            return nil
        }
        let batch = WorkerBatch(
            claims,
            number: open.nextNumber(),
            isRequest: claimed.isRequest,
            addresses: addresses,
            decode: dependencies.decode,
            instance: dependencies.instance,
            receipts: receipts
        ) {
            self.record($0)
        }
        let due = batch.select(at: dependencies.clock.reading) {
            self.withhold($0, at: $1)
        } skip: {
            self.skip($0, reason: $1, at: $2)
        }
        guard !due.isEmpty else { return nil }
        let started = ContinuousClock.now
        let unregistered = Mutex<[WorkerBatch.Outcome]>([])
        let handedOver = dependencies.time.steady
        batch.handOver(at: handedOver)
        if let times { batch.observeWaits(in: times, at: handedOver) }
        let report: @Sendable ([DeliveryReport]) -> Void = { reports in
            self.dependencies.observer.answered(
                backend: self.name,
                kind: self.backend.kind,
                after: .now - started,
                count: reports.count
            )
            var answered = batch.match(reports, at: self.dependencies.time.steady)
            if self.addressesDevices {
                let first = answered.partition {
                    $0.outcome.isNotRegistered && batch.claims[$0.index].recipient.isDevice
                }
                unregistered.withLock { $0 += answered[first...] }
                answered.removeSubrange(first...)
            }
            self.finish(answered, of: batch)
        }
        // A task, so that it can be given up when it reports nothing; its end is awaited here.
        let permit = SendPermit { [store = dependencies.store, since = claimed.since] in
            store.holdsClaims(since: since)
        }
        let sending = Task { [backend, open, name] in
            // The permit is checked again before each write: the process may have been suspended while others sent the
            // same messages.
            await SendPermit.$current.withValue(permit) {
                await SendSpan.run(backend: name, kind: backend.kind, requests: due, report: report) { report in
                    await backend.send(due, report: report)
                }
            }
            permit.end()
            open.end(batch)
        }
        open.add(batch, sending)
        await withTaskCancellationHandler {
            await open.wait(for: batch)
        } onCancel: {
            sending.cancel()
        }
        open.remove(batch)
        finish(batch.unreported(reason: "not_reported", isRepeatHarmful: backend.isRepeatHarmful), of: batch)
        return (batch, unregistered.withLock { $0 })
    }

    /// Returns the claims that may be sent now.
    ///
    /// Claims of campaigns that are paused or cancelled, and claims for devices that by now are excluded, are postponed
    /// or end. It also returns the devices that were read for this check.
    private func permitted(
        _ claims: [ClaimedDelivery]
    ) async -> (claims: [ClaimedDelivery], devices: [String: Device]) {
        guard let campaigns = dependencies.campaigns, claims.contains(where: { $0.head.record.partOf != nil }) else {
            return (claims, [:])
        }
        let now = dependencies.clock.reading
        let look: CampaignDirectory.Look
        do throws(StoreError) {
            look = try await campaigns.look(at: claims)
        } catch {
            dependencies.logger.error(
                "reading a campaign failed",
                metadata: ["backend": "\(name)", "error": "\(error)"]
            )
            let later = now.steady.addingTimeInterval(1)
            let parts = claims.filter { $0.head.record.partOf != nil }
            record(parts.map { withhold($0, at: now) ?? Resolution(of: $0, .retry(at: later, step: $0.step)) })
            return (claims.filter { $0.head.record.partOf == nil }, [:])
        }
        guard !look.decisions.isEmpty else { return (claims, look.devices) }
        var left: [ClaimedDelivery] = []
        var resolutions: [Resolution] = []
        for claim in claims {
            switch look.decisions[claim.id] {
            case nil: left.append(claim)
            case .wait(let until):
                resolutions.append(
                    withhold(claim, at: now) ?? Resolution(of: claim, .retry(at: until, step: claim.step))
                )
            case .end(let reason):
                resolutions.append(withhold(claim, at: now) ?? Self.withdrawn(claim, reason: reason, at: now))
            }
        }
        record(resolutions)
        return (left, look.devices)
    }

    /// Returns the resolution of a delivery that is not to be sent any more.
    private static func withdrawn(_ claim: ClaimedDelivery, reason: String, at now: TimeReading) -> Resolution {
        let state = RecordRules.withdrawnState(mayHaveBeenSent: claim.isReplay)
        return .ending(claim, as: state, reason: reason, at: now)
    }

    /// Reads the tokens of the devices in a batch at once, except those in `known`; nil when they could not be read, so
    /// that the batch waits.
    private func addresses(of claims: [ClaimedDelivery], _ known: [String: Device]) async -> DeviceAddresses? {
        var devices: [String: Device]?
        do throws(StoreError) {
            if !addressesDevices, DeviceAddresses.areNeeded(for: claims) {
                let missing = DeviceAddresses.ids(in: claims).filter { known[$0] == nil }
                let found = missing.isEmpty ? [:] : try await dependencies.devices?.devices(missing) ?? [:]
                devices = known.merging(found) { $1 }
            }
        } catch {
            dependencies.logger.error("reading devices failed", metadata: ["backend": "\(name)", "error": "\(error)"])
            let now = dependencies.clock.reading
            let later = now.steady.addingTimeInterval(1)
            record(claims.map { withhold($0, at: now) ?? Resolution(of: $0, .retry(at: later, step: $0.step)) })
            return nil
        }
        return DeviceAddresses(
            devices: devices,
            backend: name,
            audiences: settings.audiences,
            backends: settings.backends,
            priority: settings.tokenPriority,
            app: settings.app
        )
    }

    // MARK: Before sending

    /// Returns a resolution for a claim that must not be sent now; nil when it may be sent.
    ///
    /// Call this before recording anything about a claim; otherwise a retry would clear the flag that its last owner
    /// died.
    func withhold(_ claim: ClaimedDelivery, at now: TimeReading) -> Resolution? {
        if let resolution = Resolution.ending(claim, at: now) ?? recover(claim, at: now) {
            if resolution.transition == .end(.expired) { dependencies.observer.expired(backend: name, count: 1) }
            return resolution
        }
        if let until = flow.pauses.withLock({ $0.isEmpty ? nil : $0.pause(of: claim.recipient, at: now.steady) }) {
            return Resolution(of: claim, .retry(at: until, step: claim.step))
        }
        return nil
    }

    /// Skips this backend: the delivery goes on to the next step of its plan, or ends.
    func skip(_ claim: ClaimedDelivery, reason: String, at now: TimeReading) -> Resolution {
        let (resolution, next) = skipped(claim, reason: reason, at: now)
        if let next { dependencies.observer.fellBack(from: name, to: claim.plan.backends[next], reason: reason) }
        return resolution
    }

    /// Does the same without counting it; returns the next step as well.
    func skipped(
        _ claim: ClaimedDelivery,
        reason: String,
        to step: Int? = nil,
        at now: TimeReading
    ) -> (resolution: Resolution, next: Int?) {
        var position = claim.position(at: now)
        if let step { position.nextStep = step }
        let verdict = rules.decide(position, .skipped(reason: reason), at: now.steady, random: 0)
        var next: Int?
        if case .next(let step) = verdict.move { next = step }
        let attempt = EventJSON.skipped(
            name,
            reason: reason,
            at: now.wall,
            steady: verdict.isGoingOn ? now.steady : nil
        )
        let resolution = Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now.wall, attempt: attempt, reason: reason)
        )
        return (resolution, next)
    }

    /// Returns the resolution of a delivery whose last owner died and that must not be sent again: it counts as sent
    /// without an answer.
    ///
    /// Nil when a second copy is acceptable, by the plan's rule or because it does no harm, and for any other delivery.
    func recover(_ claim: ClaimedDelivery, at now: TimeReading) -> Resolution? {
        guard claim.isRecovered else { return nil }
        switch claim.plan.onUnknown {
        case .retry?, .next?: return nil
        case .stop?, .wait?: break
        case nil:
            guard let notification = claim.notification(dependencies.decode) else { return nil }
            if !backend.isRepeatHarmful(notification) { return nil }
        }
        let outcome = DeliveryOutcome.unknown(UnknownOutcome(reason: "gateway_restarted", isRepeatHarmful: true))
        let verdict = rules.decide(claim.position(at: now), .answered(outcome), at: now.steady, random: 0)
        let attempt = EventJSON.attempt(
            outcome,
            backend: name,
            at: now.wall,
            retryAt: nil,
            steady: verdict.isGoingOn ? now.steady : nil
        )
        return Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: true,
            event: EventJSON.delivery(
                claim,
                state: verdict.state,
                at: now.wall,
                attempt: attempt,
                reason: "gateway_restarted"
            )
        )
    }

    /// Records resolutions, and counts their deliveries as no longer under way.
    func record(_ resolutions: [Resolution]) {
        dependencies.outcomeWriter.append(resolutions)
        gate.update { ((), wakes: $0.finish(resolutions.lazy.map(\.delivery))) }
    }

    // MARK: After sending

    func finish(_ outcomes: [WorkerBatch.Outcome], of batch: WorkerBatch) {
        guard !outcomes.isEmpty else { return }
        let now = dependencies.clock.reading
        var resolutions: [Resolution] = []
        resolutions.reserveCapacity(outcomes.count)
        var aftermath = BatchResult()
        aftermath.works.reserveCapacity(outcomes.count)
        if times != nil { aftermath.answered.reserveCapacity(outcomes.count) }
        let isStopped = isStopped
        let moment = AttemptTemplate.Moment(now.wall)
        let hasLast = batch.hasLast
        for (index, outcome) in outcomes {
            if case .accepted(let acceptance) = outcome {
                let claim = batch.claims[index]
                let waiting = settings.escalates ? awaitingReport(acceptance, claim, batch, at: now) : nil
                resolutions.append(waiting ?? accepted(acceptance, claim, batch, at: moment))
                aftermath.accepted += 1
                if times != nil { aftermath.answered.append(index) }
                if !acceptance.isDryRun {
                    aftermath.taken += 1
                    aftermath.works.append(batch.claims[index].id)
                    if hasLast { aftermath.ended.append(batch.claims[index]) }
                }
                continue  // The usual case has no other consequences.
            }
            let claim = batch.claims[index]
            if isStopped, outcome.isCancelled {
                resolutions.append(Resolution(of: claim, .release))
                continue
            }
            let resolution = resolve(claim, outcome, batch, at: now, &aftermath)
            if times != nil, outcome.isVerdict, case .end = resolution.transition { aftermath.answered.append(index) }
            resolutions.append(resolution)
        }
        if aftermath.accepted > 0 {
            dependencies.observer.attempted(
                backend: name,
                app: settings.app,
                kind: backend.kind,
                outcome: "accepted",
                reason: "",
                count: aftermath.accepted
            )
        }
        if let reason = aftermath.failures.first?.reason {
            let messages = aftermath.failures.map(\.message)
            let change = gate.update { $0.apply(failure: reason, of: messages, at: now.steady) }
            if let event = announce(change, at: now) { aftermath.events.append(event) }
        }
        trace(outcomes, of: batch, at: now)
        if let times { batch.observeAnswers(aftermath.answered, in: times, at: now.steady) }
        invalidateTokens(&aftermath, at: now)
        dependencies.tokenInvalidation.end(aftermath.ended.compactMap(batch.endedToken), of: settings.app)
        let change = gate.update { state in
            let isProbe = state.isProbe(anyOf: aftermath.works)
            let change =
                aftermath.works.isEmpty
                ? nil : state.works(aftermath.works.count, isProbe: isProbe, at: now.steady)
            let wakes = state.finish(outcomes.lazy.map { batch.claims[$0.index].id })
            return (change, wakes: wakes || change != nil)
        }
        if let event = announce(change, at: now) { aftermath.events.append(event) }
        dependencies.outcomeWriter.append(resolutions, events: aftermath.events)
    }

    /// Returns the resolution of a delivery that the platform accepted.
    private func accepted(
        _ acceptance: Acceptance,
        _ claim: ClaimedDelivery,
        _ batch: WorkerBatch,
        at moment: AttemptTemplate.Moment
    ) -> Resolution {
        if let part = claim.head.record.partOf, !part.keepsAll {
            // Of a campaign's accepted deliveries only the state and its time are kept, and the way to a receipt.
            let receipt = receiptAddress(of: acceptance, claim, batch)
            return Resolution(of: claim, .end(.acceptedByPlatform), receipt: receipt)
        }
        let attempt = template.attempt(acceptance, service: batch.service(of: claim), at: moment)
        return Resolution(
            of: claim,
            .end(.acceptedByPlatform),
            attempt: attempt,
            event: template.event(claim, attempt: attempt, at: moment),
            receipt: receiptAddress(of: acceptance, claim, batch)
        )
    }

    /// Returns the address by which a receipt finds the delivery; nil when the platform sends none.
    func receiptAddress(
        of acceptance: Acceptance,
        _ claim: ClaimedDelivery,
        _ batch: WorkerBatch
    ) -> ReceiptAddress? {
        guard acceptance.isVerdictPending, let platformID = acceptance.platformID else { return nil }
        // A delivery has one address. After a wait for a report it is that of the backend that accepted it first.
        guard claim.step == 0 || !claim.isAccepted else { return nil }
        let token = batch.token(of: claim)?.value ?? settings.app.named(claim.recipient).receiptUser
        return ReceiptAddress(backend: name, platformID: platformID, token: token)
    }

    /// The shortest pause that is logged, in seconds: messages may expire meanwhile.
    private static let longPause = 60.0

    /// The combined results of one group of answers.
    private struct BatchResult {
        var accepted = 0
        /// The indices of the deliveries that an answer ended; empty where no times are kept.
        var answered: [Int] = []
        /// The part of ``accepted`` that was no dry run.
        var taken = 0
        /// The deliveries whose answers show the platform at work.
        var works: [Int64] = []
        /// Failures of messages that share a request: they count as one.
        var failures: [(message: FlowGate.State.Message, reason: String)] = []
        /// The number of answers, other than acceptances, about the token or the message.
        var verdicts = 0
        var refused: [(refusal: TokenRefusal, device: String?)] = []
        /// Accepted deliveries of a batch in which some end the use of their tokens.
        var ended: [ClaimedDelivery] = []
        var events: [[UInt8]] = []
    }

    /// Returns the resolution of a delivery that was not accepted.
    private func resolve(
        _ claim: ClaimedDelivery,
        _ outcome: DeliveryOutcome,
        _ batch: WorkerBatch,
        at now: TimeReading,
        _ aftermath: inout BatchResult
    ) -> Resolution {
        var position = claim.position(at: now, after: outcome)
        position.isNowOrNever = claim.isNowOrNever(dependencies.decode)
        let deadToken = tokenRefusal(outcome, of: claim, batch, at: now)
        position.nextStep = batch.addresses.nextStep(
            of: claim,
            batch.uses(of: claim),
            refused: deadToken.map { ($0.token, $0.isCertain) }
        )
        let verdict = rules.decide(position, .answered(outcome), at: now.steady, random: .random(in: 0...1))
        let attempt = EventJSON.attempt(
            outcome,
            backend: name,
            at: now.wall,
            retryAt: verdict.retryAt.map(now.wall),
            service: batch.service(of: claim),
            steady: verdict.isGoingOn ? now.steady : nil
        )
        count(claim, outcome, verdict)
        if let until = verdict.recipientPause {
            flow.pauses.withLock { $0.pause(claim.recipient, until: until, at: now.steady) }
        }
        if case .refused(let refusal) = outcome {
            if refusal.kind == .token || refusal.kind == .message { aftermath.verdicts += 1 }
            if let deadToken { aftermath.refused.append((deadToken, claim.deviceID)) }
        }
        if case .pause(let span, let reason) = verdict.signal {
            let until = now.steady + span.inSeconds
            if flow.isNewsToOthers(pauseUntil: until) {
                dependencies.tell(.paused(backend: name, identity: flow.identity, until: until, reason: reason))
            }
        }
        switch verdict.signal {
        case .works:
            aftermath.works.append(claim.id)
        case .fails(let reason) where batch.isRequest:
            aftermath.failures.append((batch.message(claim), reason))
        case let signal:
            let message = batch.message(claim)
            let change = gate.update { $0.apply(signal, of: message, at: now.steady) }
            if let event = announce(change, at: now) { aftermath.events.append(event) }
        }
        return Resolution(
            of: claim,
            verdict.transition(claim, at: now.steady),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now.wall, attempt: attempt)
        )
    }

    /// Passes refused tokens to the guard.
    private func invalidateTokens(_ aftermath: inout BatchResult, at now: TimeReading) {
        let answers = aftermath.accepted + aftermath.verdicts
        guard answers > 0 else { return }
        let doubt = dependencies.tokenInvalidation.receive(
            aftermath.refused.map(\.refusal),
            answers: answers,
            acceptedUnder: aftermath.taken > 0 ? flow.identity : nil,
            watch,
            at: now
        )
        for (refusal, device) in aftermath.refused where refusal.alternatives.isEmpty {
            dependencies.observer.invalidatedToken(backend: name, reason: refusal.reason)
            guard !doubt.covers(refusal.caller) else { continue }
            aftermath.events.append(EventJSON.tokenInvalidated(refusal, device: device, at: now.wall))
        }
    }

    /// Returns the refusal of the delivery's token in an outcome; nil when there is none.
    private func tokenRefusal(
        _ outcome: DeliveryOutcome,
        of claim: ClaimedDelivery,
        _ batch: WorkerBatch,
        at now: TimeReading
    ) -> TokenRefusal? {
        guard case .refused(let refusal) = outcome, let invalidation = refusal.invalidation,
            let token = batch.token(of: claim)
        else { return nil }
        return TokenRefusal(
            token,
            kind: batch.tokenKind(of: claim, at: name) { backend.tokenUse(of: $0) },
            of: settings.app,
            asOf: invalidation.asOf,
            at: now.wall,
            backend: name,
            reason: refusal.reason,
            isCertain: invalidation.isCertain,
            alternatives: invalidation.isCertain ? [] : settings.alternatives(to: name, for: token.service),
            isLast: !claim.laterSteps(settings.audiences, after: name, isTokenRefused: true)
                .contains { settings.audiences[claim.plan.backends[$0]]?.services.contains(token.service) ?? false },
            caller: claim.caller
        )
    }

    private func count(_ claim: ClaimedDelivery, _ outcome: DeliveryOutcome, _ verdict: PlanVerdict) {
        let observer = dependencies.observer
        let (label, reason) = outcome.label
        observer.attempted(
            backend: name,
            app: settings.app,
            kind: backend.kind,
            outcome: label,
            reason: reason,
            count: 1
        )
        switch verdict.move {
        case .retry, .hold: observer.retried(backend: name, reason: reason)
        case .next(let step): observer.fellBack(from: name, to: claim.plan.backends[step], reason: reason)
        case .end: break
        }
    }

    /// Logs a change of the worker's state; returns its event.
    ///
    /// Reports nothing about a backend that a reload has replaced or removed: late answers are about the old one.
    func announce(_ change: FlowGate.Change?, at now: TimeReading) -> [UInt8]? {
        guard !flow.isRetired else { return nil }
        switch change {
        case nil, .resumedQuietly?:
            return nil
        case .resumed?:
            dependencies.logger.notice("backend works again", metadata: ["backend": "\(name)"])
            return EventJSON.backend("resumed", name, reason: nil, until: nil, at: now.wall)
        case .closed?:
            dependencies.logger.notice("breaker closed: the backend works again", metadata: ["backend": "\(name)"])
            return EventJSON.backend("breaker_closed", name, reason: nil, until: nil, at: now.wall)
        case .opened(let until, let reason)?:
            gate.cancelClaims()
            dependencies.logger.error(
                "breaker opened: nothing is sent to the backend for now",
                metadata: ["backend": "\(name)", "reason": "\(reason)", "until": "\(RFC3339.string(now.wall(until)))"]
            )
            return EventJSON.backend("breaker_opened", name, reason: reason, until: now.wall(until), at: now.wall)
        case .paused(let until, let reason)?:
            gate.cancelClaims()
            if until.timeIntervalSince(now.steady) >= Self.longPause {
                let end = RFC3339.string(now.wall(until))
                dependencies.logger.warning(
                    "the platform asks for a long pause",
                    metadata: ["backend": "\(name)", "reason": "\(reason)", "until": "\(end)"]
                )
            }
            return EventJSON.backend("paused", name, reason: reason, until: now.wall(until), at: now.wall)
        case .slowed(let until, let reason, let detail, let isFirst)?:
            gate.cancelClaims()
            guard isFirst else { return nil }
            dependencies.logger.warning(
                "the platform slows the backend: one message at a time until it takes one",
                metadata: ["backend": "\(name)", "reason": "\(reason)", "detail": "\(detail ?? "")"]
            )
            return EventJSON.backend("paused", name, reason: reason, until: now.wall(until), at: now.wall)
        case .parked(let until, let reason, let detail, let isFirst)?:
            gate.cancelClaims()
            guard isFirst else { return nil }
            dependencies.logger.error(
                "backend is parked, an operator must act",
                metadata: ["backend": "\(name)", "reason": "\(reason)", "detail": "\(detail ?? "")"]
            )
            return EventJSON.backend("parked", name, reason: detail ?? reason, until: now.wall(until), at: now.wall)
        }
    }
}

extension ClaimedDelivery {
    /// The device that it goes to; nil for another recipient.
    var deviceID: String? { if case .device(let id) = recipient { id } else { nil } }
}

extension DeliveryOutcome {
    /// The labels for metrics: the outcome, and the reason if there is one.
    var label: (outcome: String, reason: String) {
        switch self {
        case .accepted: ("accepted", "")
        case .refused(let refusal): (refusal.kind.rawValue, refusal.reason)
        case .unknown(let unknown): ("unknown", unknown.reason)
        }
    }

    /// Whether the platform has judged the message or its token.
    fileprivate var isVerdict: Bool {
        if case .refused(let refusal) = self { refusal.kind == .message || refusal.kind == .token } else { false }
    }

    /// Whether the message was certainly not sent, because its sender is ending.
    var isCancelled: Bool {
        if case .refused(let refusal) = self {
            refusal.kind == .platform && refusal.reason == "cancelled"
        } else {
            false
        }
    }
}

extension Recipient {
    /// The user, in place of a device token, in the address of receipts: users of one call may share the platform's id.
    fileprivate var receiptUser: String? { if case .user = self { storedForm } else { nil } }
}
