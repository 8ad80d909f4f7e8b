import Foundation
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Testing

@testable import ChaparFCM

@Suite("The fcm section of a configuration file", .timeLimit(.minutes(1)))
struct FCMOptionsTests {
    static let keyFile =
        (try? FCMServiceAccountKey(projectID: "courier-demo").json(tokenURI: "https://oauth2.googleapis.com/token"))
        ?? ""
    static let user = #"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}"#
    static let files = ["firebase.json": keyFile, "user.json": user, "broken.json": #"{"type":"service_account"}"#]

    static func read(_ values: [(String, String)]) -> (options: FCMOptions?, issues: [String]) {
        SampleConfiguration(values: values, files: files).read()
    }

    @Test("One line is enough, and means Google's own hosts")
    func minimal() throws {
        let (options, issues) = Self.read([("service_account_file", "firebase.json")])
        #expect(issues.isEmpty)
        let read = try #require(options)
        #expect(read.endpoint.description == "https://fcm.googleapis.com")
        #expect(read.instanceIDEndpoint?.description == "https://iid.googleapis.com")
        #expect(read.projectID == "courier-demo")
        #expect(read.common.timeout == .seconds(15))
    }

    @Test("The key can come as a secret, the project can be another, a simulator replaces every host")
    func variants() throws {
        #expect(Self.read([("service_account", Self.keyFile)]).options?.projectID == "courier-demo")
        let other = Self.read([("service_account_file", "firebase.json"), ("project_id", "other-1")])
        #expect(other.options?.sendPath == "/v1/projects/other-1/messages:send")
        let person = Self.read([("authorized_user_file", "user.json"), ("project_id", "other-1")])
        #expect(person.issues.isEmpty)
        let simulator = Self.read([("service_account_file", "firebase.json"), ("base_url", "https://127.0.0.1:9443")])
        #expect(simulator.options?.endpoint.description == "https://127.0.0.1:9443")
        #expect(simulator.options?.instanceIDEndpoint == nil, "topics must not be changed at Google by accident")
    }

    @Test("Old devices are left out and quarter hours avoided at Google, unless told otherwise")
    func advice() throws {
        let key = ("service_account_file", "firebase.json")
        let plain = try #require(Self.read([key]).options)
        #expect(plain.staleAfter == .seconds(270 * 86_400) && plain.spreadsQuarterHours)
        let simulator = try #require(Self.read([key, ("base_url", "https://127.0.0.1:9443")]).options)
        #expect(!simulator.spreadsQuarterHours)
        let own = try #require(
            Self.read([key, ("stale_after", "2592000"), ("avoid_quarter_hours", "false")]).options
        )
        #expect(own.staleAfter == .seconds(2_592_000) && !own.spreadsQuarterHours)
        #expect(Self.read([key, ("stale_after", "0")]).options?.staleAfter == nil)
        #expect(Self.read([key, ("stale_after", "-1")]).issues.count == 1)
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        var values: [(String, String)]
        var issue: String
        var testDescription: String { issue }
    }

    static let mistakes: [Mistake] = [
        Mistake(
            values: [],
            issue: "service_account_file: is missing. Write the path of the service account's key file"
        ),
        Mistake(values: [("service_account_file", "none.json")], issue: "service_account_file: cannot be read"),
        Mistake(
            values: [("service_account_file", "broken.json")],
            issue: "service_account_file: project_id is missing. Use the service_account file as Google gave it out."
        ),
        Mistake(
            values: [("service_account_file", "user.json")],
            issue:
                "service_account_file: type is authorized_user, not service_account. Name this file under authorized_user_file."
        ),
        Mistake(
            values: [("server_key", "AAAA")],
            issue: "server_key: belongs to the legacy API, which Google shut down in July 2024"
        ),
        Mistake(
            values: [("service_account_file", "firebase.json"), ("authorized_user_file", "user.json")],
            issue: "authorized_user_file: stands beside service_account_file. Keep one of the two."
        ),
        Mistake(values: [("authorized_user_file", "user.json")], issue: "project_id: is missing"),
        Mistake(
            values: [("service_account_file", "firebase.json"), ("project_id", "My App")],
            issue: "project_id: \"My App\" is not a project's id"
        ),
        Mistake(
            values: [("service_account_file", "firebase.json"), ("timeout", "5")],
            issue: "timeout: \"5\" is not a number of seconds from 10 to 300"
        ),
        Mistake(
            values: [("service_account_file", "firebase.json"), ("base_url", "http://127.0.0.1:1")],
            issue: "base_url: FCM speaks TLS only"
        ),
        Mistake(
            values: [("service_account_file", "firebase.json"), ("analytics_label", "two words")],
            issue: "analytics_label: \"two words\" is no label"
        ),
        Mistake(
            values: [("service_acount_file", "firebase.json")],
            issue: "service_acount_file: unknown key. Did you mean \"service_account_file\"?"
        ),
    ]

    @Test("Each mistake is named with the way out", arguments: mistakes)
    func mistake(row: Mistake) {
        let (_, issues) = Self.read(row.values)
        #expect(issues.contains { $0.hasPrefix(row.issue) }, "\(issues)")
    }

    @Test("A section becomes a backend that opens nothing yet, at Google's pace")
    func factory() throws {
        let transport = ScriptedTransport()
        let section = SampleConfiguration(
            values: [("service_account_file", "firebase.json")],
            files: Self.files
        ).section
        let context = BackendContext(name: "android", http: transport, logger: quiet)
        let backend = try #require(BackendFactory.fcm.make(section, context))
        #expect(backend.kind == "fcm")
        let services: Set<TokenService> = [.androidFirebase, .iOSFirebase, .webFirebase, .anyFirebase]
        #expect(backend.audience == BackendAudience(services: services, forms: [.topic]))
        #expect(backend.pacing == .perMinute(600_000, rampUp: .seconds(60)))
        #expect(transport.calls.isEmpty)
        #expect(
            Set(transport.configurations.map(\.endpoint.host)) == [
                "fcm.googleapis.com", "iid.googleapis.com", "oauth2.googleapis.com",
            ]
        )
    }

    @Test("A key's text is in no description")
    func secrets() throws {
        let options = try #require(Self.read([("authorized_user_file", "user.json"), ("project_id", "p")]).options)
        var text = ""
        dump(options, to: &text)
        #expect(!text.contains("\"r\""))
    }
}
