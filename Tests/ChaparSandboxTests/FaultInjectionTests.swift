import Foundation
import ChaparCore
import ChaparSandbox
import Testing

// Source: specs, APNs, section 15.4.
@Suite("Faults on demand", .timeLimit(.minutes(1)))
struct FaultInjectionTests {
    static let token = String(repeating: "a1", count: 32)

    private func run(
        _ configuration: APNsSimulatorConfiguration = APNsSimulatorConfiguration(),
        _ rules: [FaultRule] = [],
        staysAfterFIN: Bool = false,
        _ body: (APNsSimulator, RawClient, String) async throws -> Void
    ) async throws {
        var configuration = configuration
        configuration.rules.acceptsAnyToken = true
        configuration.streams.beforeFirstPush = 100
        try await APNsSimulator.run(configuration) { simulator in
            simulator.add(rules)
            let client = try await RawClient.connect(to: simulator, staysAfterFIN: staysAfterFIN)
            try await body(simulator, client, simulator.key.providerToken(issuedAt: Date()))
            await client.close()
        }
    }

    static let answers: [(FaultStep, String, String)] = [
        (.answer(FaultAnswer(503, "ServiceUnavailable", retryAfter: 3)), "503", #"{"reason":"ServiceUnavailable"}"#),
        (.answer(FaultAnswer(429, "TooManyRequests")), "429", #"{"reason":"TooManyRequests"}"#),
        (.answer(FaultAnswer(410, "Unregistered")), "410", #"{"reason":"Unregistered"}"#),
        (
            .answer(FaultAnswer(410, "Unregistered", timestamp: .milliseconds(17))), "410",
            #"{"reason":"Unregistered","timestamp":17}"#
        ),
        (.answer(FaultAnswer(400, "AddedNextYear")), "400", #"{"reason":"AddedNextYear"}"#),
        (.answer(FaultAnswer(400)), "400", ""),
        (.answer(.htmlPage), "502", "<html><body><h1>502 Bad Gateway</h1></body></html>"),
    ]

    @Test("Any answer can be given in place of the real one", arguments: answers)
    func answer(_ step: FaultStep, _ status: String, _ body: String) async throws {
        try await run(APNsSimulatorConfiguration(), [FaultRule(step)]) { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            let answer = try #require(await client.answer(1))
            #expect(answer.status == status)
            #expect(answer.body == body)
            #expect(answer.headers["retry-after"] == (status == "503" ? "3" : nil))
            #expect(simulator.counters.accepted == 0, "a push that a fault answers is not delivered")
            #expect(simulator.counters.faultsInjected == 1)
        }
    }

    @Test("An accepted push can have its id left out or in upper case")
    func distortedID() async throws {
        let id = "0d9f3c52-7f5e-4a0f-9b53-0c3a2e6b1f77"
        for (distortion, expected) in [(FaultDistortion.withoutID, nil), (.upperCaseID, id.uppercased())] {
            try await run(APNsSimulatorConfiguration(), [FaultRule(.distort(distortion))]) { simulator, client, jwt in
                client.push(1, to: Self.token, jwt: jwt, more: [("apns-id", id)])
                #expect(await client.answer(1)?.headers["apns-id"] == expected)
                #expect(simulator.counters.accepted == 1)
            }
        }
    }

    static let matches: [(String, FaultMatch, [Bool])] = [
        ("the second request", FaultMatch(requests: 2...2), [false, true, false, false]),
        ("every other request", FaultMatch(every: 2), [false, true, false, true]),
        ("twice", FaultMatch(count: 2), [true, true, false, false]),
        ("a token", FaultMatch(tokenPrefix: "a1"), [true, true, true, true]),
        ("another token", FaultMatch(tokenPrefix: "a2"), [false, false, false, false]),
        ("a topic", FaultMatch(topic: "com.example.app"), [true, true, true, true]),
        ("another topic", FaultMatch(topic: "com.example.other"), [false, false, false, false]),
        ("another listener", FaultMatch(listener: .development), [false, false, false, false]),
        ("none of them", FaultMatch(share: 0), [false, false, false, false]),
        ("all of them", FaultMatch(share: 1), [true, true, true, true]),
        ("later", FaultMatch(from: .seconds(3600)), [false, false, false, false]),
        ("no more", FaultMatch(until: .zero), [false, false, false, false]),
    ]

    @Test("A rule applies to what it matches", arguments: matches)
    func match(_ name: String, _ match: FaultMatch, _ expected: [Bool]) async throws {
        let rule = FaultRule(name: name, match: match, .answer(FaultAnswer(500, "InternalServerError")))
        try await run(APNsSimulatorConfiguration(), [rule]) { simulator, client, jwt in
            var hits: [Bool] = []
            for stream: Int32 in [1, 3, 5, 7] {
                client.push(stream, to: Self.token, jwt: jwt)
                hits.append(await client.answer(stream)?.status == "500")
            }
            #expect(hits == expected)
            #expect(simulator.rules.map(\.fired) == [expected.count(where: \.self)])
            #expect(simulator.removeRules(named: name) == 1)
        }
    }

    @Test("A share is drawn from the seed")
    func share() async throws {
        var runs: [[Bool]] = []
        for seed: UInt64 in [5, 5, 6] {
            var configuration = APNsSimulatorConfiguration()
            configuration.seed = seed
            let rule = FaultRule(match: FaultMatch(share: 0.5), .answer(FaultAnswer(500, "InternalServerError")))
            try await run(configuration, [rule]) { _, client, jwt in
                var hits: [Bool] = []
                for stream in stride(from: Int32(1), to: 61, by: 2) {
                    client.push(stream, to: Self.token, jwt: jwt)
                    hits.append(await client.answer(stream)?.status == "500")
                }
                runs.append(hits)
            }
        }
        #expect(runs[0] == runs[1])
        #expect(runs[0] != runs[2])
        #expect(runs[0].contains(true) && runs[0].contains(false))
    }

    @Test("GOAWAY in the middle of open streams: the lower half is answered, the upper half is not")
    func goAwayInTheMiddle() async throws {
        // The first three requests wait; the fourth brings the GOAWAY.
        let rules = [
            FaultRule(
                match: FaultMatch(requests: 4...4),
                [.goAway(SandboxGoAway(reason: "Shutdown", last: .middle, ending: .afterAnswers))]
            ),
            FaultRule(match: FaultMatch(requests: 1...3), .delay(.seconds(1))),
        ]
        try await run(APNsSimulatorConfiguration(), rules) { simulator, client, jwt in
            for stream: Int32 in [1, 3, 5, 7] { client.push(stream, to: Self.token, jwt: jwt) }
            var answered: Set<Int32> = []
            var last: Int32?
            for await event in client.stream {
                if case .headers(let stream, _, _) = event { answered.insert(stream) }
                if case .goAway(let stream, _, _) = event { last = stream }
            }
            #expect(last == 5)
            #expect(answered == [1, 3, 5])
            #expect(simulator.inbox.map(\.stream).sorted() == [1, 3, 5], "what is above was not processed")
        }
    }

    @Test("Two GOAWAYs in a row, with debug data that is no JSON, and the connection stays open")
    func goAwayTwice() async throws {
        try await run { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.status == "200")
            simulator.goAway(SandboxGoAway(last: .maximum, ending: .linger))
            simulator.goAway(SandboxGoAway(code: 2, debugData: Array("{\"rea".utf8), ending: .linger))
            var seen: [String] = []
            for await event in client.stream {
                if case .goAway(let last, let code, let text) = event { seen.append("\(last) \(code) \(text)") }
                if seen.count == 2 { break }
            }
            #expect(seen == ["2147483647 0 ", "1 2 {\"rea"])
            client.push(3, to: Self.token, jwt: jwt)
            client.ping()
            let isAlive = await client.first { event -> Bool? in
                switch event {
                case .ping(true): true
                case .headers(3, _, _), .reset(3, _): false
                default: nil
                }
            }
            #expect(isAlive == true, "above the last stream nothing is answered, but the connection lives")
            #expect(simulator.counters.requests == 1)
        }
    }

    @Test("A stream can be reset before its answer, and between headers and body")
    func resets() async throws {
        let rules = [
            FaultRule(match: FaultMatch(requests: 1...1), .resetStream(code: 2)),
            FaultRule(at: .answerHeaders, .resetStream(code: 8)),
        ]
        try await run(APNsSimulatorConfiguration(), rules) { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.resetCode(of: 1) == 2)
            #expect(simulator.counters.accepted == 0)
            client.push(3, to: Self.token, jwt: jwt)
            var seen: [String] = []
            for await event in client.stream {
                if case .headers(3, let fields, let isLast) = event {
                    seen.append("\(fields[":status"] ?? "") \(isLast)")
                }
                if case .reset(3, let code) = event {
                    seen.append("reset \(code)")
                    break
                }
            }
            #expect(seen == ["200 false", "reset 8"])
        }
    }

    static let points: [FaultRule.Point] = [.requestHeaders, .request, .processed, .answerHeaders, .answered]

    /// Whether a connection ended by a reset: the client's TLS may notice the missing farewell before the socket tells
    /// why.
    private static func isAbrupt(_ error: String) -> Bool { error.contains("reset") || error == "uncleanShutdown" }

    @Test("The connection can be cut at every point", arguments: points, SandboxConnectionEnd.allCases)
    func cuts(_ point: FaultRule.Point, _ end: SandboxConnectionEnd) async throws {
        let rules = [FaultRule(at: point, .end(end))]
        try await run(APNsSimulatorConfiguration(), rules, staysAfterFIN: end == .halfClose) { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            var seen: [String] = []
            loop: for await event in client.stream {
                switch event {
                case .headers(1, _, _): seen.append("answer")
                case .inputClosed where end == .halfClose:
                    seen.append("half")
                    break loop
                case .closed(let error):
                    if end == .reset { #expect(Self.isAbrupt(error ?? ""), "\(error ?? "in order")") }
                    break loop
                default: break
                }
            }
            let isAnswered = point == .answerHeaders || point == .answered
            // A reset may overtake the answer: what was not read yet is lost.
            if end != .reset { #expect(seen.contains("answer") == isAnswered) }
            let wasProcessed = point != .requestHeaders && point != .request
            #expect(simulator.counters.accepted == (wasProcessed ? 1 : 0))
        }
    }

    @Test("A push can be accepted and its sender told otherwise, or nothing")
    func acceptedInSecret() async throws {
        let rules = [
            FaultRule(at: .processed, match: FaultMatch(count: 1), .answer(FaultAnswer(500, "InternalServerError"))),
            FaultRule(at: .processed, .resetStream(code: 2)),
        ]
        try await run(APNsSimulatorConfiguration(), rules) { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.status == "500")
            client.push(3, to: Self.token, jwt: jwt)
            #expect(await client.answer(3) == nil)
            #expect(simulator.counters.accepted == 2)
            #expect(simulator.counters.doubledOnDevice == 1)
        }
    }

    @Test("A black hole takes everything and answers nothing, pings neither")
    func blackHole() async throws {
        try await run { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.status == "200")
            simulator.becomeBlackHole()
            // A second connection shows when the step, which was put on the same loop before it, has been done.
            let other = try await RawClient.connect(to: simulator)
            other.push(1, to: Self.token, jwt: jwt)
            #expect(await other.answer(1)?.status == "200")
            await other.close()
            client.push(3, to: Self.token, jwt: jwt)
            client.ping()
            try await client.flushed()
            // A third connection, on the same loop, is answered after what came before it was read.
            let last = try await RawClient.connect(to: simulator)
            last.push(1, to: Self.token, jwt: jwt)
            #expect(await last.answer(1)?.status == "200")
            await last.close()
            #expect(simulator.counters.requests == 3)
            #expect(simulator.counters.pings == 0)
            simulator.end(.reset)
        }
    }

    @Test("Silence leaves one stream open and serves the others")
    func silence() async throws {
        try await run(APNsSimulatorConfiguration(), [FaultRule(match: FaultMatch(count: 1), .silence)]) {
            _,
            client,
            jwt in
            client.push(1, to: Self.token, jwt: jwt)
            client.push(3, to: Self.token, jwt: jwt)
            let first = await client.first { if case .headers(let stream, _, _) = $0 { stream } else { nil } }
            #expect(first == 3)
        }
    }

    @Test("The stream limit can be set at any time, also to 0")
    func streamLimit() async throws {
        try await run { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.status == "200")
            simulator.setMaximumStreams(0)
            let limit = await client.first { if case .settings(let all) = $0, all[3] != 1000 { all[3] } else { nil } }
            #expect(limit == 0)
            client.push(3, to: Self.token, jwt: jwt)
            #expect(await client.resetCode(of: 3) == 7)
        }
    }

    @Test("Answers, the first SETTINGS and the handshake can be slow")
    func slowness() async throws {
        let delay = Duration.milliseconds(60)
        for rule in [
            FaultRule(.delay(delay)), FaultRule(at: .connect, .delaySettings(delay)),
            FaultRule(at: .connect, .delay(delay)),
        ] {
            var configuration = APNsSimulatorConfiguration()
            configuration.rules.acceptsAnyToken = true
            try await APNsSimulator.run(configuration) { simulator in
                simulator.add(rule)
                let start = ContinuousClock.now
                let client = try await RawClient.connect(to: simulator)
                client.push(1, to: Self.token, jwt: try simulator.key.providerToken(issuedAt: Date()))
                #expect(await client.answer(1)?.status == "200")
                #expect(ContinuousClock.now - start >= delay)
                await client.close()
            }
        }
    }

    @Test("Bytes can dribble")
    func throttle() async throws {
        let rules = [FaultRule(match: FaultMatch(count: 1), .throttle(bytesPerSecond: 1000))]
        try await run(APNsSimulatorConfiguration(), rules) { _, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            let start = ContinuousClock.now
            // Each answer takes more than 20 bytes of TLS and HTTP/2.
            for stream: Int32 in [3, 5, 7, 9, 11] {
                client.push(stream, to: Self.token, jwt: jwt)
                #expect(await client.answer(stream)?.status == "200")
            }
            #expect(ContinuousClock.now - start >= .milliseconds(100))
        }
    }

    @Test("A storm of refused connections is counted, then it is over")
    func refusedConnections() async throws {
        try await APNsSimulator.run { simulator in
            simulator.add(.refuseConnections(count: 3))
            for _ in 0..<3 {
                // The reset comes before or during the handshake, so connecting may fail as well.
                guard let client = try? await RawClient.connect(to: simulator) else { continue }
                #expect(await client.end() != "")
            }
            let client = try await RawClient.connect(to: simulator)
            #expect(await client.first { if case .settings = $0 { true } else { nil } } == true)
            #expect(simulator.counters.connectionAttempts == 4)
            #expect(simulator.counters.connectionsTurnedAway == 3)
            #expect(simulator.counters.connectionsOpened == 1)
            await client.close()
        }
    }

    @Test("A connection can be cut between the handshake and the first request")
    func cutWhenOpened() async throws {
        try await run(APNsSimulatorConfiguration(), [FaultRule(at: .opened, .end(.reset))]) { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            let error = await client.end()
            #expect(Self.isAbrupt(error), "\(error)")
            #expect(simulator.counters.connectionsOpened == 1)
            #expect(simulator.counters.requests == 0)
            #expect(await simulator.wait { $0.connectionsOpen == 0 })
        }
    }

    @Test("A server clock that is ahead makes good tokens expire, and the connection can stay wedged")
    func clock() async throws {
        try await run { simulator, client, jwt in
            simulator.clockOffset = .seconds(2 * 3600)
            simulator.add(FaultRule(match: FaultMatch(count: 1), .wedgeAfterExpiry))
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.body == #"{"reason":"ExpiredProviderToken"}"#)
            simulator.clockOffset = .zero
            client.push(3, to: Self.token, jwt: jwt)
            #expect(await client.answer(3)?.body == #"{"reason":"ExpiredProviderToken"}"#, "wedged")
            let other = try await RawClient.connect(to: simulator)
            other.push(1, to: Self.token, jwt: jwt)
            #expect(await other.answer(1)?.status == "200", "a fresh connection is not")
            await other.close()
        }
    }

    @Test("503 Shutdown comes with a GOAWAY, and the next connection works")
    func shutdown() async throws {
        try await run(APNsSimulatorConfiguration(), [.shutdown()]) { simulator, client, jwt in
            client.push(1, to: Self.token, jwt: jwt)
            #expect(await client.answer(1)?.body == #"{"reason":"Shutdown"}"#)
            #expect(await client.end() == "")
            #expect(simulator.counters.goAways == 1)
            let other = try await RawClient.connect(to: simulator)
            other.push(1, to: Self.token, jwt: jwt)
            #expect(await other.answer(1)?.status == "200")
            await other.close()
        }
    }
}
