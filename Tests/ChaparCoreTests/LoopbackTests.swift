import Foundation
import ChaparCore
import ChaparTesting
import Testing

@Suite("Which hosts are this machine")
struct LoopbackTests {
    static let hosts: [(String, Bool)] = [
        ("localhost", true), ("LocalHost", true), ("127.0.0.1", true), ("127.9.8.7", true), ("127.255.255.255", true),
        ("::1", true), ("0:0:0:0:0:0:0:1", true), ("::ffff:127.0.0.1", true),
        // Names, which any owner of a domain can register.
        ("127.evil.example", false), ("127.0.0.1.evil.example", false), ("127.0.0.1.", false), ("localhost.", false),
        ("localhost.evil.example", false), ("evil-localhost", false), ("127", false), ("127.1", false),
        ("127.0.0", false), ("127.0.0.256", false), ("127.0.0.1x", false), ("127.+0.0.1", false),
        ("127.0.0.1.1", false),
        ("127.0.0.1\u{0}.evil.example", false), ("127.٠.٠.١", false), ("", false), ("[::1]", false),
        // Other addresses.
        ("0.0.0.0", false), ("128.0.0.1", false), ("10.127.0.0", false), ("::", false), ("::2", false),
        ("::ffff:10.0.0.1", false), ("fe80::1", false), ("::1.evil.example", false),
    ]

    @Test("is decided by parsed addresses, never by how a name begins", arguments: hosts)
    func host(text: String, isLoopback: Bool) {
        #expect(Loopback.contains(host: text) == isLoopback)
    }

    @Test(
        "decides where a configuration may say http",
        arguments: [
            ("http://127.0.0.1:8080/", true), ("http://localhost/", true), ("http://LOCALHOST/", true),
            ("http://[::1]:8080/", true), ("http://127.evil.example/", false),
            ("http://127.0.0.1.evil.example/", false),
            ("http://localhost./", false), ("https://127.evil.example/", true),
        ]
    )
    func baseURL(url: String, isTaken: Bool) {
        let report = ConfigReport()
        let section = ConfigSection(
            ConfigNode(["base_url": .string(url)]),
            path: "backends.own",
            report: report,
            files: NoFilesHere()
        )
        #expect((section.baseURL("base_url") != nil) == isTaken)
        #expect(report.issues.isEmpty == isTaken)
    }

    @Test(
        "decides which requests come from its own programs",
        arguments: [
            ("localhost:8080", true), ("127.0.0.1", true), ("127.3.2.1:80", true), ("[::1]:80", true),
            ("page.localhost", true), ("127.evil.example", false), ("127.0.0.1.evil.example:80", false),
            ("[::2]", false), ("", false),
        ]
    )
    func origin(authority: String, isOurs: Bool) {
        let rule = LocalOrigin(host: "127.0.0.1")
        #expect((rule.refusal(host: authority, origin: nil, fetchSite: nil) == nil) == isOurs)
    }
}

private struct NoFilesHere: ConfigFileReader {
    func contents(of path: String) throws -> [UInt8] { throw CocoaError(.fileNoSuchFile) }
}
