package import ChaparCore
package import ChaparSimulator

extension ChabokSimulator: SimulatedPlatform {
    package var name: String { "chabok" }

    package var listeners: [(name: String, url: String)] {
        [("chabok sandbox", url(Self.sandbox)), ("chabok production", url(Self.production))]
    }

    package var files: [SandboxFile] { [] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "chabok",
                keys: [
                    ("kind", "chabok"), ("environment", "sandbox"), ("app_id", .string(rules.appID)),
                    ("access_token", .string(rules.accessTokens[Self.sandbox] ?? "")),
                    ("base_url", .string(url(Self.sandbox))), ("ca_file", .string(folder.ca)),
                    ("app_name", "Chapar"), ("probe_interval", 0), ("forward_clicks", true),
                    ("webhook_secret", .string(webhookSecret)), ("allow_broadcast", true),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try ChabokControl(simulator: self).route(request)
    }
}
