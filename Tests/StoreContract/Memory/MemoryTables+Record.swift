import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue

extension MemoryTables {
    typealias EndEvent = @Sendable (ClaimedDelivery, DeliveryState, EndReason) -> [UInt8]

    /// Records the results of claims: all of them or, when one cannot be recorded, none.
    mutating func record(
        _ resolutions: [Resolution],
        _ event: EndEvent,
        withdrawn: [Int64: MemoryStore.EndEvent],
        _ now: Date
    ) -> Result<StoreChange, StoreError> {
        for resolution in resolutions {
            let steps = waiting[resolution.delivery]?.plan.backends.count
            if let refusal = RecordRules.refusal(of: resolution.transition, steps: steps) {
                return .failure(refusal.error(of: resolution.delivery))
            }
        }
        var change = StoreChange()
        for resolution in resolutions { decide(resolution, event, withdrawn, now, &change) }
        return .success(change)
    }

    /// Reads a page of deliveries that are due and not claimed, in order, after a place.
    func look(_ look: WaitingLook, where isWanted: (WaitingDelivery) -> Bool, _ time: any TimeSource) -> WaitingPage {
        let rows = waiting.values.filter { row in
            let due = due(row, time)
            return row.backend == look.backend && isFree(row) && due <= time.steady
                && due >= look.since ?? .distantPast
        }.map { (row: $0, place: WaitingPlace(flow: 0, due: due($0, time).millisecondsSince1970, id: $0.id)) }
            .filter { one in look.after.map { ($0.due, $0.id) < (one.place.due, one.place.id) } ?? true }
            .sorted { ($0.place.due, $0.place.id) < ($1.place.due, $1.place.id) }
        let looked = rows.prefix(max(1, look.limit))
        let found = looked.map { claim(of: $0.row) }.filter {
            isWanted(
                WaitingDelivery(
                    id: $0.id,
                    recipient: $0.recipient,
                    plan: $0.plan,
                    step: $0.step,
                    isReplay: $0.isReplay,
                    isRecovered: $0.isRecovered,
                    isCancelled: $0.isCancelled
                )
            )
        }
        return WaitingPage(found: found, next: rows.count > looked.count ? looked.last?.place : nil)
    }

    /// Records decisions about waiting deliveries of a backend, unless they have changed since they were read; returns
    /// the numbers of those recorded.
    mutating func settle(
        _ resolutions: [Resolution],
        at backend: String,
        _ event: EndEvent,
        _ now: Date,
        _ change: inout StoreChange
    ) -> Set<Int64> {
        var settled: Set<Int64> = []
        for resolution in resolutions {
            guard let row = waiting[resolution.delivery], row.backend == backend, row.lease == resolution.lease,
                isFree(row)
            else { continue }
            // It counts as claimed while the decision is recorded.
            lastLease += 1
            waiting[row.id]?.owner = 0
            waiting[row.id]?.lease = lastLease
            var decision = resolution
            decision.lease = lastLease
            decide(decision, event, [:], now, &change)
            settled.insert(row.id)
        }
        return settled
    }

    /// Makes the deliveries of a backend due that wait for another attempt; returns their number.
    mutating func makeRetriesDue(_ backend: String, _ time: any TimeSource) -> Int {
        let found = waiting.values.filter {
            $0.backend == backend && $0.owner == nil && $0.attempts > 0 && due($0, time) > time.steady
                && !($0.isReplay && $0.plan.onUnknown == .wait) && !AttemptLog.keepsItsTime($0.attemptLog)
        }
        for row in found {
            waiting[row.id]?.due = time.steady
            waiting[row.id]?.wallDue = nil
        }
        return found.count
    }

    private mutating func decide(
        _ resolution: Resolution,
        _ event: EndEvent,
        _ withdrawn: [Int64: MemoryStore.EndEvent],
        _ now: Date,
        _ change: inout StoreChange
    ) {
        guard var row = waiting[resolution.delivery] else {
            change.ignored += 1
            return
        }
        let isInForce = row.owner != nil && resolution.lease ?? row.lease == row.lease
        var facts = RecordFacts(
            isInForce ? .claimed : .stale,
            mayHaveBeenSent: row.mayHaveBeenSent,
            isCancelled: row.isCancelled,
            steps: row.plan.backends.count
        )
        let (transition, mayHaveBeenSent) = (resolution.transition, resolution.mayHaveBeenSent)
        var decision = RecordRules.decide(transition, mayHaveBeenSent: mayHaveBeenSent, facts)
        var backend = row.backend
        if case .retry(_, let step, _) = decision { backend = target(of: row.plan.backends[step]) }
        if decision.waits, rivals(of: row, at: backend).contains(where: { $0.owner == nil && $0.id > row.id }) {
            facts.isReplaced = true
            decision = RecordRules.decide(transition, mayHaveBeenSent: mayHaveBeenSent, facts)
        }
        switch decision {
        case .ignore:
            change.ignored += 1
            return
        case .refuse: return  // ``record(_:_:withdrawn:_:)`` has failed before.
        case .end(let state):
            end(row, state, now, &change, attempt: resolution.attempt, receipt: resolution.receipt)
        case .reached:
            end(givenBack(row), .acceptedByPlatform, now, &change, attempt: resolution.attempt)
        case .withdraw(let known, let reason):
            let state = RecordRules.withdrawn(known, row.attemptLog, resolution.attempt)
            let isAccepted = state == .acceptedByPlatform
            let given = isAccepted ? givenBack(row, resolution.attempt) : row
            end(given, state, now, &change, attempt: resolution.attempt, receipt: resolution.receipt)
            // A cancellation has its own event; otherwise the caller's is used.
            let own = reason == .cancelled ? withdrawn[row.id]?(claim(of: row), state) : nil
            append(own ?? event(claim(of: row), state, reason), now)
            return
        case .retry(let moment, let step, let isReplay):
            (row.due, row.wallDue, row.step, row.backend) = (moment, nil, step, backend)
            if let attempt = resolution.attempt {
                row.attempts += 1
                row.attemptLog = row.attemptLog.joined(with: attempt)
            }
            row.receipt = resolution.receipt ?? row.receipt
            putBack(row, isReplay: isReplay)
        case .release(let isReplay): putBack(row, isReplay: isReplay)
        }
        if let event = resolution.event { append(event, now) }
    }

    private mutating func putBack(_ row: Waiting, isReplay: Bool) {
        var row = row
        (row.isReplay, row.isRecovered, row.owner) = (isReplay, false, nil)
        waiting[row.id] = row
    }

    /// Brings a delivery to a state without a claim, for tests.
    mutating func bring(_ delivery: Int64, to state: DeliveryState, _ attempt: [UInt8]?, _ now: Date) {
        var change = StoreChange()
        if var row = waiting[delivery] {
            if state.isFinal { return end(row, state, now, &change, attempt: attempt) }
            row.attempts += 1
            row.attemptLog = row.attemptLog.joined(with: attempt)
            waiting[delivery] = row
        } else if var row = ended[delivery] {
            row.state = state
            row.attemptLog = row.attemptLog.joined(with: attempt)
            ended[delivery] = row
        }
    }

    /// Cancels the waiting deliveries of a notification, and marks the claimed ones; returns the numbers of the latter.
    mutating func cancel(
        _ id: NotificationID,
        _ event: MemoryStore.EndEvent,
        _ now: Date,
        _ change: inout StoreChange
    ) -> (Cancellation, claimed: [Int64])? {
        guard let new = notifications[id.rawValue] else { return nil }
        let rows = new.numbers.compactMap { waiting[$0] }
        let claimed = withdraw(rows, event, now, &change)
        let cancelled = rows.count - claimed.count
        let result = Cancellation(
            cancelled: cancelled,
            tooLate: new.recipients.count - rows.count,
            inFlight: claimed.count
        )
        return (result, claimed)
    }

    /// Cancels the waiting deliveries of a caller up to a number, and marks the claimed ones; returns the numbers of
    /// the latter.
    mutating func cancel(
        caller: String,
        upTo end: Int64,
        _ event: MemoryStore.EndEvent,
        _ now: Date,
        _ change: inout StoreChange
    ) -> (CallerCancellation, claimed: [Int64]) {
        let rows = waiting.values.filter {
            $0.id <= end && notifications[$0.notification]?.caller == caller && !($0.owner != nil && $0.isCancelled)
        }.sorted { $0.id < $1.id }
        let claimed = withdraw(rows, event, now, &change)
        return (CallerCancellation(cancelled: rows.count - claimed.count, inFlight: claimed.count), claimed)
    }

    /// Ends those of some deliveries that wait, and marks the claimed ones; returns the numbers of the latter.
    mutating func withdraw(
        _ rows: [Waiting],
        _ event: MemoryStore.EndEvent,
        _ now: Date,
        _ change: inout StoreChange
    ) -> [Int64] {
        for row in rows {
            if row.owner != nil {
                waiting[row.id]?.isCancelled = true
            } else {
                end(givenBack(row), row.withdrawnState, now, &change)
                append(event(claim(of: row), row.withdrawnState), now)
            }
        }
        return rows.filter { $0.owner != nil }.map(\.id)
    }

    mutating func move(_ backend: String, to other: String) -> Int? {
        let rows = waiting.values.filter { $0.backend == backend }
        guard rows.allSatisfy({ $0.owner == nil }) else { return nil }
        for row in rows { waiting[row.id]?.backend = other }
        for (name, target) in moves where target == backend { moves[name] = other }
        moves[backend] = other
        moves[other] = nil
        return rows.count
    }

    // MARK: Receipts

    /// The longest attempt log, in bytes, to which a receipt without a state is still added.
    private static let longestAttemptLog = 32 << 10

    /// Records a report about a delivery that has not ended; nil when it is about none that waits for it.
    private mutating func report(
        _ receipt: ReceiptEntry,
        about id: Int64,
        _ now: Date,
        _ change: inout StoreChange
    ) -> ReceiptResult? {
        guard var row = waiting[id] else { return nil }
        let decision = ReportRules.decide(
            receipt,
            row.plan,
            step: row.step,
            row.attemptLog,
            isClaimed: row.owner != nil,
            mayHaveBeenSent: row.mayHaveBeenSent
        )
        guard decision != .ignore else { return nil }
        var received = ReceivedDelivery(claim(of: row), state: .retrying)
        guard receipt.isFor(received) else { return nil }
        switch decision {
        case .ignore: return nil
        case .repeated: return .repeated(received)
        case .early: return .early
        case .end(let state):
            received.state = state
            end(givenBack(row), state, now, &change, attempt: receipt.logEntry)
        case .note(let isDue):
            row.attemptLog = row.attemptLog.joined(with: receipt.logEntry)
            if isDue { row.due = now }
            waiting[id] = row
        }
        append(receipt.event(received), now)
        return .recorded(received)
    }

    mutating func record(_ receipt: ReceiptEntry, _ now: Date, _ change: inout StoreChange) -> ReceiptResult {
        for id in candidates(receipt.address) {
            if let result = report(receipt, about: id, now, &change) { return result }
            guard var row = ended[id], let recipient = row.recipient,
                receipt.address.backend.isEmpty || row.backend == receipt.address.backend
            else { continue }
            func received(_ state: DeliveryState) -> ReceivedDelivery {
                ReceivedDelivery(
                    id: id,
                    notificationID: NotificationID(rawValue: row.notification),
                    recipient: recipient,
                    caller: notifications[row.notification]?.caller ?? "",
                    state: state,
                    record: notifications[row.notification]?.record,
                    backend: row.backend
                )
            }
            guard receipt.isFor(received(row.state)) else { continue }
            if let state = receipt.state {
                guard row.state.canBecome(state) else { return .repeated(received(row.state)) }
                row.state = state
            } else if row.attemptLog.count > Self.longestAttemptLog
                || row.attemptLog.firstRange(of: receipt.logEntry) != nil
            {
                return .repeated(received(row.state))
            }
            row.attemptLog = row.attemptLog.joined(with: receipt.logEntry)
            row.changed = now
            ended[id] = row
            append(receipt.event(received(row.state)), now)
            return .recorded(received(row.state))
        }
        return .unknown
    }

    private func candidates(_ address: ReceiptAddress) -> [Int64] {
        if let delivery = address.delivery { return [delivery] }
        func isMeant(_ receipt: ReceiptAddress?) -> Bool {
            guard let receipt, receipt.backend == address.backend, receipt.platformID == address.platformID else {
                return false
            }
            return address.token == nil || address.token == receipt.token
        }
        let over = ended.values.filter { isMeant($0.receipt) }.map(\.id)
        let found = (over + waiting.values.filter { isMeant($0.receipt) }.map(\.id)).sorted()
        return address.token == nil ? Array(found.prefix(1)) : found
    }

    // MARK: Erasure

    /// Cancels, removes and anonymises the deliveries of a user up to an end.
    mutating func erase(
        _ traces: UserTraces,
        _ event: MemoryStore.EndEvent,
        _ state: (Set<Int64>) -> (name: String, value: [UInt8]),
        _ now: Date,
        _ change: inout StoreChange
    ) -> (ErasedDeliveries, claimed: [Int64]) {
        var result = ErasedDeliveries()
        let end = traces.end?.delivery ?? .max
        let recipients = Set(traces.recipients.map { ExactText($0) })
        func isTheirs(_ recipient: Recipient?) -> Bool {
            recipient.map { recipients.contains(ExactText($0.storedForm)) } ?? false
        }
        let rows = waiting.values.filter { $0.id <= end && isTheirs($0.recipient) }.sorted { $0.id < $1.id }
        let claimed = withdraw(rows, event, now, &change)
        result.inFlight = claimed.count
        result.cancelled = rows.count - claimed.count
        let own = ended.values.filter { $0.id <= end && isTheirs($0.recipient) }
        for id in Set(own.map(\.notification)) {
            guard let new = notifications[id],
                new.numbers.allSatisfy({ number in
                    waiting[number] == nil
                        && ended[number].map { $0.recipient == nil || isTheirs($0.recipient) } ?? true
                })
            else { continue }
            for number in new.numbers where ended.removeValue(forKey: number) != nil { result.removed += 1 }
            notifications[id] = nil
            result.notifications.insert(id)
        }
        for row in own where ended[row.id] != nil {
            ended[row.id]?.recipient = nil
            if let place = notifications[row.notification]?.id.place(of: row.id) {
                notifications[row.notification]?.forgetUser(at: Int(place))
            }
            ended[row.id]?.attemptLog = []
            ended[row.id]?.receipt = nil
            result.anonymised += 1
        }
        if !result.notifications.isEmpty {
            let (name, value) = state(result.notifications)
            self.state[name] = value
        }
        return (result, claimed)
    }
}
