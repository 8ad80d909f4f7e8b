import Foundation
import Logging
import ChaparCore
import ChaparModules
import ChaparQueue
import ChaparTesting
import Synchronization

@testable import ChaparReleaseNotes

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

extension ReleaseVersion {
    /// A version of a test.
    static func of(_ text: String) -> ReleaseVersion { ReleaseVersion(text) ?? ReleaseVersion(major: 0) }
}

extension ReleaseNotes {
    /// The list of the specification's examples.
    static let sample = ReleaseNotes([
        .init(.of("1.3.2"), ["First public version"]), .init(.of("1.10"), ["Faster search"]),
        .init(.of("1.4.0"), ["Dark theme", "Fixes"]),
    ])
}

extension NotesView {
    /// A view of a list, with what's new in the current version.
    static func sample(
        _ notes: ReleaseNotes = .sample,
        current: String = "1.4.0",
        isRightToLeft: Bool = false,
        whatsNew: String? = "What's new in",
        adjust: (inout NotesView) -> Void = { _ in }
    ) -> NotesView {
        var style = NotesStyle()
        style.isRightToLeft = isRightToLeft
        style.whatsNew = whatsNew.map { NotesStyle.WhatsNew(text: $0, textColor: .name("label")) }
        let language = isRightToLeft ? "fa" : "en"
        var view = NotesView(notes, style: style, current: .of(current), language: language, appName: "Shop")
        adjust(&view)
        return view
    }
}

/// A document that a test can change under a library's feet.
final class Paper: Sendable {
    private let text: Mutex<String?>
    init(_ text: String?) { self.text = Mutex(text) }

    func write(_ text: String?) { self.text.withLock { $0 = text } }

    func file(_ name: String) -> ConfigFile {
        ConfigFile(name: name) { [self] in
            guard let text = text.withLock({ $0 }) else { throw Missing() }
            return Array(text.utf8)
        }
    }

    struct Missing: Error, CustomStringConvertible { let description = "no such file" }
}

/// A gateway of a test: devices, what was accepted, and what became of it.
final class FakeGate: ModuleGate {
    struct Contents {
        var devices: [Device] = []
        var accepted: [(request: JSONObject, key: String, id: NotificationID)] = []
        var states: [String: DeliveryState] = [:]
        var refusal: PushError?
        /// The keys whose requests are refused, and those of all requests.
        var refusedKeys: Set<String> = []
        var offeredKeys: [String] = []
    }

    let contents = Mutex(Contents())
    let backends = ["ios", "android"]

    init(versions: [String?] = []) {
        contents.withLock { contents in
            contents.devices = versions.enumerated().map { number, version in
                let service: TokenService = number % 2 == 0 ? .iOSAPNs : .androidFirebase
                return Device(
                    id: "d\(number)",
                    tokens: [RegisteredToken(DeviceToken("t\(number)", service: service), registeredAt: .now)],
                    appVersion: version,
                    createdAt: .now
                )
            }
        }
    }

    var accepted: [(request: JSONObject, key: String, id: NotificationID)] { contents.withLock { $0.accepted } }
    /// The devices of everything that was accepted, in order.
    var reached: [String] {
        accepted.flatMap { ($0.request["to"]?["devices"]?.arrayValue ?? []).compactMap(\.stringValue) }
    }

    func devices(of app: String, after cursor: DeviceCursor?, limit: Int) async throws(PushError) -> DevicePage {
        contents.withLock { contents in
            let start = Int(cursor?.rawValue ?? 0)
            let end = min(start + min(limit, 2), contents.devices.count)  // Small pages, so that there are several.
            let next = end < contents.devices.count ? DeviceCursor(rawValue: Int64(end)) : nil
            return DevicePage(Array(contents.devices[start..<end]), next: next)
        }
    }

    func backend(for device: Device, among names: [String]?) -> String? {
        let own = device.liveToken(of: .iOSAPNs) == nil ? "android" : "ios"
        return (names ?? backends).contains(own) ? own : nil
    }

    func accept(_ notification: JSONObject, idempotencyKey: String) async throws(PushError) -> NotificationID {
        // As a gateway does: the same key gives the first answer again.
        let result = contents.withLock { contents -> Result<NotificationID, PushError> in
            contents.offeredKeys.append(idempotencyKey)
            if let refusal = contents.refusal { return .failure(refusal) }
            if contents.refusedKeys.contains(idempotencyKey) { return .failure(PushError(.invalidRequest, "refused")) }
            if let known = contents.accepted.first(where: { $0.key == idempotencyKey }) { return .success(known.id) }
            let id = NotificationID(rawValue: Int64(1000 + contents.accepted.count))
            contents.accepted.append((notification, idempotencyKey, id))
            return .success(id)
        }
        return try result.get()
    }

    func states(of notification: NotificationID) async throws(PushError) -> [String: DeliveryState] {
        contents.withLock { $0.states }
    }

    // Release notes send one notification at a time and wait for none.
    func accept(
        _ notifications: [JSONObject],
        idempotencyKey: String?,
        request: [UInt8]
    ) async throws(ModuleProblem) -> [ModuleAcceptance] { [] }

    func outcomes(
        of notifications: [NotificationID],
        within span: Duration
    ) async throws(PushError) -> [NotificationID: [ModuleDelivery]] { [:] }

    func problem(with token: DeviceToken) -> String? { nil }

    func metrics() async -> String { "" }
}

/// A module over documents of a test.
struct Harness {
    let module: NotesModule
    let gate: FakeGate
    let english: Paper
    let persian: Paper
    let time: InstantTime
    let state: MemoryState

    static let documented = """
        {"items":[{"number":"1.4.0","changes":[" Dark theme ","Fixes"]},{"number":"1.10","changes":["Faster search"]},
        {"number":"1.3.2","changes":["First public version"]}]}
        """
    static let persianText = """
        [{"number":"1.4.0","changes":["پوستهٔ تیره"]},{"number":"1.3.2","changes":["نخستین نسخه"]}]
        """

    init(versions: [String?] = [], state: MemoryState = MemoryState(), adjust: (inout NotesApp) -> Void = { _ in }) {
        english = Paper(Self.documented)
        persian = Paper(Self.persianText)
        time = InstantTime()
        self.state = state
        gate = FakeGate(versions: versions)
        var app = NotesApp(
            id: "shop",
            name: "Shop",
            current: .of("1.4.0"),
            sources: ["en": english.file("Versions-EN.json"), "fa": persian.file("Versions-FA.json")],
            defaultLanguage: "en"
        )
        adjust(&app)
        let context = BackendContext(
            name: "release_notes",
            http: ScriptedTransport(),
            time: time,
            state: state,
            logger: quiet
        )
        module = NotesModule(NotesOptions(apps: [app], publicURL: "https://push.example.com"), context: context)
    }

    func get(_ path: String, _ query: [String: String] = [:], headers: [HTTPHeader] = []) async throws(ModuleProblem)
        -> ModuleAnswer
    {
        try await module.answer(
            ModuleRequest(method: "GET", path: "/v1/apps/" + path, query: query, headers: headers),
            through: gate
        )
    }

    func post(_ path: String, _ body: JSONValue) async throws(ModuleProblem) -> ModuleAnswer {
        try await module.answer(
            ModuleRequest(method: "POST", path: "/v1/apps/" + path, body: body.bytes),
            through: gate
        )
    }

    /// The problem of a call that fails.
    func problem(_ body: () async throws(ModuleProblem) -> ModuleAnswer) async -> ModuleProblem? {
        do throws(ModuleProblem) {
            _ = try await body()
            return nil
        } catch {
            return error
        }
    }
}

extension ModuleAnswer {
    var text: String { String(decoding: body, as: UTF8.self) }
    var json: JSONValue { (try? JSONValue(parsing: body)) ?? .null }
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}
