package import ChaparCore
package import ChaparSimulator

extension APNsSimulator: SimulatedPlatform {
    /// The app that the written configuration sends to.
    package static let topic = "com.example.chapar"

    package var name: String { "apns" }

    package var listeners: [(name: String, url: String)] {
        APNsListener.allCases.map { ("apns \($0.rawValue)", url($0)) }
    }

    package var files: [SandboxFile] { [SandboxFile(name: key.fileName, text: key.pem, isSecret: true)] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "ios",
                keys: [
                    ("kind", "apns"), ("team_id", .string(key.teamID)), ("key_id", .string(key.keyID)),
                    ("key_file", .string(folder.file(key.fileName))), ("topic", .string(Self.topic)),
                    ("environment", "production"), ("base_url", .string(url(.production))),
                    ("manage_url", .string(url(.productionManagement))),
                    ("ca_file", .string(folder.ca)),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try APNsControl(simulator: self).route(request)
    }
}
