import Foundation
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparStorePostgres

@Suite("The device registry over PostgreSQL", .serialized, .timeLimit(.minutes(2)))
struct PostgresDeviceTests {
    private func token(_ name: String, _ service: TokenService = .iOSAPNs, at second: Double = 0) -> RegisteredToken {
        RegisteredToken(DeviceToken(name, service: service), registeredAt: Date(timeIntervalSince1970: second))
    }

    private func device(_ id: String, _ tokens: [RegisteredToken], at second: Double = 0) -> Device {
        Device(id: id, tokens: tokens, createdAt: Date(timeIntervalSince1970: second))
    }

    @Test("The store of several nodes keeps the contract", arguments: DeviceStoreConformance.cases)
    func contract(_ check: DeviceStoreConformanceCase) async throws {
        try await Nodes.use { try await check.run($0[0]) }
    }

    @Test("It keeps the contract of audiences", arguments: AudienceStoreConformance.cases)
    func audiences(_ check: AudienceStoreConformanceCase) async throws {
        try await Nodes.use { try await check.run($0[0]) }
    }

    @Test("Lists and counts are the same when they take many steps", arguments: DeviceStoreConformance.cases)
    func contractInSteps(_ check: DeviceStoreConformanceCase) async throws {
        try await Nodes.use {
            $0.rowsPerScan = 2
        } _: {
            try await check.run($0[0])
        }
    }

    @Test(
        "It is the same when each call goes to another node, and behind poolers where nothing is prepared",
        arguments: DeviceStoreConformance.cases
    )
    func contractOfTwo(_ check: DeviceStoreConformanceCase) async throws {
        try await Nodes.use(2) {
            $0.preparesStatements = false
        } _: {
            try await check.run(AlternatingStore($0))
        }
    }

    @Test("Of two nodes that register a token for two devices at once, one device has it in the end")
    func oneOwner() async throws {
        try await Nodes.use(2) { nodes in
            let deadlocks = try await nodes.deadlocks()
            for round in 0..<100 {
                let at = Double(round)
                async let first = nodes[0].put([
                    self.device("a", [self.token("t", at: at), self.token("a\(round)", .iOSFirebase, at: at)])
                ])
                async let second = nodes[1].put([
                    self.device("b", [self.token("t", at: at), self.token("b\(round)", .iOSFirebase, at: at)])
                ])
                _ = try await (first, second)
                let found = try await nodes[round % 2].devices(["a", "b"]).values
                let owners = found.filter { $0.token(of: .iOSAPNs)?.token.value == "t" }
                #expect(owners.count == 1, "round \(round)")
                #expect(found.allSatisfy { $0.token(of: .iOSFirebase) != nil })
                #expect(try await nodes[0].number("SELECT count(*) FROM chapar.device_tokens WHERE token = 't'") == 1)
            }
            #expect(try await nodes.deadlocks() == deadlocks)
        }
    }

    @Test("A device that two nodes register at once is one device, and both registrations count")
    func oneDevice() async throws {
        try await Nodes.use(2) { nodes in
            for round in 0..<50 {
                async let first = nodes[0].put([self.device("d\(round)", [])])
                async let second = nodes[1].put([self.device("d\(round)", [])])
                let (one, other) = try await (first, second)
                #expect((one + other).filter(\.isNew).count == 1)
            }
            #expect(try await nodes[0].number("SELECT count(*) FROM chapar.devices") == 50)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<60 {
                    group.addTask { _ = try await nodes[number % 2].patch("d0") { $0.tags.append("t\(number)") } }
                }
                try await group.waitForAll()
            }
            #expect(Set(try await nodes[1].device("d0")?.tags ?? []).count == 60)
        }
    }

    @Test("Nodes that change the same devices in all ways at once never wait in a circle, and no token has two owners")
    func mixed() async throws {
        try await Nodes.use(3) { nodes in
            let deadlocks = try await nodes.deadlocks()
            try await withThrowingTaskGroup(of: Void.self) { group in
                // Several callers of each node, so that they share transactions as well.
                for index in 0..<9 {
                    let node = nodes[index % 3]
                    group.addTask {
                        var dice = SystemRandomNumberGenerator()
                        for round in 0..<60 {
                            let at = Double(round)
                            let batch = (0..<8).map { _ in
                                let tokens = (0..<2).map { service in
                                    self.token(
                                        "t\(Int.random(in: 0..<12, using: &dice))",
                                        service == 0 ? .iOSAPNs : .iOSFirebase,
                                        at: at
                                    )
                                }
                                return self.device("d\(Int.random(in: 0..<10, using: &dice))", tokens, at: at)
                            }
                            let moment = Date(timeIntervalSince1970: at)
                            switch (round + index) % 6 {
                            case 0, 1: _ = try await node.put(batch, outbox: moment)
                            case 2:
                                _ = try await node.patch(batch[0].id, outbox: moment) { $0.tokens = batch[1].tokens }
                            case 3:
                                let refusals = batch.flatMap(\.tokens).map {
                                    TokenRefusal($0.token, asOf: moment, at: moment, backend: "ios", reason: "Gone")
                                }
                                _ = try await node.invalidate(refusals, outbox: moment)
                                _ = try await node.quarantine(tombstonesOf: "ios", since: moment)
                            case 4:
                                _ = try await node.invalidate(quarantinedOf: "ios", limit: 5, outbox: moment)
                                _ = try await node.discard(quarantinedOf: "ios", limit: 5)
                            default: _ = try await node.delete(batch[0].id, outbox: moment)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await nodes.deadlocks() == deadlocks)
            let shared = "SELECT count(*) FROM (SELECT 1 FROM chapar.device_tokens GROUP BY hash HAVING count(*) > 1) s"
            #expect(try await nodes[0].number(shared) == 0)
            let orphans = """
                SELECT count(*) FROM chapar.device_tokens t
                WHERE NOT EXISTS (SELECT FROM chapar.devices d WHERE d.number = t.device)
                """
            #expect(try await nodes[0].number(orphans) == 0)
            // Each device's changes tell its story without a gap: each begins where the one before it ended.
            var last: [String: Device?] = [:]
            for change in try await nodes[1].unplannedChanges(limit: 10_000, wait: .zero) {
                guard case .device(let old, let new) = change.content else { continue }
                let id = change.content.device
                #expect(self.known(last[id] ?? nil) == self.known(old), "change \(change.number) of \(id)")
                last[id] = new
            }
            for (id, device) in last {
                #expect(self.known(try await nodes[2].device(id)) == self.known(device), "\(id) at the end")
            }
        }
    }

    /// Returns the tokens of a device, whose change is recorded; `none` without a device.
    private func known(_ device: Device?) -> [String] {
        device.map { $0.tokens.map { "\($0.token.service) \($0.token.value)" } } ?? ["none"]
    }

    @Test("A thousand devices are put, replaced and read at once")
    func thousand() async throws {
        try await Nodes.use { nodes in
            func batch(_ at: Double) -> [Device] {
                (0..<1_000).map { number in
                    var device = self.device(
                        "d\(number)",
                        [
                            self.token("t\((number + Int(at)) % 1_000)", at: at),
                            self.token("f\(number)", .iOSFirebase, at: at),
                        ],
                        at: at
                    )
                    device.tags = ["all", "n\(number % 10)", "at\(Int(at))"]
                    device.user = "u\(number % 100)"
                    return device
                }
            }
            for at in [1.0, 2.0] {
                let puts = try await nodes[0].put(batch(at), outbox: Date(timeIntervalSince1970: at))
                #expect(puts.count == 1_000)
                #expect(puts.allSatisfy { $0.isNew == (at == 1) })
                let found = try await nodes[0].devices(puts.map(\.device.id))
                #expect(puts.allSatisfy { found[$0.device.id] == $0.device })
                // A token that went to the next device of the call left the one that had it.
                #expect(found.values.reduce(0) { $0 + $1.tokens.count } == 2_000)
            }
            #expect(try await nodes[0].number("SELECT count(*) FROM chapar.device_tags") == 3_000)
            #expect(
                try await nodes[0].devices(ofUsers: ["u7", "u3"], limit: 15).map(\.user).prefix(11) == [
                    "u7", "u7", "u7", "u7", "u7", "u7", "u7", "u7", "u7", "u7", "u3",
                ]
            )
            let page = try await nodes[0].list(DeviceQuery(tag: "n4"), after: nil, limit: 40)
            #expect(page.devices.count == 40)
            #expect(page.next != nil)
        }
    }

    @Test("A device whose id is the name of an app is not of that app")
    func namedLikeAnApp() async throws {
        try await Nodes.use { nodes in
            let kind = TokenKind.liveActivityUpdate(activity: "order")
            for (number, id) in ["shop", "shop/a", "shopper/b"].enumerated() {
                var token = token("t\(number)")
                token.kind = kind
                _ = try await nodes[0].put([device(id, [token])])
            }
            for (app, ids) in [("shop", ["shop/a"]), ("shopper", ["shopper/b"]), ("default", ["shop"])] {
                let app = AppName(rawValue: app)
                let found = try await nodes[0].devices(withTokenOf: kind, in: app, limit: 9).map(\.id)
                #expect(found == ids, "\(app)")
                let listed = try await nodes[0].list(DeviceQuery(app: app), after: nil, limit: 9).devices.map(\.id)
                #expect(listed == ids, "\(app)")
            }
        }
    }

    @Test("A device that cannot be stored fails alone: what shares its transaction is committed")
    func failsAlone() async throws {
        try await Nodes.use { nodes in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<60 {
                    group.addTask {
                        var device = self.device("d\(number)", [self.token("t\(number)")])
                        let isBad = number % 10 == 7
                        // PostgreSQL's texts have no such character.
                        if isBad { device.locale = "f\0a" }
                        do throws(StoreError) {
                            _ = try await nodes[0].put([device], outbox: .now)
                            return !isBad
                        } catch {
                            return isBad
                        }
                    }
                }
                for try await isAsWanted in group { #expect(isAsWanted) }
            }
            #expect(try await nodes[0].list(DeviceQuery(), after: nil, limit: 100).devices.count == 54)
            #expect(try await nodes[0].unplannedChanges(limit: 100, wait: .zero).count == 54)
        }
    }

    @Test("A device that goes and comes back in one transaction is a new one, and both are told")
    func goesAndComes() async throws {
        try await Nodes.use { nodes in
            let other = PostgresConnection(nodes[0].options, name: "test")
            _ = try await nodes[0].put([device("a", [token("t", at: 1)])])
            // Time in which a call is handed in: nothing shows what waits behind a transaction, and in which order.
            func handIn() async throws { try await Task.sleep(for: .milliseconds(20)) }
            // While the table is locked the calls gather behind the first one.
            let (isLocked, mayEnd) = (AsyncSignal(), DispatchSemaphore(value: 0))
            async let lock: Void = other.transaction { (db) throws(PostgresError) in
                try db.run("LOCK TABLE chapar.devices IN EXCLUSIVE MODE")
                isLocked.signal()
                _ = mayEnd.wait(timeout: .now() + 10)
            }
            await isLocked.wait(after: .start, atMost: .seconds(10), SystemTime())
            async let first = nodes[0].put([device("x", [])])
            try await eventually("the first call waits for the table") {
                try await nodes[0].number(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'chapar.devices'::regclass"
                ) >= 1
            }
            async let deleted = nodes[0].delete("a", outbox: .now)
            try await handIn()
            async let again = nodes[0].put([device("a", [token("t", at: 2)])], outbox: .now)
            try await handIn()
            mayEnd.signal()
            let results = (try await first, try await deleted, try await again)
            try await lock
            #expect(results.1)
            #expect(results.2.map(\.isNew) == [true])
            #expect(try await nodes[0].device(having: DeviceToken("t", service: .iOSAPNs))?.id == "a")
            let changes = try await nodes[0].unplannedChanges(limit: 9, wait: .zero).map { change -> String in
                guard case .device(let old, let new) = change.content else { return "?" }
                return "\(old?.tokens.count ?? -1)>\(new?.tokens.count ?? -1)"
            }
            #expect(changes == ["1>-1", "-1>1"])
            await other.close()
        }
    }

    @Test("Acknowledged devices and their changes are kept, however often connections are cut")
    func cuts() async throws {
        try await Nodes.use(3) { nodes in
            let acknowledged = try await withThrowingTaskGroup(of: [String].self) { group in
                for index in 0..<4 {
                    let node = nodes[index % 2]
                    group.addTask {
                        var done: [String] = []
                        for round in 0..<150 {
                            let id = "d\(index)-\(round)"
                            do throws(StoreError) {
                                _ = try await node.put([self.device(id, [self.token(id)])], outbox: .now)
                                done.append(id)
                            } catch {
                                #expect(error != .closed)
                            }
                        }
                        return done
                    }
                }
                group.addTask {
                    var rounds = 0
                    try await eventually("connections were cut in 25 rounds", every: .milliseconds(10)) {
                        _ = try await nodes[2].number(
                            """
                            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                            WHERE pid <> pg_backend_pid() AND query LIKE '%\(nodes[2].options.schema).device%'
                            """
                        )
                        rounds += 1
                        return rounds == 25
                    }
                    return []
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(acknowledged.count > 100)
            let found = try await nodes[0].devices(acknowledged)
            #expect(acknowledged.allSatisfy { found[$0]?.tokens.count == 1 })
            let told = try await nodes[0].unplannedChanges(limit: 1_000, wait: .zero).map(\.content.device)
            #expect(Set(told).isSuperset(of: acknowledged))
            let all = try await nodes[0].number("SELECT count(*) FROM chapar.devices")
            #expect(told.count == Int(all), "each device that is there is told once")
        }
    }

    @Test("A platform's reason may hold a NUL, which PostgreSQL's texts cannot")
    func nulInReason() async throws {
        try await Nodes.use { nodes in
            _ = try await nodes[0].put([device("a", [token("t")])])
            let refusal = TokenRefusal(
                DeviceToken("t", service: .iOSAPNs),
                asOf: .now,
                at: .now,
                backend: "ios",
                reason: "Go\0ne"
            )
            #expect(try await nodes[0].invalidate([refusal]).count == 1)
            #expect(try await nodes[0].device("a")?.tokens.first?.tombstone?.reason == "Gone")
        }
    }

    /// Statements with what they get.
    private struct Statement {
        var sql: String
        var values: [PostgresValue]

        init(_ sql: String, _ values: [PostgresValue]) { (self.sql, self.values) = (sql, values) }
    }

    private static let lookUps: [Statement] =
        [
            Statement(
                """
                SELECT number FROM chapar.devices WHERE number IN (
                    SELECT number FROM chapar.devices WHERE id = ANY ($1)
                    UNION SELECT device FROM chapar.device_tokens WHERE hash = ANY ($2)
                ) ORDER BY number FOR UPDATE
                """,
                [.texts(["d5", "d7"]), .integers([5, 7])]
            ),
            Statement(
                DeviceRows.select(from: "(SELECT * FROM chapar.devices WHERE number = ANY ($1)) d"),
                [.integers([5, 7])]
            ),
            Statement(DeviceSelect.byID, [.texts(["d5", "d7"])]),
            Statement(DeviceSelect.ofUsers, [.texts(["u5", "u7"]), .integer(100)]),
            Statement(DeviceSelect.ofKind, [.text("voip"), .integer(100), .text("")]),
            Statement(DeviceSelect.ofKind, [.text("live_activity_start/a"), .integer(100), .text("shop/")]),
            Statement(DeviceSelect.havingToken, [.integer(5), .text("t5")]),
            Statement(
                "SELECT device FROM chapar.device_tokens WHERE held AND backend = $1 AND device > $2 ORDER BY device LIMIT $3",
                [.text("ios"), .integer(5), .integer(9)]
            ),
            Statement(
                "SELECT device, slot FROM chapar.device_tokens WHERE refusals IS NOT NULL ORDER BY device, slot LIMIT $1",
                [.integer(9)]
            ),
            Statement(
                """
                SELECT DISTINCT device FROM chapar.device_tokens
                WHERE NOT held AND backend = $1 AND invalidated >= $2 ORDER BY device
                """,
                [.text("ios"), .integer(19_990)]
            ),
        ]

    private static let searches: [Statement] = [
        DeviceQuery(), DeviceQuery(user: "u5"), DeviceQuery(tag: "x5"),
        DeviceQuery(app: .default, tag: "x5", platform: "ios", service: .iOSAPNs),
        DeviceQuery(app: AppName(rawValue: "shop"), platform: "ios"),
    ].map { query in
        let scan = DeviceScan(query, rowsPerStep: 1_000)
        return Statement(scan.sql, scan.parameters(after: 9, wanted: 100))
    }

    @Test("Statements of each call use an index, in tables of some size")
    func plans() async throws {
        try await Nodes.use { nodes in
            let plans = try await nodes[0].transaction(on: nodes[0].core.keeper) { (db) throws(PostgresError) in
                try db.perform(
                    """
                    INSERT INTO chapar.devices (id, user_key, created, updated)
                    SELECT 'd' || n, 'u' || n % 1000, 0, 0 FROM generate_series(1, 20000) n;
                    INSERT INTO chapar.device_tokens (device, slot, token, hash, registered, as_of, invalidated, backend, held, refusals)
                    SELECT n, CASE WHEN n % 100 = 0 THEN 'ios-apns/voip' ELSE 'ios-apns' END, 't' || n, n, 0,
                        CASE WHEN n % 10 = 0 THEN 0 END, CASE WHEN n % 10 = 0 THEN n END, CASE WHEN n % 10 = 0 THEN 'ios' END,
                        CASE WHEN n % 10 = 0 THEN n % 20 = 0 END, CASE WHEN n % 500 = 0 THEN '[]' END
                    FROM generate_series(1, 20000) n;
                    INSERT INTO chapar.device_tokens (device, slot, token, hash, registered)
                    SELECT n, 'ios-apns/live_activity_start/a', 'l' || n, -n, 0 FROM generate_series(1, 20000) n;
                    INSERT INTO chapar.device_tags SELECT 'x' || n % 100, n FROM generate_series(1, 20000) n;
                    ANALYZE chapar.devices; ANALYZE chapar.device_tokens; ANALYZE chapar.device_tags
                    """
                )
                var plans: [[String]] = []
                for statement in Self.lookUps + Self.searches {
                    let rows = try db.run("EXPLAIN " + statement.sql, statement.values)
                    plans.append((0..<rows.count).map { rows.text($0, 0) ?? "" })
                }
                return plans
            }
            #expect(plans.count == 15)
            for plan in plans {
                #expect(!plan.contains { $0.contains("Seq Scan on") }, "\(plan.joined(separator: "\n"))")
            }
        }
    }
}
