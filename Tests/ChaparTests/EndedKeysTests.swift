import Foundation
import ChaparCore
import ChaparGateway
import Testing

@testable import ChaparCommands

@Suite("API keys that end", .timeLimit(.minutes(2)))
struct EndedKeysTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)

    /// Keys that end so many days from now.
    private static func findings(_ days: [Double?]) -> [Diagnosis] {
        let keys = days.enumerated().map { place, days in
            GatewayConfiguration.APIKey(
                name: "k\(place)",
                hashes: [],
                scopes: [.send],
                notAfter: days.map { now + $0 * 86_400 }
            )
        }
        return HostChecks.keys(keys, at: now)
    }

    @Test(
        "The doctor warns for the last 30 days and afterwards, and fails when none opens any more",
        arguments: [
            ([], []), ([nil], []), ([40], [.ok]), ([nil, 29.5], [.warning]), ([40, -1], [.warning]),
            ([10, -1, nil], [.warning, .warning]), ([-1], [.failure]), ([-1, -400], [.failure]),
        ] as [([Double?], [Diagnosis.Verdict])]
    )
    func verdicts(days: [Double?], expected: [Diagnosis.Verdict]) {
        let found = Self.findings(days)
        #expect(found.map(\.verdict) == expected)
        #expect(found.allSatisfy { $0.verdict == .ok || $0.fix?.contains("SIGHUP") == true })
    }

    @Test("A warning names the key and the time")
    func words() {
        #expect(Self.findings([nil, 29.5])[0].finding.hasPrefix("the key \"k1\" ends in 29 days, on 2027-02-"))
        let ended = "the key \"k1\" ended on 2027-01-14T08:00:00.000Z: who has it gets 401"
        #expect(Self.findings([nil, -1])[0].finding == ended)
    }

    @Test("check warns of a key that has ended, and doctor fails when it is the only one")
    func commands() async throws {
        let folder = try TestFolder()
        defer { folder.remove() }
        let hash = String(repeating: "a", count: 64)
        let file = try folder.write(
            """
            server: { port: 0 }
            auth: { api_keys: [ { name: shop, hash: "sha256:\(hash)", scopes: [send], not_after: 2020-01-31 } ] }
            backends: {}
            """,
            to: "chapar.yaml"
        )
        let check = try await Program.run(["check", "--json", "--config", file])
        #expect(check.status == 0, "\(check)")
        let warning = try JSONValue(parsing: Array(check.output.utf8))["warnings"]?.arrayValue?.first
        #expect(warning?["path"] == "auth.api_keys[0].not_after", "\(check)")
        #expect(warning?["problem"]?.stringValue?.hasPrefix("the key \"shop\" ended on 2020-01-31") == true, "\(check)")
        let doctor = try await Program.run(["doctor", "--config", file])
        #expect(doctor.status == 1 && doctor.output.contains("host API keys: all API keys have ended"), "\(doctor)")
    }
}
