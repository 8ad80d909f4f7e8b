package import ChaparCore
package import ChaparSimulator

extension WebPushSimulator: SimulatedPlatform {
    private static let keyFile = "webpush-vapid.pem"

    package var name: String { "webpush" }

    package var listeners: [(name: String, url: String)] {
        WebPushService.allCases.map { ("webpush \($0.rawValue)", url($0)) }
    }

    package var files: [SandboxFile] {
        [
            SandboxFile(name: Self.keyFile, text: vapidKeyPEM, isSecret: true),
            SandboxFile(
                name: "webpush-subscription.json",
                text: subscription("demo", applicationServerKey: applicationServerKey)
            ),
        ]
    }

    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "browsers",
                keys: [
                    ("kind", "webpush"), ("vapid_key_file", .string(folder.file(Self.keyFile))),
                    ("subject", "mailto:ops@example.com"), ("allow_hosts", .array(hosts.map { .string($0) })),
                    ("navigate", "https://example.com/"), ("ca_file", .string(folder.ca)),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try WebPushControl(simulator: self).route(request)
    }
}
