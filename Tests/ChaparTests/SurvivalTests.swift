import Foundation
import ChaparCore
import ChaparSandbox
import Synchronization
import Testing

@testable import ChaparCommands

@Suite(
    "A gateway that is killed, reloaded or stopped loses nothing",
    .serialized,
    .timeLimit(.minutes(10)),
    .about("apns")
)
struct SurvivalTests {
    /// How often the gateway is killed: a handful, or what `CHAPAR_KILLS` says.
    private static let kills = ProcessInfo.processInfo.environment["CHAPAR_KILLS"].flatMap { Int($0) } ?? 5

    @Test("kill -9 at random moments under load: every 202 ends, none is lost")
    func killed() async throws {
        try await SandboxRig.run { rig in
            try rig.append("queue: { first_retry: 0.2, max_retry: 1 }\n")
            let load = Load()
            var random = SystemRandomNumberGenerator()
            var kills = 0
            // On a machine that takes next to nothing in half a second there are more of them.
            while kills < Self.kills || load.accepted.count <= Self.kills, kills < 10 * Self.kills {
                kills += 1
                let gateway = try await rig.serve()
                let moment = Int.random(in: 30...500, using: &random)
                try await load.run(through: gateway, until: .milliseconds(moment)) { gateway.child.kill() }
                _ = try await gateway.child.end()
            }
            #expect(load.accepted.count > Self.kills, "the load must reach the gateway")
            let gateway = try await rig.serve()
            let states = try await load.states(through: gateway)
            gateway.child.kill()
            let counters = rig.sandbox.apns.counters
            let delivered = Set(rig.sandbox.apns.inbox.map(\.token))
            let lost = load.accepted.filter { !delivered.contains($0.token) }
            #expect(lost.isEmpty, "\(lost.count) of \(load.accepted.count) were accepted and never delivered")
            #expect(states.allSatisfy { $0 == .acceptedByPlatform }, "\(Set(states))")
            // A copy after an unknown outcome is allowed, one that a person would see twice is not.
            #expect(counters.doubledOnDevice == 0, "of \(counters.duplicateContents) copies")
            print(
                "killed \(kills) times: \(load.accepted.count) accepted, \(lost.count) lost,",
                "\(counters.duplicateContents) sent twice, \(counters.doubledOnDevice) shown twice"
            )
        }
    }

    @Test("Reloading again and again under load loses no request, and a wrong file changes nothing")
    func reloaded() async throws {
        try await SandboxRig.run { rig in
            let good = try String(contentsOfFile: rig.config, encoding: .utf8)
            let gateway = try await rig.serve()
            defer { gateway.child.kill() }
            let load = Load()
            try await load.run(through: gateway, until: .zero) {
                for round in 1...6 {
                    let text = round % 3 == 0 ? good + "bogus: \(round)\n" : good
                    try text.write(toFile: rig.config, atomically: true, encoding: .utf8)
                    let mark = round % 3 == 0 ? "nothing was reloaded" : "configuration reloaded"
                    let before = gateway.child.errors.components(separatedBy: mark).count
                    gateway.child.send(SIGHUP)
                    try await Program.wait("reload \(round)") {
                        gateway.child.errors.components(separatedBy: mark).count > before ? true : nil
                    }
                }
            }
            #expect(load.failures == 0, "every request must be answered while reloading")
            #expect(gateway.child.errors.contains("bogus: unknown key"))
            let states = try await load.states(through: gateway)
            #expect(states.count == load.accepted.count && !states.isEmpty)
            #expect(states.allSatisfy { $0 == .acceptedByPlatform }, "\(Set(states))")
            #expect(rig.sandbox.apns.counters.doubledOnDevice == 0)
        }
    }

    @Test("SIGTERM lets what is under way end and exits with 0; the rest is there at the next start")
    func drained() async throws {
        try await SandboxRig.run { rig in
            let first = try await rig.serve()
            let load = Load(prefix: "5109")  // The simulator takes two seconds to answer these.
            try await load.run(through: first, until: .milliseconds(300)) {
                _ = try await Program.wait("some load") { () -> Bool? in load.accepted.isEmpty ? nil : true }
                first.child.send(SIGTERM)
            }
            let result = try await first.child.end(within: .seconds(60))
            #expect(result.status == 0, "\(result.errors)")
            #expect(!load.accepted.isEmpty)
            let second = try await rig.serve()
            let states = try await load.states(through: second)
            second.child.kill()
            #expect(states.allSatisfy { $0 == .acceptedByPlatform }, "\(Set(states))")
            #expect(rig.sandbox.apns.counters.doubledOnDevice == 0)
        }
    }
}

/// Posts messages as fast as a few clients can, and remembers what was accepted.
final class Load: Sendable {
    /// A message that was answered with 202.
    struct Accepted: Sendable {
        var id: String
        var token: String
    }

    private struct Books {
        var accepted: [Accepted] = []
        var failures = 0
        var number = 0
    }

    private let books = Mutex(Books())
    private let prefix: String

    init(prefix: String = "ab") { self.prefix = prefix }

    /// The notifications accepted so far.
    var accepted: [Accepted] { books.withLock { $0.accepted } }
    /// How many requests had no answer.
    var failures: Int { books.withLock { $0.failures } }

    /// Posts from four clients for so long, then runs `body` while they go on, then stops them.
    func run(
        through gateway: ServedGateway,
        until moment: Duration,
        _ body: @Sendable () async throws -> Void
    ) async throws {
        let client = try gateway.client()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { await self.post(client) } }
            try await Task.sleep(for: moment)  // The load itself, not a wait for something.
            let before = accepted.count
            try await body()
            if moment == .zero {
                try await Program.wait("some load") { self.accepted.count > before ? true : nil }
            }
            group.cancelAll()
        }
        await client.close()
    }

    private func post(_ client: GatewayClient) async {
        while !Task.isCancelled {
            let number = books.withLock { books in
                books.number += 1
                return books.number
            }
            let token = SandboxRig.token(number, prefix: prefix)
            let request: JSONValue = [
                "to": ["tokens": [["token": .string(token), "service": "ios-apns"]]],
                "content": ["body": .string("message \(number)")],
            ]
            do {
                let answer = try await client.post("/v1/notifications", request.bytes, idempotencyKey: "\(number)")
                guard answer.status == 202, let id = answer.json["id"]?.stringValue else { return }
                books.withLock { $0.accepted.append(Accepted(id: id, token: token)) }
            } catch {
                if !Task.isCancelled { books.withLock { $0.failures += 1 } }
                return  // The gateway is gone.
            }
        }
    }

    /// Waits until everything that was accepted has ended, and says how.
    func states(through gateway: ServedGateway) async throws -> [DeliveryState] {
        let client = try gateway.client()
        var states: [DeliveryState] = []
        for one in accepted {
            let state = try await Program.wait("the end of \(one.id)", within: .seconds(60)) { () -> DeliveryState? in
                let answer = try await client.get("/v1/notifications/\(one.id)")
                let state = answer.json["status"]?.stringValue.flatMap(DeliveryState.init(rawValue:))
                return state.flatMap { $0.isFinal ? $0 : nil }
            }
            states.append(state)
        }
        await client.close()
        return states
    }
}
