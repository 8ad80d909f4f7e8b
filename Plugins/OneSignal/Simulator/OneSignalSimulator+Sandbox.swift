package import ChaparCore
package import ChaparSimulator

extension OneSignalSimulator: SimulatedPlatform {
    package var name: String { "onesignal" }

    package var listeners: [(name: String, url: String)] {
        [("onesignal api", apiURL), ("onesignal idpush", idPushURL)]
    }

    package var files: [SandboxFile] { [] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        let rules = rules
        let app: JSONObject = [
            "app_id": .string(rules.appID), "api_key": .string(rules.apiKey ?? ""), "base_url": .string(apiURL),
            "ca_file": .string(folder.ca), "allow_broadcast": true,
        ]
        var campaigns = SandboxBackend(name: "campaigns", keys: [("kind", "onesignal")])
        campaigns.keys += app.map { (key: $0.name, value: $0.value) }
        let idPush = SandboxBackend(
            name: "idpush",
            keys: [
                ("kind", "idpush"), ("project_id", .string(rules.projectID)), ("base_url", .string(idPushURL)),
                ("ca_file", .string(folder.ca)), ("onesignal", .object(app)),
            ]
        )
        return [campaigns, idPush]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try OneSignalControl(simulator: self).route(request)
    }
}
