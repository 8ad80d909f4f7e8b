import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparWebPush

@Suite("One push service's trouble is no other's", .timeLimit(.minutes(1)))
struct WebPushLaneTests {
    @Test("Mozilla is down; Apple and Google go on, and nothing looks like an outage of the backend")
    func outage() async throws {
        try await Harness.run { harness in
            harness.simulator.add(FaultRule.refuseConnections(listener: WebPushService.mozilla.listener))
            let recipients = [
                harness.subscribe("a", at: .mozilla), harness.subscribe("b", at: .apple),
                harness.subscribe("c", at: .fcm),
            ]
            for _ in 0..<2 {
                let outcomes = await harness.backend.send(.sample, to: recipients)
                #expect(outcomes[1].isAccepted && outcomes[2].isAccepted)
                let refusal = try #require(outcomes[0].refusal)
                #expect(refusal.kind == .account, "the breaker of the backend stays closed")
                guard case .retry(after: .some) = refusal.advice else { Issue.record("\(refusal.advice)"); return }
            }
            #expect(harness.backend.health.status == .degraded)
        }
    }

    @Test("A service that asks for a pause is held for it, and then goes on")
    func pause() async throws {
        let time = ManualTime(Date())
        try await Harness.run(time: time) { harness in
            let recipients = [harness.subscribe("a", at: .mozilla), harness.subscribe("b", at: .apple)]
            harness.fault(.mozilla, FaultAnswer(503, "201", retryAfter: 120), count: 1)
            #expect(
                await harness.backend.send(.sample, to: recipients[0]).refusal?.advice
                    == .slowBackend(after: .seconds(120))
            )
            #expect(await harness.backend.send(.sample, to: recipients[1]).isAccepted)
            let before = harness.sent.requests.count
            let held = try #require(await harness.backend.send(.sample, to: recipients[0]).refusal)
            #expect(harness.sent.requests.count == before, "no request while it is held")
            guard case .retry(after: let rest?) = held.advice else { Issue.record("\(held.advice)"); return }
            #expect(rest > .seconds(115) && rest <= .seconds(120))
            time.advance(by: .seconds(121))
            #expect(await harness.backend.send(.sample, to: recipients[0]).isAccepted)
        }
    }

    @Test("Holds grow while a lane fails, and those that fail together count once")
    func growth() throws {
        let lanes = WebPushLanes()
        let (own, other) = (HTTPEndpoint(host: "a.example"), HTTPEndpoint(host: "b.example"))
        var now = Date(timeIntervalSince1970: 1_800_000_000)
        let refusal = Refusal(.platform, reason: "connect_failed", advice: .retry(after: nil))
        #expect(lanes.admit(own, at: now) == nil)
        #expect(lanes.trouble(own, refusal, pause: nil, at: now) == nil, "no other lane: the whole backend's trouble")
        #expect(lanes.admit(other, at: now) == nil)
        var spans: [Duration] = []
        for _ in 0..<8 {
            now += 120
            lanes.worked(other)
            _ = lanes.admit(other, at: now)
            let first = lanes.trouble(own, refusal, pause: nil, at: now)
            let second = lanes.trouble(own, refusal, pause: nil, at: now)
            #expect(first?.advice == second?.advice)
            if case .retry(after: let span?)? = first?.advice { spans.append(span) }
        }
        #expect(spans == [2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) })
        lanes.worked(own)
        #expect(lanes.admit(own, at: now) == nil)
        #expect(lanes.detail(at: now) == nil)
    }

    @Test(
        "An answer of a host that no setting names never pauses the whole backend",
        arguments: [302, 401, 403, 406, 429, 500, 503]
    )
    func foreign(status: Int) async throws {
        let transport = ScriptedTransport { _ in
            .success(HTTPAnswer(status: status, headers: [HTTPHeader("retry-after", "86400")]))
        }
        var options = WebPushOptions(keys: [WebPushKey()], subject: "mailto:ops@example.com")
        try options.allow(hosts: ["browsers", "any"])
        let context = BackendContext(name: "browsers", http: transport, logger: quiet)
        let backend = WebPushBackend(options: options, context: context)
        let hostile = browser(WebPushSubscriptionTests.text("https://push.example.org/x"))
        for _ in 0..<3 {
            let refusal = try #require(await backend.send(.sample, to: hostile).refusal)
            #expect(refusal.kind == .account || refusal.kind == .token)
            guard case .retry = refusal.advice else { Issue.record("\(refusal.advice)"); return }
        }
        #expect(transport.configurations.allSatisfy { $0.requiresPublicAddress })
    }

    @Test("No more lanes are remembered than fit")
    func bound() {
        let lanes = WebPushLanes()
        let now = Date()
        for number in 0..<3_000 { _ = lanes.admit(HTTPEndpoint(host: "h\(number).example"), at: now) }
        #expect(lanes.count == WebPushLanes.capacity)
    }
}

@Suite("Hosts that come from browsers reach no network of one's own", .timeLimit(.minutes(1)))
struct WebPushAddressTests {
    /// A backend that takes any host, over a transport whose names resolve to these addresses.
    private static func outcome(
        _ addresses: [[UInt8]],
        host: String = "push.example.org",
        hosts: [String] = ["any"]
    ) async throws -> DeliveryOutcome {
        let transport = NIOTransport(logger: quiet) { _ in addresses }
        var options = WebPushOptions(keys: [WebPushKey()], subject: "mailto:ops@example.com")
        try options.allow(hosts: hosts)
        options.common.timeout = .seconds(2)
        let context = BackendContext(name: "browsers", http: transport, logger: quiet)
        let backend = WebPushBackend(options: options, context: context)
        let recipient = browser(WebPushSubscriptionTests.text("https://\(host)/x"))
        _ = try backend.checked(DeviceToken(WebPushSubscriptionTests.text("https://\(host)/x"), service: .webPush))
        let outcome = await backend.send(.sample, to: recipient)
        await backend.shutdown(grace: .zero)
        await transport.shutdown(grace: .zero)
        return outcome
    }

    static let closed: [[[UInt8]]] = [
        [[127, 0, 0, 1]], [[10, 1, 2, 3]], [[169, 254, 169, 254]], [[192, 168, 0, 1]], [[100, 64, 0, 1]],
        [[0, 0, 0, 0]], [[172, 31, 255, 255]], [[224, 0, 0, 1]], [[255, 255, 255, 255]],
        [[8, 8, 8, 8], [10, 0, 0, 1]], [[UInt8](repeating: 0, count: 15) + [1]],
        [[0xFE, 0x80] + [UInt8](repeating: 0, count: 14)], [[0xFD] + [UInt8](repeating: 0, count: 15)],
        [[UInt8](repeating: 0, count: 10) + [0xFF, 0xFF, 127, 0, 0, 1]],
        [[0, 0x64, 0xFF, 0x9B] + [UInt8](repeating: 0, count: 8) + [10, 0, 0, 1]],
        [[0x20, 0x02, 10, 0, 0, 1] + [UInt8](repeating: 0, count: 10)],
    ]

    @Test("A name that passed registration and leads inside is refused at the send", arguments: closed)
    func rebinding(addresses: [[UInt8]]) async throws {
        let refusal = try #require(try await Self.outcome(addresses).refusal)
        #expect(refusal.reason == "forbidden_address")
        #expect(refusal.advice == .never)
        #expect(refusal.invalidation == nil)
    }

    @Test("A host that is named in the settings may be inside")
    func named() async throws {
        try await Harness.run { harness in #expect(await harness.send().isAccepted) }
    }

    @Test("Public addresses are told from others")
    func addresses() {
        for open: [UInt8] in [
            [8, 8, 8, 8], [1, 1, 1, 1], [172, 32, 0, 1], [100, 128, 0, 1], [198, 20, 0, 1],
            [0x26, 0x06, 0x47, 0] + [UInt8](repeating: 0, count: 12),
            [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF, 8, 8, 8, 8],
        ] { #expect(PublicAddress.contains(open), "\(open)") }
        for addresses in Self.closed {
            #expect(!addresses.allSatisfy(PublicAddress.contains), "\(addresses)")
        }
        #expect(!PublicAddress.contains([]))
    }

    @Test("A name without an address waits for one")
    func unresolved() async throws {
        let refusal = try #require(try await Self.outcome([]).refusal)
        #expect(refusal.reason == "connect_failed")
        guard case .retry = refusal.advice else {
            Issue.record("\(refusal.advice)")
            return
        }
    }

    @Test("A connection goes to the address that was checked, with the host's name", .timeLimit(.minutes(1)))
    func pinned() async throws {
        // The second answer of the resolver would lead inside: nothing asks for it while the first holds.
        let asked = Atomic<Int>(0)
        let transport = NIOTransport(logger: quiet) { _ in
            asked.add(1, ordering: .relaxed)
            return [[203, 1, 0, 1]]
        }
        var configuration = HTTPPoolConfiguration(endpoint: HTTPEndpoint(host: "push.invalid"), version: .http2)
        configuration.requiresPublicAddress = true
        configuration.connectTimeout = .milliseconds(200)
        configuration.requestTimeout = .milliseconds(300)
        let pool = try transport.pool(configuration)
        let call = HTTPCall(HTTPCallTemplate(method: "POST"), path: "/")
        for _ in 0..<2 {
            do throws(HTTPFailure) {
                _ = try await pool.send(call)
                Issue.record("nothing is at that address")
            } catch {
                #expect(!error.detail.contains("name resolution"), "\(error.detail)")
            }
        }
        #expect(asked.load(ordering: .relaxed) >= 1)
        await transport.shutdown(grace: .zero)
    }
}
