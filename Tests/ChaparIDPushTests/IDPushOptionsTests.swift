import Foundation
import OneSignalBench
import ChaparCore
import ChaparIDPush
import ChaparOneSignal
import ChaparOneSignalDevices
import ChaparTesting
import Testing

/// The section of a configuration file, with and without what sends.
@Suite("IDPush: the section")
struct IDPushOptionsTests {
    private struct Files: ConfigFileReader {
        func contents(of path: String) throws -> [UInt8] { Array("os_v2_app_file\n".utf8) }
    }

    private func read(
        _ section: JSONValue,
        sender: OneSignalSenderFactory? = .oneSignal
    ) throws -> (backend: IDPushBackend?, issues: [String]) {
        let report = ConfigReport()
        let registry = try BackendRegistry([.idPush(sender: sender)])
        let all = ConfigSection(ConfigNode(["campaigns": section]), report: report, files: Files())
        let backends = registry.backends(in: all) { name in
            BackendContext(name: name, http: ScriptedTransport(), time: SystemTime(), logger: quiet)
        }
        #expect(!report.settings.contains { $0.value?.contains("os_v2_app") ?? false })
        return (backends.first?.backend as? IDPushBackend, report.issues.map { "\($0.path): \($0.problem)" })
    }

    static let app: JSONValue = "8B6F0C2E-1F57-4A0D-B1F4-6F1A9D3C5E77"
    static let oneSignal: JSONValue = ["app_id": app, "api_key": "os_v2_app_x"]

    @Test("A backend sends where its section names a OneSignal app, else it registers only")
    func sections() throws {
        let whole = try read(["kind": "idpush", "project_id": " p ", "onesignal": Self.oneSignal])
        #expect(whole.backend?.sender is OneSignalBackend, "\(whole.issues)")
        let bare = try read(["kind": "idpush", "project_id": "p"])
        #expect(bare.backend != nil && bare.backend?.sender == nil)
    }

    @Test("A program without OneSignal does not know the key, and registers")
    func withoutSender() throws {
        let nested = try read(["kind": "idpush", "project_id": "p", "onesignal": Self.oneSignal], sender: nil)
        #expect(nested.backend == nil && nested.issues == ["campaigns.onesignal: unknown key"])
        let bare = try read(["kind": "idpush", "project_id": "p"], sender: nil)
        #expect(bare.backend != nil && bare.backend?.sender == nil)
    }

    static let mistakes: [(JSONValue, String)] = [
        (["kind": "idpush"], "campaigns.project_id: is missing"),
        (["kind": "idpush", "project_id": "  "], "campaigns.project_id: is empty"),
        (
            ["kind": "idpush", "project_id": "p", "onesignal": ["app_id": "x", "api_key": "k"]],
            "campaigns.onesignal.app_id: is not a UUID"
        ),
        (
            ["kind": "idpush", "project_id": "p", "onesignal": ["app_id": app, "api_key": "k", "x": 1]],
            "campaigns.onesignal.x: unknown key"
        ),
    ]

    @Test("A mistake is named with its path", arguments: mistakes)
    func namesMistake(section: JSONValue, expected: String) throws {
        let (backend, issues) = try read(section)
        #expect(issues.contains(expected), "\(issues)")
        #expect(backend == nil)
    }
}
