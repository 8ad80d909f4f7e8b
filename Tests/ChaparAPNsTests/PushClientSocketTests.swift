import ChaparCore
import ChaparComposition
import ChaparHTTP
import ChaparSandbox
import Testing

@testable import ChaparAPNs

/// A program without a server, against Apple's simulator.
@Suite("Compose in code", .timeLimit(.minutes(1)))
struct PushClientSocketTests {
    @Test(
        "Ten lines send a notification and leave no connection behind, also when they throw",
        arguments: [false, true]
    )
    func send(isThrowing: Bool) async throws {
        struct Thrown: Error {}
        try await APNsSimulator.run { simulator in
            simulator.register(tokens: [goodToken], topic: bundleID)
            var options = try APNsOptions.sample(simulator.key)
            options.common.address = try .simulator(simulator.url(.production))
            options.common.trustPEM = simulator.authority.certificatePEM
            let run = { @Sendable [options] () async throws -> APNsBackend in
                try await PushClient.run(logger: quiet) { client in
                    let ios = try client.add(as: "ios") { try APNsBackend(options: options, context: $0) }
                    let chain = try client.add(as: "all") { _ in
                        try PlanBackend(.firstOf("ios").retrying(), [NamedBackend("ios", ios)])
                    }
                    guard case .accepted = await chain.send(PushNotification(title: "Parcel"), to: recipient()) else {
                        Issue.record("the simulator took nothing")
                        return ios
                    }
                    if isThrowing { throw Thrown() }
                    return ios
                }
            }
            if isThrowing {
                await #expect(throws: Thrown.self) { try await run() }
            } else {
                let ios = try await run()
                let late = await ios.send(PushNotification(title: "Late"), to: recipient())
                guard case .refused(let refusal) = late else {
                    Issue.record("sent after the end: \(late)")
                    return
                }
                #expect(refusal.reason == "cancelled")
            }
            #expect(await simulator.wait { $0.connectionsOpened == 1 && $0.connectionsOpen == 0 })
            #expect(simulator.counters.requests == 1)
        }
    }
}
