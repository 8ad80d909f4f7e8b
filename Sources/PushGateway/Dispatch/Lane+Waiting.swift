internal import Foundation
internal import PushCore

/// Deliveries that are not sent now: those that wait for the platform's word, and those that will not wait any longer.
extension Lane {
    /// How many deliveries are passed on at a time.
    private static let passedOn = 512
    /// How long a platform gets to say what became of one message.
    private static let trackingDeadline = Duration.seconds(10)

    /// While the lane stands still: sends on what has a next backend and no more patience, or whose wait for the
    /// platform's word is over.
    ///
    /// The others become due again when the lane may go on, which is no sooner than they could have been sent.
    func passOn() async {
        let claims = await look(Self.passedOn, patience: .zero)
        guard !claims.isEmpty else { return }
        gate.update { state in
            state.inFlight += claims.count
            return ((), wakes: false)
        }
        let others = await settleSilent(claims)
        let now = around.time.now
        let (reason, since, until) = gate.update { state in
            ((state.blockReason, state.troubleSince ?? now, state.blockedUntil(at: now)), wakes: false)
        }
        let resolutions = others.map { claim in
            if let resolution = hold(claim, at: now) ?? recovered(claim, at: now) { return resolution }
            let hasNext = claim.step + 1 < claim.plan.backends.count
            let patience = hasNext ? claim.plan.patience ?? settings.queue.patience : nil
            let end = patience.map { since.addingTimeInterval($0.inSeconds) }
            if let end, end <= now { return skip(claim, reason: reason, at: now) }
            let later = until ?? now.addingTimeInterval(30)
            let next = end.map { min($0, later) } ?? later
            return Resolution(of: claim, .retry(at: next, step: claim.step))
        }
        if !resolutions.isEmpty { settle(resolutions) }
    }

    private func recovered(_ claim: ClaimedDelivery, at now: Date) -> Resolution? {
        guard claim.isRecovered else { return nil }
        switch claim.content {
        case .decoded(let notification): return recover(claim, notification, at: now)
        case .stored(let bytes): return (try? around.decode(bytes)).flatMap { recover(claim, $0, at: now) }
        }
    }

    /// Takes out of a batch the deliveries whose wait for the platform's word is over, asks the platform a last time, and
    /// settles them.
    func settleSilent(_ claims: [ClaimedDelivery]) async -> [ClaimedDelivery] {
        guard claims.contains(where: { $0.isReplay && $0.plan.onUnknown == .wait }) else { return claims }
        var others: [ClaimedDelivery] = []
        var silent: [(claim: ClaimedDelivery, platformID: String?)] = []
        for claim in claims {
            if let last = claim.silence(of: name) {
                silent.append((claim, last["platform_id"]?.stringValue))
            } else {
                others.append(claim)
            }
        }
        guard !silent.isEmpty else { return claims }
        let words = await words(about: silent.map(\.platformID))
        let now = around.time.now
        settle(zip(silent, words).map { settled($0.claim, $1, at: now) })
        return others
    }

    /// What the platform says about messages; nil where it says nothing in time, or cannot.
    private func words(about ids: [String?]) async -> [DeliveryState?] {
        guard let tracker = backend.tracking else { return ids.map { _ in nil } }
        return await withTaskGroup(of: (Int, DeliveryState?).self) { group in
            var words = [DeliveryState?](repeating: nil, count: ids.count)
            var running = 0
            for (place, id) in ids.enumerated() {
                guard let id else { continue }
                if running == 16, let (place, word) = await group.next() {
                    words[place] = word
                    running -= 1
                }
                running += 1
                group.addTask { [time = around.time] in
                    (place, await Self.word(about: id, tracker, time))
                }
            }
            for await (place, word) in group { words[place] = word }
            return words
        }
    }

    private static func word(
        about id: String,
        _ tracker: any MessageTracker,
        _ time: any TimeSource
    ) async -> DeliveryState? {
        await withTaskGroup(of: DeliveryState?.self) { group in
            group.addTask { try? await tracker.state(of: id) }
            group.addTask {
                try? await time.sleep(for: trackingDeadline)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    /// What becomes of a delivery after its wait for the platform's word.
    private func settled(_ claim: ClaimedDelivery, _ word: DeliveryState?, at now: Date) -> Resolution {
        let verdict = rules.decide(claim.position(at: now), .waited(word), at: now, random: 0)
        let reason = word.map { "platform_says_" + $0.rawValue } ?? "no_word"
        if case .next(let step) = verdict.move {
            around.observer.fellBack(from: name, to: claim.plan.backends[step], reason: reason)
        }
        let attempt = EventJSON.ending(reason, at: now)
        return Resolution(
            of: claim,
            verdict.transition(claim, at: now),
            attempt: attempt,
            mayHaveBeenSent: verdict.mayHaveBeenSent,
            event: EventJSON.delivery(claim, state: verdict.state, at: now, attempt: attempt, reason: reason)
        )
    }
}
