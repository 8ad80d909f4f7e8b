import Foundation
import ChaparComposition
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparCommands
@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer
@testable import chapar

/// One odd answer among a thousand good ones stops the other 999 for no longer than 2 s, unless it names a time
/// (`Retry-After`), or the platform's own documents ask for a pause of the project, the account or the worker.
///
/// Every row of every platform's rejections is tried, and every failure below HTTP. Pauses of a part of a project are
/// not seen here:
/// * FCM's `THIRD_PARTY_AUTH_ERROR` stops the tokens of one vendor, for half a second the first time
///   (`FCMPartialPausesTests`).
/// * Its quota of topics stops topics for at least a minute, as Firebase asks (Best practices for sending at scale).
/// * HMS's 80100017 stops one topic.
///
/// Answers without a reason, and tokens that cannot be had, are in `StrayStatusTests`; OneSignal, IDPush, Chabok and
/// Altcraft as a whole, and over sockets, in `StrayBackendTests`. IDPush sends through OneSignal, whose rows are its
/// own.
@Suite("One odd answer among a thousand good ones", .timeLimit(.minutes(2)))
struct StrayAnswerTests {
    /// The rows that stop a backend for longer, each with the document that asks for it.
    static let pausing: [String: String] = [
        "fcm QUOTA_EXCEEDED":
            "Firebase, Best practices for sending at scale: after a 429 without Retry-After wait 60 s",
        "hms http_503":
            "Huawei, Push Kit, downlink message API: 503 is the flow control of the app or the system, so send less",
    ]

    /// How many of a thousand messages have ended after 2 s, when one of them gets the outcome and the others are
    /// accepted.
    ///
    /// The odd answer comes last of those that are under way with it, so that no other one shows that the platform
    /// works. Where a request carries several messages, all of the one with that place get the outcome.
    static func ended(beside outcome: DeliveryOutcome, at place: Int, perRequest: Int = 1) -> Int {
        let time = ManualTime()
        let end = time.steady.addingTimeInterval(2)
        let gate = FlowGate(breaker: Breaker())
        var (next, ended) = (0, 0)
        while time.steady <= end {
            var sent: Range<Int> = next..<next
            if case .claim(let capacity, _, _) = gate.step(window: 50, at: time.steady).step {
                sent = next..<min(1_000, next + capacity)
                gate.release(reserved: capacity, claimed: sent.map { Int64($0) }, isLast: false, at: time.steady)
                next = sent.upperBound
            }
            time.advance(by: .milliseconds(20))
            let odd = sent.filter { $0 / perRequest == place / perRequest }
            let good = sent.count - odd.count
            ended += good
            gate.update { state in
                if good > 0 { _ = state.works(good, at: time.steady) }
                if perRequest > 1, !odd.isEmpty, case .fails(let reason) = outcome.signal {
                    let messages = odd.map { FlowGate.State.Message(delivery: Int64($0), sentAt: time.steady) }
                    _ = state.apply(failure: reason, of: messages, at: time.steady)
                } else {
                    for _ in odd { _ = state.apply(outcome.signal, at: time.steady) }
                }
                return ((), wakes: state.finish(sent.map { Int64($0) }))
            }
        }
        return ended
    }

    private static var rows: [(name: String, outcome: DeliveryOutcome)] {
        let causes: [HTTPFailure.Cause] = [
            .connect, .tls, .protocolNotNegotiated, .proxy, .refusedStream, .goAway, .reset(2), .connectionLost,
            .deadline, .queueFull, .cancelled, .badAnswer, .credentials, .credentialsUnavailable,
            .invalidCall, .forbiddenAddress,
        ]
        let failures = causes.flatMap { cause in
            ["a certificate", "words"].flatMap { detail in
                [HTTPFailure.Stage.notProcessed, .unknown].map { HTTPFailure($0, cause, detail).outcome() }
            }
        }
        let all = Plugins.program.backends.map { ($0.kind.rawValue, $0.reasons) } + [("http", failures)]
        return all.flatMap { kind, outcomes in
            outcomes.map { outcome in
                let reason =
                    switch outcome {
                    case .accepted: "accepted"
                    case .refused(let refusal): refusal.reason
                    case .unknown(let unknown): unknown.reason
                    }
                return ("\(kind) \(reason)", outcome)
            }
        }
    }

    @Test("Every row of every platform's rejections lets the other 999 end within 2 s, but for those that say why not")
    func rows() {
        let rows = Self.rows
        #expect(rows.count > 150)
        var stopping: Set<String> = []
        for (name, outcome) in rows where Self.ended(beside: outcome, at: 499) < 999 { stopping.insert(name) }
        let known = Self.pausing.keys.filter { name in
            Platforms.registered.contains(String(name.split(separator: " ")[0]))
        }
        #expect(stopping == Set(known))
    }

    @Test("So does every row for a whole request of 50 messages, the first or the second one", arguments: [0, 50])
    func requests(place: Int) {
        var stopping: Set<String> = []
        for (name, outcome) in Self.rows where Self.ended(beside: outcome, at: place, perRequest: 50) < 950 {
            stopping.insert(name)
        }
        let known = Self.pausing.keys.filter { name in
            Platforms.registered.contains(String(name.split(separator: " ")[0]))
        }
        #expect(stopping == Set(known))
    }

    @Test("A row that names a time stops the backend for it, which this table would see")
    func named() {
        let asked = Refusal(.platform, reason: "r", advice: .slowBackend(after: .seconds(5)))
        #expect(Self.ended(beside: .refused(asked), at: 499) < 999)
        #expect(Self.ended(beside: .accepted(Acceptance()), at: 499) == 999)
    }
}

/// Apple's 429 for provider tokens that change too often, as it came once and stopped all of iOS for 20 minutes.
@Suite("One stray 429 of Apple's at a gateway", .timeLimit(.minutes(3)), .about("apns"))
struct StrayTokenUpdatesTests {
    /// Sends one notification to so many tokens, and waits until Apple has taken every one.
    private static func send(_ count: Int, prefix: String, _ client: GatewayClient) async throws {
        let tokens = (0..<count).map { number -> JSONValue in
            ["token": .string(SandboxRig.token(number, prefix: prefix)), "service": "ios-apns"]
        }
        let request: JSONValue = [
            "to": ["tokens": .array(tokens)],
            "backend": "ios", "content": ["title": "Order 42", "body": "is on its way"],
        ]
        let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: "\(UUID())")
        let id = try #require(answer.json["id"]?.stringValue, "\(answer)")
        try await Program.wait("the end of all \(count)", within: .seconds(60)) { () -> Bool? in
            let counts = try await client.get("/v1/notifications/\(id)").json["counts"]
            return counts?["accepted_by_platform"]?.integerValue == Int64(count) ? true : nil
        }
    }

    @Test("A thousand messages go out beside it, and the log says once what is to be done")
    func thousand() async throws {
        try await SandboxRig.run { rig in
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let client = try gateway.client()
            func refuse(_ count: Int) {
                let answer = FaultAnswer(429, "TooManyProviderTokenUpdates")
                rig.sandbox.apns.add(FaultRule(match: FaultMatch(count: count), .answer(answer)))
            }
            // On another connection it is refused as well, so the backend is slowed until a probe goes through.
            refuse(2)
            try await Self.send(1, prefix: "ab", client)
            refuse(1)
            try await Self.send(1_000, prefix: "cd", client)
            await client.close()
            let lines = gateway.child.errors.split(separator: "\n")
            let said = lines.filter { $0.contains("the platform slows the backend") }
            #expect(said.count == 1, "\(said)")
            #expect(said.first?.contains("Let it reuse one token for 30 minutes.") == true)
        }
    }
}
