import Foundation
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparTesting

extension OutboxStoreConformance {
    /// Checks the order of waiting entries, and who may claim them.
    static let lines: [OutboxStoreConformanceCase] = [
        OutboxStoreConformanceCase("What is claimed is what was added, whole") { fixture in
            let body: JSONObject = ["status": "subscribed", "options": ["cats": [1, 2.5, nil, true]]]
            let added = fixture.operation("a", .subscription, user: "u", body: body)
            try await fixture.store.enqueue([added])
            let claims = try await fixture.claim()
            try expect(claims.map(\.operation), is: [added], "what is claimed")
            try expect(claims.map(\.attempt), is: [1], "the number of the first try")
        },
        OutboxStoreConformanceCase("Of one device only the oldest can be claimed; others do not wait for it") {
            fixture in
            let first = fixture.operation("a")
            try await fixture.store.enqueue([first, fixture.operation("a", .tags), fixture.operation("b")])
            let claims = try await fixture.claim()
            try expect(claims.map(\.operation.device), is: ["a", "b"], "the heads of the lines")
            try expect(claims.first?.operation.id, is: first.id, "the oldest of its device")
            try expect(try await fixture.due(), is: [], "what else is due")
            try await fixture.store.record(claims.map { OutboxResult($0, .end) })
            try expect(try await fixture.claim().map(\.operation.kind), is: [.tags], "what follows")
        },
        OutboxStoreConformanceCase("The same device at another backend has a line of its own") { fixture in
            try await fixture.store.enqueue([fixture.operation("a"), fixture.operation("a", backend: "campaigns")])
            try expect(try await fixture.due(), is: ["a"], "of one backend")
            try expect(try await fixture.due(backend: "campaigns"), is: ["a"], "of the other")
        },
        OutboxStoreConformanceCase("What is to be tried again keeps its place, its id and its count") { fixture in
            let first = fixture.operation("a")
            try await fixture.store.enqueue([first, fixture.operation("a", .tags)])
            for attempt in 1...3 {
                let claims = try await fixture.claim()
                try expect(claims.map(\.operation.id), is: [first.id], "try \(attempt)")
                try expect(claims.map(\.attempt), is: [attempt], "the number of try \(attempt)")
                let moment = fixture.time.now + 10
                try await fixture.store.record(claims.map { OutboxResult($0, .retry(at: moment)) })
                try expect(try await fixture.due(), is: [], "what is due before its time")
                fixture.time.advance(by: .seconds(11))
            }
        },
        OutboxStoreConformanceCase("What was not tried is due at once, and the try does not count") { fixture in
            try await fixture.store.enqueue([fixture.operation("a")])
            for _ in 1...2 {
                let claims = try await fixture.claim()
                try expect(claims.map(\.attempt), is: [1], "the number of the try")
                try await fixture.store.record(claims.map { OutboxResult($0, .release) })
            }
        },
        OutboxStoreConformanceCase("What waits for another try becomes due, and nothing that is claimed") { fixture in
            try await fixture.store.enqueue(["a", "b", "c", "a"].map { fixture.operation($0) })
            let claims = try await fixture.claim(2)
            let later = fixture.time.steady.addingTimeInterval(60)
            try await fixture.store.record([OutboxResult(claims[0], .retry(at: later))])
            try expect(try await fixture.store.makeRetriesDue(ofEntriesAt: "other"), is: 0, "of another backend")
            try expect(
                try await fixture.store.makeRetriesDue(ofEntriesAt: "crm"),
                is: 1,
                "entries that became due"
            )
            try expect(try await fixture.due(), is: ["a", "c"], "what is due")
        },
        OutboxStoreConformanceCase("What waits for as long as its platform asked does not become due sooner") {
            fixture in
            let store = fixture.store
            try await store.enqueue([fixture.operation("asked"), fixture.operation("own")])
            let later = fixture.time.steady.addingTimeInterval(60)
            func refuse(_ claims: [ClaimedEntry]) async throws {
                let results = claims.map { claim -> OutboxResult in
                    var result = OutboxResult(claim, .retry(at: later))
                    result.asksToWait = claim.operation.device == "asked"
                    return result
                }
                try await store.record(results)
            }
            let claims = try await fixture.claim()
            try await refuse(claims)
            try expect(try await store.makeRetriesDue(ofEntriesAt: "crm"), is: 1, "entries that became due")
            let own = try await fixture.claim()
            try expect(own.map(\.operation.device), is: ["own"], "what is due")
            try await store.record(own.map { OutboxResult($0, .end) })
            try expect(try await fixture.due(), is: [], "what is due before its time")
            fixture.time.advance(by: .seconds(61))
            let again = try await fixture.claim()
            try expect(again.map(\.operation.device), is: ["asked"], "what comes due by itself")
            try expect(again.map(\.attempt), is: [2], "the number of its try")
            // The platform's wait was for that attempt alone, and its former owner may not record any more.
            let retry = OutboxResult(again[0], .retry(at: fixture.time.steady.addingTimeInterval(60)))
            try await store.record([retry])
            try expect(try await store.makeRetriesDue(ofEntriesAt: "crm"), is: 1, "once nobody asks")
            try expect(try await fixture.due(), is: ["asked"], "what is due then")
        },
        OutboxStoreConformanceCase("The longest due comes first, and no more than asked for") { fixture in
            for device in ["a", "b", "c"] {
                try await fixture.store.enqueue([fixture.operation(device)])
                fixture.time.advance(by: .seconds(1))
            }
            try expect(try await fixture.due(2), is: ["a", "b"], "the first two")
            try expect(try await fixture.due(2), is: ["c"], "the rest")
            try expect(try await fixture.due(0), is: [], "none")
        },
        OutboxStoreConformanceCase("A lease that lapses makes the operation claimable, as another try") { fixture in
            try await fixture.store.enqueue([fixture.operation("a")])
            let lost = try await fixture.claim(lease: .seconds(5))
            fixture.time.advance(by: .seconds(6))
            let claims = try await fixture.claim()
            try expect(claims.map(\.attempt), is: [2], "the number of the second try")
            try await fixture.store.record(lost.map { OutboxResult($0, .retry(at: .distantPast)) })
            try expect(try await fixture.due(), is: [], "a late owner gives nothing away")
            try await fixture.store.enqueue([fixture.operation("a", .tags)])
            try await fixture.store.record(lost.map { OutboxResult($0, .end) })
            try expect(try await fixture.due(), is: [], "nor lets the next go out beside what another owner has")
            try await fixture.store.record(claims.map { OutboxResult($0, .end) })
            try expect(try await fixture.due(), is: ["a"], "what goes out behind it")
        },
        OutboxStoreConformanceCase("A registration that says what the last one says adds nothing") { fixture in
            let store = fixture.store
            try await store.enqueue([fixture.operation("a", .register), fixture.operation("a", .register)])
            try expect(try await store.entries(ofDevice: "a", limit: 9).count, is: 1, "of one user")
            try await store.enqueue([fixture.operation("a", .register, user: "u")])
            try expect(try await store.entries(ofDevice: "a", limit: 9).count, is: 2, "of two users")
            let claims = try await fixture.claim()
            try await store.record(claims.map { OutboxResult($0, .end) })
            _ = try await fixture.claim()
            try await store.enqueue([fixture.operation("a", .register, user: "u")])
            try expect(try await store.entries(ofDevice: "a", limit: 9).count, is: 2, "while one is claimed")
        },
        OutboxStoreConformanceCase("A claim that waits gets what is added meanwhile") { fixture in
            let claim = Task { try await fixture.claim(wait: .seconds(60)) }
            try await fixture.store.enqueue([fixture.operation("b", backend: "other"), fixture.operation("a")])
            try expect(try await claim.value.map(\.operation.device), is: ["a"], "what it gets")
        },
        OutboxStoreConformanceCase("A claim that waits gets what follows, and what comes due") { fixture in
            try await fixture.store.enqueue([fixture.operation("a"), fixture.operation("a", .tags)])
            let first = try await fixture.claim()
            let following = Task { try await fixture.claim(wait: .seconds(60)) }
            try await fixture.store.record(first.map { OutboxResult($0, .end) })
            let second = try await following.value
            try expect(second.map(\.operation.kind), is: [.tags], "what follows")
            let moment = fixture.time.now + 5
            try await fixture.store.record(second.map { OutboxResult($0, .retry(at: moment)) })
            let later = Task { try await fixture.claim(wait: .seconds(60)) }
            try expect(try await fixture.time.advance(until: later).map(\.attempt), is: [2], "what comes due")
        },
        OutboxStoreConformanceCase("What an owner says moves an entry as the table says") { fixture in
            let moment = fixture.time.now + 500
            for ending in [OutboxResult.Ending.end, .retry(at: moment), .release] {
                for other: OutboxEntryState? in [nil, .claimed, .waiting] {  // As another owner left it.
                    let device = "\(ending)-\(other?.rawValue ?? "none")"
                    try await fixture.store.enqueue([fixture.operation(device)])
                    let claims = try await fixture.claim(lease: .seconds(1))
                    if let other {
                        fixture.time.advance(by: .seconds(2))
                        let others = try await fixture.claim()
                        try expect(others.map(\.operation.device), is: [device], "what another owner claims")
                        if other == .waiting {
                            try await fixture.store.record(others.map { OutboxResult($0, .retry(at: moment)) })
                        }
                    }
                    try await fixture.store.record(claims.map { OutboxResult($0, ending) })
                    let isKept = try await !fixture.store.entries(ofDevice: device, limit: 1).isEmpty
                    let isDue = try await fixture.due() == [device]
                    let (table, before) = (OutboxEntryState.transitions, other ?? .claimed)
                    let after: OutboxEntryState = !isKept ? .ended : isDue ? .due : other ?? .waiting
                    let event = ending.event(isLeased: other == nil).flatMap { table.allows($0, in: before) ? $0 : nil }
                    let isAllowed = event.map { table.allows($0, from: before, to: after) } ?? (after == before)
                    try expect(
                        isAllowed,
                        "\(ending), with another owner: \(other?.rawValue ?? "none"), led to \(after.rawValue)"
                    )
                    _ = try await fixture.store.cancelEntries(of: "crm", device: device)
                }
            }
        },
        OutboxStoreConformanceCase("A claim without work ends with its wait, and with its task") { fixture in
            let patient = Task { try await fixture.claim(wait: .seconds(2)) }
            try expect(try await fixture.time.advance(until: patient).count, is: 0, "what it gets")
            let cancelled = Task { try await fixture.claim(wait: .seconds(60)) }
            cancelled.cancel()
            try expect(try await cancelled.value.count, is: 0, "what a cancelled one gets")
        },
    ]
}
