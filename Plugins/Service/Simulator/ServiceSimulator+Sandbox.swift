package import ChaparCore
package import ChaparSimulator

extension ServiceSimulator: SimulatedPlatform {
    package var name: String { "http" }

    package var listeners: [(name: String, url: String)] { [("http service", url)] }

    package var files: [SandboxFile] { [] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "service",
                keys: [
                    ("kind", "http"), ("url", .string(url)), ("secret", .string(Self.secret)),
                    ("ca_file", .string(folder.ca)), ("services", ["x-service"]), ("recipients", ["platform_id"]),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try ServiceControl(simulator: self).route(request)
    }
}
