import Foundation
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparAPNs

@Suite("Conversations with APNs, scripted", .timeLimit(.minutes(1)))
struct APNsConversationTests {
    @Test("An acceptance carries both of Apple's ids")
    func ids() async throws {
        let transport = ScriptedTransport { call in
            let id = call.header("apns-id") ?? ""
            let headers = [HTTPHeader("apns-id", id.uppercased()), HTTPHeader("apns-unique-id", "u-1")]
            return .success(HTTPAnswer(status: 200, headers: headers))
        }
        let addressee = Addressee(recipient())
        let outcomes = try await APNsBackend.scripted(transport).send([PushRequest(.init(title: "x"), to: [addressee])])
        let acceptance = try #require(outcomes[0][0].acceptance)
        #expect(acceptance.platformID?.lowercased() == addressee.messageID.description)
        #expect(acceptance.trackingID == "u-1")
        #expect(acceptance.status == 200)
        #expect(!acceptance.isDryRun)
    }

    @Test("200 without an id is an acceptance all the same")
    func withoutID() async throws {
        let outcome = try await APNsBackend.scripted(ScriptedTransport()).send(.init(title: "x"), to: [recipient()])[0]
        #expect(outcome.acceptance?.platformID == nil)
        #expect(outcome.acceptance?.status == 200)
    }

    /// A platform that calls every token older than `refusesUntil` expired.
    static func refusing(issuedBefore limit: @escaping @Sendable () -> Int64) -> ScriptedTransport {
        ScriptedTransport { call in
            let issuedAt = call.tokenClaims?["iat"]?.integerValue ?? 0
            return .success(issuedAt < limit() ? .apns(403, "ExpiredProviderToken") : HTTPAnswer(status: 200))
        }
    }

    @Test("An expired token: one mint, each message replayed once on a new connection, none lost")
    func expired() async throws {
        let time = ManualTime()
        let limit = Mutex<Int64>(0)
        let transport = Self.refusing { limit.withLock { $0 } }
        let backend = try APNsBackend.scripted(transport, time: time)
        _ = await backend.send(.init(title: "first"), to: [recipient()])
        time.advance(by: .seconds(25 * 60))
        limit.withLock { $0 = Int64(time.now.timeIntervalSince1970) }
        let tokens = (0..<1000).map { recipient(deviceToken($0)) }
        let outcomes = await backend.send(.init(title: "many"), to: tokens)
        #expect(outcomes.allSatisfy { $0.acceptance != nil })
        #expect(backend.tokens?.generation == 2)
        let calls = transport.calls.dropFirst()
        #expect(Set(calls.map(\.path)).count == 1000)
        #expect(Dictionary(grouping: calls, by: \.path).values.allSatisfy { $0.count <= 2 })
        #expect(backend.health.status == .ok)
    }

    @Test("A fresh token called expired: one replay, then the worker is parked with a word about the clock")
    func wrongClock() async throws {
        let transport = Self.refusing { .max }
        let backend = try APNsBackend.scripted(transport)
        let outcome = await backend.send(.init(title: "x"), to: [recipient()])[0]
        #expect(outcome.refusal?.kind == .account)
        #expect(outcome.refusal?.advice == .parkBackend)
        #expect(outcome.refusal?.reason == "ExpiredProviderToken")
        #expect(outcome.refusal?.detail?.contains("clock") == true)
        #expect(transport.calls.count == 2, "sent once and replayed once")
        #expect(Set(transport.calls.map(\.connection)).count == 2)
        #expect(backend.health.status == .degraded)
        #expect(backend.tokens?.generation == 1, "nothing is minted within 20 minutes")
        let next = await backend.send(.init(title: "y"), to: [recipient()])[0]
        #expect(next.refusal?.advice == .parkBackend)
        #expect(transport.calls.count == 2, "while it is held nothing goes out")
    }

    @Test("A wedged connection is left; the same token is good on the next")
    func wedged() async throws {
        let wedged = Mutex<UInt64?>(nil)
        let transport = ScriptedTransport { call in
            let isWedged = wedged.withLock { wedged in
                wedged = wedged ?? call.connection
                return wedged == call.connection
            }
            return .success(isWedged ? .apns(403, "ExpiredProviderToken") : HTTPAnswer(status: 200))
        }
        let backend = try APNsBackend.scripted(transport)
        let outcome = await backend.send(.init(title: "x"), to: [recipient()])[0]
        #expect(outcome.acceptance != nil)
        #expect(backend.tokens?.generation == 1)
        #expect(backend.health.status == .ok, "the success clears the suspicion")
    }

    @Test("Another key on the connection: one replay on a new one, then an operator must act")
    func unrelatedKey() async throws {
        let transport = ScriptedTransport { _ in .success(.apns(403, "UnrelatedKeyIdInToken")) }
        let outcome = try await APNsBackend.scripted(transport).send(.init(title: "x"), to: [recipient()])[0]
        #expect(outcome.refusal?.advice == .parkBackend)
        #expect(transport.calls.count == 2)
    }

    @Test("A lasting refusal of the credential does not open a connection for each message")
    func noStorm() async throws {
        for reason in ["InvalidProviderToken", "TopicDisallowed", "TooManyProviderTokenUpdates", "Shutdown"] {
            let status = reason.hasPrefix("TooMany") ? 429 : 403
            let transport = ScriptedTransport { _ in .success(.apns(status, reason)) }
            let backend = try APNsBackend.scripted(transport)
            _ = await backend.send(.init(title: "x"), to: (0..<200).map { recipient(deviceToken($0)) })
            // The one that asks for another connection gets it, once for each message.
            #expect(transport.calls.count == (status == 429 ? 400 : 200))
            #expect(Set(transport.calls.map(\.connection)).count <= 2, "\(reason)")
        }
    }

    @Test("Too many token updates: once more with the same token elsewhere, then single messages; nothing is minted")
    func tooManyUpdates() async throws {
        let transport = ScriptedTransport { _ in .success(.apns(429, "TooManyProviderTokenUpdates")) }
        let backend = try APNsBackend.scripted(transport)
        let outcome = await backend.send(.init(title: "x"), to: [recipient()])[0]
        #expect(outcome.refusal?.advice == .slowBackend(after: nil))
        #expect(transport.calls.count == 2 && Set(transport.calls.map(\.connection)).count == 2)
        #expect(Set(transport.calls.map { $0.header("authorization") }).count == 1)
        #expect(backend.tokens?.generation == 1)
        #expect(backend.health.detail?.contains("too often") == true)
    }

    static let badTokens = [
        "", "a", "abc", "zz", "<9f8e>", "9f 8e", String(repeating: "a", count: 402), "ab/../cd", "ab\r\n",
    ]

    @Test("A malformed token is refused without a request", arguments: badTokens)
    func malformedToken(token: String) async throws {
        let transport = ScriptedTransport()
        let outcome = try await APNsBackend.scripted(transport).send(.init(title: "x"), to: [recipient(token)])[0]
        #expect(outcome.refusal?.kind == .token)
        #expect(outcome.refusal?.advice == .never)
        #expect(outcome.refusal?.invalidation?.isCertain == false)
        #expect(transport.calls.isEmpty)
    }

    @Test(
        "Tokens of any even length go out byte for byte",
        arguments: ["ab", "ABCDEF12", String(repeating: "F", count: 400)]
    )
    func oddLengths(token: String) async throws {
        let transport = ScriptedTransport()
        _ = try await APNsBackend.scripted(transport).send(.init(title: "x"), to: [recipient(token)])
        #expect(transport.calls.map(\.path) == ["/3/device/\(token)"])
    }

    @Test("Recipients of one request share the payload and the template")
    func sharing() async throws {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        let outcomes = await backend.send([
            .sample(deviceToken(1), deviceToken(2)), .sample(deviceToken(3), title: "Other"),
        ])
        #expect(outcomes.map(\.count) == [2, 1])
        #expect(transport.calls.map(\.path) == [1, 2, 3].map { "/3/device/\(deviceToken($0))" })
        #expect(transport.calls[0].body == transport.calls[1].body)
        #expect(transport.calls[0].body != transport.calls[2].body)
    }

    @Test("A broadcast goes to the channel's path with an expiration, and the answer stands for an audience")
    func broadcast() async throws {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        var notification = PushNotification()
        notification.overrides["apns"] = [
            "headers": ["apns-push-type": "liveactivity"],
            "payload": ["aps": ["timestamp": 1, "event": "update", "content-state": ["a": 1]]],
        ]
        let outcome = await backend.send(notification, to: [.platformID("dGVzdC1jaGFubmVs")])[0]
        #expect(outcome.acceptance?.isForAudience == true)
        let call = try #require(transport.calls.first)
        #expect(call.path == "/4/broadcasts/apps/\(bundleID)")
        #expect(call.header("apns-channel-id") == "dGVzdC1jaGFubmVs")
        #expect(call.header("apns-push-type") == "liveactivity")
        #expect(call.header("apns-expiration") == "0")
        #expect(call.header("apns-topic") == nil)
        #expect(call.header("apns-priority") == "10")
        let bad = await backend.send(notification, to: [.platformID("a b\r\n")])[0]
        #expect(bad.refusal?.reason == "malformed_channel")
    }

    @Test("Health and window follow the pool")
    func health() throws {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        #expect(backend.window == 1, "a first message must be able to open a connection")
        transport.status = HTTPPoolStatus(connections: 2, openStreams: 7, streamLimit: 1500)
        #expect(backend.window == 1500)
        #expect(backend.health == BackendHealth(connections: 2, inFlight: 7))
        let failure = HTTPFailure(.notProcessed, .connect, "api.push.apple.com: connection refused")
        transport.status = HTTPPoolStatus(lastConnectFailure: failure)
        #expect(backend.health.status == .down)
        #expect(backend.health.detail == failure.detail)
    }

    @Test("The pools are asked for what Apple's hosts need")
    func pools() throws {
        let transport = ScriptedTransport()
        var options = try APNsOptions.sample(environment: .development)
        options.port = 2197
        _ = try APNsBackend.scripted(transport, options: options)
        #expect(transport.configurations.map(\.version) == [.http2, .http2])
        let endpoints = transport.configurations.map(\.endpoint.description)
        #expect(
            endpoints == [
                "https://api.sandbox.push.apple.com:2197", "https://api-manage-broadcast.sandbox.push.apple.com:2195",
            ]
        )
    }

    @Test("An unknown reason does not end anything, however often it comes")
    func unknownReason() async throws {
        let transport = ScriptedTransport { _ in .success(.apns(400, "AddedNextYear")) }
        let backend = try APNsBackend.scripted(transport)
        for _ in 0..<3 {
            let outcome = await backend.send(.init(title: "x"), to: [recipient()])[0]
            #expect(outcome.refusal?.reason == "AddedNextYear")
            #expect(outcome.refusal?.advice == .never)
        }
    }

    // MARK: Doctor

    static func diagnose(_ answer: Result<HTTPAnswer, HTTPFailure>) async throws -> [String: Diagnosis] {
        let backend = try APNsBackend.scripted(ScriptedTransport { _ in answer })
        return Dictionary(await backend.diagnose().map { ($0.check, $0) }) { first, _ in first }
    }

    @Test("The doctor finds all well when only the device does not exist")
    func healthy() async throws {
        var answer = HTTPAnswer.apns(400, "BadDeviceToken")
        answer.headers = [HTTPHeader("date", "Thu, 01 Jan 2026 00:00:10 GMT")]
        let findings = try await Self.diagnose(.success(answer))
        #expect(findings.values.allSatisfy { $0.verdict == .ok }, "\(findings)")
        #expect(Set(findings.keys) == ["key", "topic", "reachability", "clock", "credentials"])
    }

    @Test("The doctor names the clock, the credential and the way, each with a fix")
    func ill() async throws {
        var late = HTTPAnswer.apns(403, "InvalidProviderToken")
        late.headers = [HTTPHeader("date", "Thu, 01 Jan 2026 02:00:00 GMT")]
        let findings = try await Self.diagnose(.success(late))
        #expect(findings["clock"]?.verdict == .failure)
        #expect(findings["clock"]?.finding.contains("7200 s behind") == true)
        #expect(findings["credentials"]?.verdict == .failure)
        #expect(findings["credentials"]?.fix?.contains("key_id") == true)
        var early = HTTPAnswer.apns(403, "InvalidProviderToken")
        early.headers = [HTTPHeader("date", "Wed, 31 Dec 2025 22:00:00 GMT")]
        let ahead = try await Self.diagnose(.success(early))
        #expect(ahead["credentials"]?.fix?.contains("clock is 7200 s ahead of Apple's") == true, "\(ahead)")
        for cause in [HTTPFailure.Cause.connect, .tls, .protocolNotNegotiated, .proxy, .credentials, .deadline] {
            let failed = try await Self.diagnose(.failure(HTTPFailure(.notProcessed, cause, "it failed")))
            #expect(failed["reachability"]?.verdict == .failure)
            #expect(failed["reachability"]?.fix?.isEmpty == false)
        }
    }
}
