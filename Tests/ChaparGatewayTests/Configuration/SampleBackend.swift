import ChaparCore
import ChaparGateway

/// A backend that only exists in configuration tests.
struct SampleBackend: PushBackend {
    let kind: BackendKind = "sample"
    let audience: BackendAudience
    let token: Secret?
    let label: String

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {}

    static let factory = BackendFactory("sample", summary: "A sample for tests.") { section, _ in
        let token = section.secret("token")
        let label = section.string("label", default: "none")
        _ = section.file("note_file")
        if token == nil, !section.has("token") { section.missing("token", "the sample's token") }
        let audience = section.has("mute") ? BackendAudience() : BackendAudience(services: [.iOSAPNs])
        _ = section.string("mute")
        return SampleBackend(audience: audience, token: token, label: label)
    }
}

/// A transport that nothing is sent through.
struct NoTransport: HTTPTransport {
    func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        throw HTTPPoolError("nothing is sent in these tests")
    }
}

extension ConfigurationLoader {
    /// A loader that knows the kind `sample` and a small environment.
    static func sample() throws -> ConfigurationLoader {
        ConfigurationLoader(
            registry: try BackendRegistry([SampleBackend.factory]),
            environment: [
                "SAMPLE_TOKEN": "planted-secret-value", "EMPTY": "", "PORT": "9090", "PORT_WORD": "eighty-eighty",
            ]
        )
    }

    func load(_ text: String, folder: String = "") throws(ConfigurationError) -> LoadedConfiguration {
        try load(text: Array(text.utf8), name: "test.yaml", folder: folder) { .sample($0) }
    }
}

extension BackendContext {
    static func sample(_ name: String) -> BackendContext {
        BackendContext(name: name, http: NoTransport(), logger: quiet)
    }
}
