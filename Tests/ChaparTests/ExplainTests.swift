import Foundation
import ChaparComposition
import ChaparCore
import Testing

@testable import ChaparCommands

@Suite("chapar explain", .timeLimit(.minutes(1)))
struct ExplainTests {
    @Test("A reason is explained: meaning, gateway, what to do", .about("apns"))
    func reason() async throws {
        let result = try await Program.run(["explain", "unregistered", "--json"])
        #expect(result.status == 0, "\(result.errors)")
        let guides = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
        let apple = try #require(guides.first { $0["source"] == "apns" })
        #expect(apple["outcome"] == "refused: token" && apple["reason"] == "Unregistered")
        #expect(apple["meaning"]?.stringValue?.contains("no longer installed") == true)
        #expect(apple["gateway"]?.stringValue?.contains("Marks the token invalid") == true)
        #expect(apple["action"]?.stringValue?.isEmpty == false)
        let people = try await Program.run(["explain", "BadDeviceToken"])
        #expect(people.output.contains("quarantined") && people.output.contains("  you "), "\(people.output)")
    }

    @Test("A platform before the reason chooses among several", .about("fcm", "hms"))
    func platform() async throws {
        let both = try await Program.run(["explain", "foreign_answer:x"])
        #expect(both.status == 1)
        let one = try await Program.run(["explain", "fcm:UNAVAILABLE"])
        #expect(one.status == 0 && one.lines.count == 4 && one.output.contains("fcm, refused: platform"))
        #expect(try await Program.run(["explain", "hms:80300007"]).status == 0)
        #expect(try await Program.run(["explain", "hms:UNAVAILABLE"]).status == 1)
    }

    @Test("The present name of a reason is explained as its former one")
    func presentName() async throws {
        func guide(_ reason: String) async throws -> JSONValue {
            let result = try await Program.run(["explain", reason, "--json"])
            #expect(result.status == 0, "\(result.errors)")
            return try JSONValue(parsing: Array(result.output.utf8))
        }
        let (former, present) = (try await guide("invalidations_held"), try await guide("invalidations_quarantined"))
        for member in ["outcome", "meaning", "gateway", "action"] { #expect(former[member] == present[member]) }
        #expect(try await guide("invalidated_before")["gateway"]?.stringValue?.contains("Quarantines") == true)
    }

    @Test("retry names a pause by the present word, whichever the gateway shows")
    func pauses() {
        let answer: JSONValue = [
            "deliveries": 1, "operations": 0, "ended": [],
            "kept": [["pause": "invalidations_held"], ["pause": "invalidations_quarantined"], ["pause": "parked"]],
        ]
        #expect(
            RetryCommand.lines(answer) == [
                "due now: 1 delivery, 0 device operations", "stays: invalidations quarantined",
                "stays: invalidations quarantined", "stays: parked",
            ]
        )
    }

    @Test("An unknown reason ends with 1 and the nearest known one", .about("apns"))
    func unknown() async throws {
        let result = try await Program.run(["explain", "Unregistred"])
        #expect(result.status == 1 && result.errors.contains("Did you mean \"Unregistered\"?"), "\(result.errors)")
    }

    @Test("Without a reason all are listed, each once, with every column")
    func list() async throws {
        let result = try await Program.run(["explain", "--json"])
        let guides = try result.lines.map { try JSONValue(parsing: Array($0.utf8)) }
        #expect(guides.count > (Platforms.missing.isEmpty ? 130 : 30))
        let names = guides.map { "\($0["source"]?.stringValue ?? ""):\($0["reason"]?.stringValue ?? "")" }
        #expect(Set(names).count == names.count)
        for guide in guides {
            for column in ["reason", "source", "outcome", "meaning", "gateway", "action"] {
                #expect(guide[column]?.stringValue?.isEmpty == false, "\(guide.text): \(column)")
            }
        }
        for platform in Platforms.registered.subtracting(["idpush", "release_notes", "gorush"]) {
            #expect(names.contains { $0.hasPrefix("\(platform):") }, "\(platform)")
        }
    }

    @Test("Every reason that the gateway writes of its own is explained")
    func gatewayReasons() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Sources")
            .standardizedFileURL
        var reasons: Set<String> = []
        for folder in [
            "ChaparDelivery/Deliver", "ChaparDelivery/Erasure", "ChaparAPI/Accept", "ChaparComposition",
        ] {
            let walk = FileManager.default.enumerator(atPath: root.appending(path: folder).path)
            for case let file as String in walk?.allObjects ?? [] where file.hasSuffix(".swift") {
                let text = try String(contentsOf: root.appending(path: "\(folder)/\(file)"), encoding: .utf8)
                reasons.formUnion(text.matches(of: /[( ]reason: "([a-z_]+)"/).map { String($0.output.1) })
                if file == "BackendSignal.swift" {
                    reasons.formUnion(
                        text.matches(of: /public static let \w+ = "([a-z_]+)"/).map { String($0.output.1) }
                    )
                }
            }
        }
        #expect(reasons.count > 15)
        let known = Set(GatewayReasons.all.map(\.reason))
        #expect(reasons.subtracting(known).sorted() == [])
    }
}
