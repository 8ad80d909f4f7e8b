// A platform of one's own: a backend, its factory, and a configuration file that chooses it by its kind.
// `swift run CustomPlugin`
import Logging
import PushCore
import PushGateway
import PushHTTP

/// A platform that prints messages; a real one would call `context.http`.
struct ConsoleBackend: PushBackend {
    let kind: BackendKind = "console"
    let audience = BackendAudience(services: [.androidFirebase])
    let prefix: String

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (place, request) in requests.enumerated() {
            let reports = request.recipients.enumerated().map { number, addressee in
                let text = request.notification.body?.resolved(for: addressee.language) ?? ""
                print("\(prefix) \(addressee.recipient.storedForm): \(text)")
                let acceptance = Acceptance(platformID: addressee.messageID.description)
                return DeliveryReport(request: place, recipient: number, outcome: .accepted(acceptance))
            }
            report(reports)
        }
    }
}

extension BackendFactory {
    /// Reads the key `prefix`; keys that nobody asked for become mistakes by themselves.
    static let console = BackendFactory("console", summary: "Prints messages.") { section, _ in
        ConsoleBackend(prefix: section.string("prefix", default: ">"))
    }
}

@main
enum CustomPlugin {
    static func main() async throws {
        let logger = Logger(label: "example")
        let http = NIOTransport(logger: logger)
        let loader = ConfigurationLoader(registry: try BackendRegistry([.console]))
        let file = "backends: { screen: { kind: console, prefix: \"push →\" } }"
        let loaded = try loader.load(text: Array(file.utf8), name: "example.yaml", folder: ".") {
            BackendContext(name: $0, http: http, logger: logger)
        }
        for configured in loaded.backends {
            let recipient = Recipient.token(DeviceToken("token-1", service: .androidFirebase))
            let outcomes = await configured.backend.send(PushNotification(body: "Hello"), to: [recipient])
            print(configured.name, outcomes.count == 1 ? "reported every recipient" : "broke its promise")
        }

        // A mistake in the file is told with its place and the nearest key.
        let wrong = "backends: { screen: { kind: consol, prefix: x } }"
        do {
            _ = try loader.load(text: Array(wrong.utf8), name: "wrong.yaml", folder: ".") {
                BackendContext(name: $0, http: http, logger: logger)
            }
        } catch {
            print(error)
        }
    }
}
