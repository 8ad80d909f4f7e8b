package import ChaparCore
public import ChaparSimulator

extension HMSSimulator: SimulatedPlatform {
    /// The backend's name in the configuration that the sandbox writes.
    static let backendName = "huawei"

    package var name: String { "hms" }

    package var listeners: [(name: String, url: String)] {
        [("hms push", url(Self.push)), ("hms token", url(Self.token))]
    }

    package var files: [SandboxFile] { [] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: Self.backendName,
                keys: [
                    ("kind", "hms"), ("app_id", .string(app.appID)), ("client_secret", .string(app.clientSecret)),
                    ("base_url", .string(url(Self.push))), ("token_url", .string(url(Self.token))),
                    ("ca_file", .string(folder.ca)),
                    (
                        "receipts",
                        [
                            "user": .string(callback.user), "secret": .string(callback.secret),
                            "secret_encoding": .string(callback.isBase64 ? "base64" : "raw"),
                        ]
                    ),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try HMSControl(simulator: self).route(request)
    }

    /// Sends receipts to a gateway on this machine that runs the sandbox's configuration.
    public func callBack(gatewayPort: Int) {
        receipts.url = "http://127.0.0.1:\(gatewayPort)/v1/backends/\(Self.backendName)/receipts"
    }
}
