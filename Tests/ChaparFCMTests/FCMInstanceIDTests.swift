import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

@Suite("Topics, token look-up and import", .serialized, .timeLimit(.minutes(1)))
struct FCMInstanceIDTests {
    /// Runs with a clock that lets waits pass at once.
    private func run(_ body: (SocketHarness, FCMInstanceIDs) async throws -> Void) async throws {
        try await SocketHarness.run(time: HastyTime()) { harness in
            try await body(harness, try #require(harness.backend.instanceIDs))
        }
    }

    struct HastyTime: TimeSource {
        var now: Date { Date() }
        func sleep(for duration: Duration) async throws { await Task.yield() }
    }

    private func tokens(_ count: Int) -> [DeviceToken] {
        (0..<count).map { DeviceToken(deviceToken($0), service: .androidFirebase) }
    }

    private func word(_ outcome: TokenOutcome) -> String {
        switch outcome {
        case .done: "done"
        case .dead(let word): "dead \(word)"
        case .refused(let word): "refused \(word)"
        case .failed(let error): "failed \(error.code.rawValue)"
        }
    }

    @Test("2,500 tokens join in three calls and leave again")
    func batches() async throws {
        try await run { harness, ids in
            _ = harness.register(2500)
            let joined = try await ids.subscribe(tokens(2500), to: "/topics/news")
            #expect(joined.count == 2500)
            #expect(joined.allSatisfy { word($0) == "done" })
            #expect(harness.simulator.counters.instanceIDCalls == 3)
            #expect(harness.simulator.members(of: "news").count == 2500)
            _ = try await ids.unsubscribe(Array(tokens(2500).prefix(10)), from: "news")
            #expect(harness.simulator.members(of: "news").count == 2490)
        }
    }

    @Test("Each token has its own outcome, by its place; only what may pass by itself is tried again")
    func mixed() async throws {
        try await run { harness, ids in
            _ = harness.register(6)
            let all = tokens(7)  // The last one is unknown.
            harness.simulator.setDevice(FCMDevice(state: .unregistered), token: all[1].value)
            harness.simulator.setItemError("TOO_MANY_TOPICS", token: all[2].value)
            harness.simulator.setItemError("INTERNAL", token: all[3].value, times: 2)
            harness.simulator.setItemError("RESOURCE_EXHAUSTED", token: all[4].value, times: 9)
            harness.simulator.setItemError("PERMISSION_DENIED", token: all[5].value)
            let outcomes = try await ids.subscribe(all, to: "news")
            #expect(
                outcomes.map(word) == [
                    "done", "dead NOT_FOUND", "refused TOO_MANY_TOPICS", "done", "failed backend-unavailable",
                    "failed credentials-refused", "dead INVALID_ARGUMENT",
                ]
            )
            #expect(harness.simulator.counters.instanceIDCalls == 3)
        }
    }

    @Test("Results that are missing at the end are asked for again")
    func shortAnswer() async throws {
        try await run { harness, ids in
            _ = harness.register(10)
            harness.simulator.dropResults(4)
            let outcomes = try await ids.subscribe(tokens(10), to: "news")
            #expect(outcomes.allSatisfy { word($0) == "done" })
            #expect(harness.simulator.counters.instanceIDCalls == 2)
        }
    }

    @Test("A whole call that fails is told for each of its tokens, and tried again when that makes sense")
    func wholeCall() async throws {
        try await run { harness, ids in
            _ = harness.register(3)
            harness.simulator.add(
                FaultRule(match: FaultMatch(listener: "instance_id", count: 1), .answer(FaultAnswer(503)))
            )
            let first = try await ids.subscribe(tokens(3), to: "news")
            #expect(first.map(word) == ["done", "done", "done"])
            harness.simulator.add(
                FaultRule(name: "no", match: FaultMatch(listener: "instance_id"), .answer(FaultAnswer(403)))
            )
            let second = try await ids.subscribe(tokens(3), to: "news")
            #expect(second.map(word) == Array(repeating: "failed credentials-refused", count: 3))
        }
    }

    @Test("A refused access token is replaced once here as well")
    func refresh() async throws {
        try await run { harness, ids in
            _ = harness.register(1)
            await harness.warmUp()
            harness.simulator.revokeAccessTokens()
            let outcomes = try await ids.subscribe(tokens(1), to: "news")
            #expect(outcomes.map(word) == ["done"])
            #expect(harness.simulator.counters.tokensIssued == 2)
        }
    }

    @Test("A topic that cannot be is refused before anything is sent")
    func badTopic() async throws {
        try await run { harness, ids in
            let error = await #expect(throws: PushError.self) { try await ids.subscribe(tokens(1), to: "a b") }
            #expect(error?.code == .invalidRequest)
            #expect(harness.simulator.counters.instanceIDCalls == 0)
        }
    }

    @Test("A token's app, project and topics can be looked up")
    func info() async throws {
        try await run { harness, ids in
            _ = harness.register(2)
            _ = try await ids.subscribe(tokens(1), to: "news")
            let info = try #require(try await ids.details(of: tokens(1)[0]))
            #expect(info.application == "com.example.chapar")
            #expect(info.project == FCMSimulatorConfiguration().projectNumber)
            #expect(info.platform == "ANDROID")
            #expect(info.topics.map(\.name) == ["news"])
            #expect(info.topics.first?.since?.count == 10, "a day")
            #expect(try await ids.details(of: DeviceToken("unknown/token?", service: .androidFirebase)) == nil)
            harness.simulator.add(FaultRule(match: FaultMatch(listener: "instance_id"), .answer(FaultAnswer(404))))
            await #expect(throws: PushError.self, "a 404 without Google's words is nobody's token") {
                try await ids.details(of: tokens(1)[0])
            }
        }
    }

    @Test("APNs tokens become FCM tokens, a hundred at a time, matched by token and not by place")
    func imports() async throws {
        try await run { harness, ids in
            let apns = (0..<250).map { number in
                let digits = String(number, radix: 16)
                return DeviceToken(String(repeating: "0", count: 8 - digits.count) + digits, service: .iOSAPNs)
            }
            harness.simulator.setItemError("Internal Server Error", token: apns[7].value)
            let outcomes = await ids.importTokens(
                apns + [DeviceToken("xyz", service: .iOSAPNs)],
                application: "com.example.chapar"
            )
            #expect(harness.simulator.counters.instanceIDCalls == 4, "three batches, and one item again")
            for (token, outcome) in zip(apns, outcomes) {
                guard case .imported(let made) = outcome else {
                    Issue.record("\(outcome)")
                    continue
                }
                #expect(made == DeviceToken("imported:APA91b" + String(token.value.reversed()), service: .iOSFirebase))
            }
            guard case .refused("INVALID_ARGUMENT")? = outcomes.last else {
                Issue.record("a text that is no APNs token was imported")
                return
            }
        }
    }

    // MARK: Token providers

    struct AppError: Error {}

    @Test("Both providers keep the promises of a TokenProvider", arguments: TokenProviderConformance.checks)
    func provider(check: ConformanceCheck<TokenProviderConformance.Subject>) async throws {
        for service in [TokenService.iOSFirebase, .androidFirebase] {
            try await check.run(
                .init(
                    provider: FCMTokenProvider(service) { goodToken },
                    empty: FCMTokenProvider(service) { nil },
                    hanging: FCMTokenProvider(service, deadline: .milliseconds(20)) {
                        // An app that never calls back does not hear of cancellation either.
                        await withUnsafeContinuation { (_: UnsafeContinuation<String?, Never>) in }
                    },
                    failing: FCMTokenProvider(service) { throw AppError() },
                    invalidTexts: ["two words", "line\nbreak", String(repeating: "a", count: 4097), "bell\u{7}"]
                )
            )
        }
    }

    @Test("An ios-firebase token can be made of an APNs token, and its standing asked for")
    func importing() async throws {
        try await run { harness, ids in
            let apns = AppleTokens()
            let provider = FCMTokenProvider(importing: apns, application: "com.example.chapar", through: ids)
            let token = try #require(try await provider.token())
            #expect(token == DeviceToken("imported:APA91be8f9", service: .iOSFirebase))
            let number = FCMSimulatorConfiguration().projectNumber
            #expect(
                try await FCMTokenProvider.standing(of: token, through: ids, projectNumber: number) == .alive
            )
            #expect(
                try await FCMTokenProvider.standing(of: token, through: ids, projectNumber: "1")
                    == .otherProject(number)
            )
            harness.simulator.setDevice(FCMDevice(state: .unregistered), token: token.value)
            #expect(try await FCMTokenProvider.standing(of: token, through: ids) == .dead)
        }
    }

    struct AppleTokens: TokenProvider {
        var service: TokenService { .iOSAPNs }
        func token() async throws(PushError) -> DeviceToken? { DeviceToken("9f8e", service: .iOSAPNs) }
        func validate(_ text: String) throws(InvalidToken) -> DeviceToken { DeviceToken(text, service: .iOSAPNs) }
    }

    @Test("Deleting is the app's: its failure is told, and a refresh deletes before it fetches")
    func deleting() async throws {
        let app = App()
        let provider = FCMDeletingTokenProvider(FCMTokenProvider(.iOSFirebase) { await app.token }) {
            try await app.delete()
        }
        #expect(try await provider.token()?.value == "token-1")
        #expect(try await provider.refreshed()?.value == "token-2")
        await app.fail()
        let error = await #expect(throws: PushError.self) { try await provider.refreshed() }
        #expect(error?.code == .unavailable)
        #expect(try await provider.token()?.value == "token-2", "the old one stays good")
        let plain: any TokenProvider = FCMTokenProvider(.iOSFirebase) { nil }
        #expect(!(plain is any TokenDeleting))
    }

    actor App {
        private var number = 1
        private var fails = false
        var token: String { "token-\(number)" }
        func delete() throws {
            if fails { throw AppError() }
            number += 1
        }
        func fail() { fails = true }
    }
}
