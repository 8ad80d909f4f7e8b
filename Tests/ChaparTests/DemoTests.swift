import Foundation
import ChaparCore
import ChaparSandbox
import Testing

@testable import ChaparCommands

@Suite("The demonstration", .timeLimit(.minutes(2)))
struct DemoTests {
    @Test("The demonstration ends with the expected outcomes and exit code 0")
    func demo() async throws {
        let result = try await Program.run(["demo", "--once", "--json"], within: .seconds(90))
        #expect(result.status == 0, "\(result.output)\(result.errors)")
        let endings = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
        #expect(endings.count >= (Platforms.missing.isEmpty ? 12 : 1))
        #expect(
            result.errors.contains("Left out") == !Platforms.missing.subtracting(["release_notes", "gorush"]).isEmpty
        )
        #expect(endings.allSatisfy { $0["expected"]?.boolValue == true })
        let takenOver = endings.first { $0["story"] == "no report" }
        #expect((takenOver == nil) == !Platforms.missing.isDisjoint(with: ["fcm", "http"]))
        if let takenOver { #expect(takenOver["attempts"] == "android: 200, then service: 200") }
    }

    @Test("A port that is taken is named, with what to do")
    func takenPort() async throws {
        try await SandboxRig.run { rig in
            let port = try #require(URL(string: rig.sandbox.controlURL)?.port)
            let result = try await Program.run(["demo", "--once", "--port", "\(port)"])
            #expect(result.status == 1, "\(result)")
            #expect(result.errors.contains("cannot listen on 127.0.0.1:\(port): the port is taken"), "\(result)")
            #expect(!result.errors.contains("errno"), "\(result)")
        }
    }

    @Test("A receipt that comes meanwhile changes no verdict; a failure does", arguments: [true, false])
    func receipts(isDelivered: Bool) {
        let scenario = DemoScenario(
            name: "",
            summary: "",
            steps: [],
            expected: .state(.acceptedByPlatform, attempts: 1)
        )
        let item: JSONValue = [
            "attempts": [
                ["backend": "huawei", "outcome": "accepted", "status": 200],
                ["backend": "huawei", "outcome": "receipt"],
            ]
        ]
        let ending = DemoRunner.ending(scenario, "id", [item], [isDelivered ? .delivered : .failed])
        #expect((ending.complaint == nil) == isDelivered, "\(ending)")
    }

    @Test("Deliveries that are missing are no success", arguments: [0, 499, 500])
    func missing(count: Int) {
        let scenario = DemoScenario(
            name: "many",
            summary: "",
            steps: [],
            expected: .state(.acceptedByPlatform, attempts: 1)
        )
        let item: JSONValue = ["attempts": [["backend": "ios", "outcome": "accepted", "status": 200]]]
        let ending = DemoRunner.ending(
            scenario,
            "id",
            Array(repeating: item, count: count),
            Array(repeating: .acceptedByPlatform, count: count),
            recipients: 500
        )
        #expect((ending.complaint == nil) == (count == 500), "\(ending)")
    }
}
