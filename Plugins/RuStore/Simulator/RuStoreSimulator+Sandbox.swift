package import ChaparCore
package import ChaparSimulator

extension RuStoreSimulator: SimulatedPlatform {
    package var name: String { "rustore" }

    package var listeners: [(name: String, url: String)] {
        RuStoreListener.allCases.map { ("rustore \($0.rawValue)", url($0)) }
    }

    package var files: [SandboxFile] { [] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        RuStoreListener.allCases.map { listener in
            SandboxBackend(
                name: listener == .direct ? "rustore" : "rustore-universal",
                keys: [
                    ("kind", "rustore"), ("mode", .string(listener.rawValue)), ("project_id", .string(projectID)),
                    ("service_token", .string(serviceToken)), ("base_url", .string(url(listener))),
                    ("ca_file", .string(folder.ca)),
                ]
            )
        }
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try RuStoreControl(simulator: self).route(request)
    }
}
