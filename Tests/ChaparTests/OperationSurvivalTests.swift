import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite(
    "Operations about devices survive",
    .serialized,
    .timeLimit(.minutes(3)),
    .about("onesignal")
)
struct OperationSurvivalTests {
    /// How many operations wait for a backend.
    private static func waiting(_ client: GatewayClient, _ backend: String) async throws -> Int64? {
        let backends = try await client.get("/v1/backends").json["backends"]?.arrayValue
        return backends?.first { $0["name"]?.stringValue == backend }?["operations"]?["waiting"]?.integerValue
    }

    @Test("kill -9 while the platform answers 503: every accepted device is told of once it is well")
    func killed() async throws {
        try await SandboxRig.run { rig in
            rig.sandbox.oneSignal.add([FaultRule(.answer(FaultAnswer(503, "unavailable")))])
            let ids = (1...30).map { "phone-\($0)" }
            let first = try await rig.serve()
            let client = try first.client()
            for (number, id) in ids.enumerated() {
                let device: JSONValue = [
                    "user": "ali", "tokens": ["ios-apns": .string(SandboxRig.token(number, prefix: "cd"))],
                ]
                let answer = try await client.put("/v1/devices/\(id)", device.bytes)
                #expect(answer.status == 201)
            }
            try await Program.wait("the operations") {
                try await Self.waiting(client, "campaigns") == 30 ? true : nil
            }
            try await Program.wait("a try") { rig.sandbox.oneSignal.counters.writes > 0 ? true : nil }
            #expect(rig.sandbox.oneSignal.players.isEmpty)
            await client.close()
            first.child.kill()
            _ = try await first.child.end()

            rig.sandbox.oneSignal.removeFaults()
            let second = try await rig.serve()
            defer { second.child.kill() }
            let next = try second.client()
            try await Program.wait("the end of all operations", within: .seconds(90)) {
                try await Self.waiting(next, "campaigns") == 0 ? true : nil
            }
            let told = Set(rig.sandbox.oneSignal.players.map(\.token))
            let missing = ids.indices.filter { !told.contains(SandboxRig.token($0, prefix: "cd")) }
            #expect(missing.isEmpty, "\(missing.count) of \(ids.count) were accepted and never told of")
            await next.close()
        }
    }
}
