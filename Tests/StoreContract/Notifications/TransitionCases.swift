import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting

/// Checks that a store moves deliveries as ``ChaparCore/DeliveryState`` says: every state and event of the table is
/// tried.
extension StoreConformance {
    static let transitions: [StoreConformanceCase] = [
        StoreConformanceCase("A delivery goes through its states as the table says") { fixture in
            var store = try await fixture.open()
            let id = try await store.accept(.sample(store, fixture.time, due: fixture.time.now + 5))
            var state = try await store.move(id, .enqueue, from: nil)
            fixture.time.advance(by: .seconds(6))
            state = try await store.move(id, .due, from: state)
            func claim() async throws -> ClaimedDelivery {
                let claims = try await store.claimNow()
                guard let first = claims.first else { throw ConformanceFailure("nothing to claim") }
                state = try await store.move(id, .claim, from: state)
                return first
            }
            try await store.record([Resolution(of: try await claim(), .release)])
            state = try await store.move(id, .release, from: state)
            let again = Resolution.Transition.retry(at: store.time.steady, step: 0)
            try await store.record([Resolution(of: try await claim(), again)])
            state = try await store.move(id, .retry, from: state)
            try await store.record([Resolution(of: try await claim(), again, attempt: Array("{}".utf8))])
            state = try await store.move(id, .retry, from: state)
            try await store.record([Resolution(of: try await claim(), .release)])
            state = try await store.move(id, .release, from: state)
            _ = try await claim()
            store = try await fixture.reopen(store)
            state = try await store.move(id, .recover, from: state)
            _ = try await store.cancel(id) { _, _ in [1] }
            state = try await store.move(id, .cancel, from: state)
            try expect(state, is: .unknown, "the end of what may have been sent")
            await store.close()
        },
        StoreConformanceCase("An owner ends a delivery in the states of the table, and in no other") { fixture in
            let store = try await fixture.open()
            for state in DeliveryState.allCases {
                let id = try await store.accept(.sample(store, fixture.time))
                let claims = try await store.claimNow()
                let isAllowed = DeliveryState.transitions.allows(.end, from: .sending, to: state)
                var isTaken = true
                do { try await store.end(claims, state) } catch is StoreError { isTaken = false }
                try expect(isTaken, is: isAllowed, "whether \(state.rawValue) is taken")
                try expect(try await store.counts(id), is: [isAllowed ? state : .sending: 1], "after \(state.rawValue)")
                if !isAllowed { try await store.end(claims) }
            }
            await store.close()
        },
        StoreConformanceCase("An owner without a lease ends a delivery in the states of the table only") { fixture in
            var store = try await fixture.open()
            for state in DeliveryState.allCases.filter(\.isFinal) {
                let id = try await store.accept(.sample(store, fixture.time))
                let claims = try await store.claimNow()
                store = try await fixture.reopen(store)
                try? await store.end(claims, state)
                let isAllowed = DeliveryState.transitions.allows(.lateEnd, from: .queued, to: state)
                try expect(try await store.counts(id), is: [isAllowed ? state : .queued: 1], "after \(state.rawValue)")
                try await store.end(try await store.claimNow())
            }
            await store.close()
        },
        StoreConformanceCase("A receipt moves a delivery as the table says, and no other way") { fixture in
            let store = try await fixture.open()
            for first in DeliveryState.allCases.filter(\.isFinal) {
                for second in DeliveryState.allCases.filter(\.isFinal) {
                    let id = try await store.accept(.sample(store, fixture.time))
                    let address = ReceiptAddress(delivery: id.rawValue)
                    func receive(_ state: DeliveryState) async throws -> Bool {
                        let log = Array(#"{"outcome":"receipt","reason":"\#(state.rawValue)"}"#.utf8)
                        let entry = ReceiptEntry(address, state: state, logEntry: log) { _ in [1] }
                        if case .recorded? = try await store.record([entry]).first { return true }
                        return false
                    }
                    let isByReceipt = !DeliveryState.transitions.allows(.end, from: .sending, to: first)
                    try await store.end(try await store.claimNow(), isByReceipt ? .acceptedByPlatform : first)
                    if isByReceipt { try expect(try await receive(first), "\(first.rawValue) by a receipt") }
                    let isAllowed = DeliveryState.transitions.allows(.receipt, from: first, to: second)
                    let what = "\(second.rawValue) after \(first.rawValue)"
                    try expect(try await receive(second), is: isAllowed, what)
                    try expect(try await store.counts(id), is: [isAllowed ? second : first: 1], what)
                }
            }
            await store.close()
        },
    ]
}

extension NotificationStore {
    /// Returns the state of a notification's only delivery; throws when an event may not lead to it.
    fileprivate func move(
        _ id: NotificationID,
        _ event: DeliveryEvent,
        from old: DeliveryState?
    ) async throws -> DeliveryState {
        guard let new = try await deliveries(of: id, after: nil, limit: 1).first?.state else {
            throw ConformanceFailure("the delivery of \(id) is gone")
        }
        try expect(
            DeliveryState.transitions.allows(event, from: old, to: new),
            "\(event.rawValue) led from \(old?.rawValue ?? "nothing") to \(new.rawValue)"
        )
        return new
    }
}
