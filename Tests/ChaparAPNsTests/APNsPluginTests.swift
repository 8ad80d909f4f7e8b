import ChaparCore
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("The apns factory in a registry", .timeLimit(.minutes(1)))
struct APNsPluginTests {
    /// A transport that cannot make pools.
    struct BrokenTransport: HTTPTransport {
        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            throw HTTPPoolError("the proxy is no http:// address")
        }
    }

    static func load(_ values: [(String, String)], http: any HTTPTransport) throws -> (
        [String: any PushBackend], [String]
    ) {
        let origin = ConfigOrigin(file: "chapar.yaml", line: 1, column: 1)
        func map(_ pairs: [(String, ConfigNode.Value)]) -> ConfigNode.Value {
            .map(pairs.map { .init(key: $0.0, keyOrigin: origin, node: ConfigNode($0.1, origin: origin)) })
        }
        let node = ConfigNode(map([("ios", map(values.map { ($0.0, .scalar($0.1)) }))]), origin: origin)
        let report = ConfigReport()
        let files = SampleConfiguration(values: [], files: ["AuthKey.p8": sampleKey.pem])
        let section = ConfigSection(node, path: "backends", report: report, files: files)
        let made = try BackendRegistry([.apns]).backends(in: section) { name in
            BackendContext(name: name, http: http, logger: quiet)
        }
        let backends = Dictionary(made.map { ($0.name, $0.backend) }) { first, _ in first }
        return (backends, report.issues.map(\.description))
    }

    static let section = [
        ("kind", "apns"), ("team_id", "TEAM1D2345"), ("key_id", "K3YID12345"), ("key_file", "AuthKey.p8"),
        ("topic", bundleID), ("max_in_flight", "500"),
    ]

    @Test("A section becomes a backend that opens nothing yet")
    func make() throws {
        let transport = ScriptedTransport()
        let (backends, issues) = try Self.load(Self.section, http: transport)
        #expect(issues.isEmpty)
        let backend = try #require(backends["ios"])
        #expect(backend.kind == "apns")
        #expect(
            backend.audience == BackendAudience(services: [.iOSAPNs], forms: [.platformID], environment: .production)
        )
        #expect(transport.calls.isEmpty)
    }

    @Test("A pool that cannot work is an issue of the section")
    func brokenPool() throws {
        let (backends, issues) = try Self.load(Self.section, http: BrokenTransport())
        #expect(backends.isEmpty)
        #expect(issues.count == 1)
        #expect(issues.first?.contains("the proxy is no http:// address") == true)
    }

    @Test("A misspelt key stops the backend and names the nearest")
    func misspelt() throws {
        let (backends, issues) = try Self.load(Self.section + [("enviroment", "sandbox")], http: ScriptedTransport())
        #expect(backends.isEmpty)
        #expect(issues.count == 1)
        #expect(issues.first?.contains("Did you mean \"environment\"?") == true)
    }
}
