package import ChaparCore
package import ChaparSimulator

extension FCMSimulator: SimulatedPlatform {
    package var name: String { "fcm" }

    package var listeners: [(name: String, url: String)] {
        FCMListener.allCases.map { ("fcm \($0.rawValue)", url($0)) }
    }

    package var files: [SandboxFile] { [SandboxFile(name: account.fileName, text: credentialsFile, isSecret: true)] }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "android",
                keys: [
                    ("kind", "fcm"), ("service_account_file", .string(folder.file(account.fileName))),
                    ("base_url", .string(url(.send))), ("iid_url", .string(url(.instanceID))),
                    ("ca_file", .string(folder.ca)),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try FCMControl(simulator: self).route(request)
    }
}
