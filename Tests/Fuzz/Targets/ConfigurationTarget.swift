import Foundation
import Logging
import ChaparAPNs
import ChaparAltcraft
import ChaparChabok
import ChaparCore
import ChaparComposition
import ChaparFCM
import ChaparGateway
import ChaparHMS
import ChaparIDPush
import ChaparOneSignal
import ChaparRuStore
import ChaparService
import ChaparTesting
import ChaparWebPush

extension FuzzTarget {
    /// A configuration file: it is in order, or every mistake has a place and words.
    static let configuration = FuzzTarget.prepared("configuration") { body in
        let registry = try BackendRegistry([
            .apns, .fcm, .hms, .ruStore, .oneSignal, .idPush(sender: .oneSignal), .altcraft, .chabok, .service,
            .webPush,
        ])
        try await body { bytes in
            guard !mayRunPrograms(bytes) else { return }
            let loader = ConfigurationLoader(registry: registry, environment: ["SECRET": "s3cret-of-24-bytes-or-so"])
            let result = Result { () throws(ConfigurationError) in
                try loader.load(text: bytes, name: "fuzz.yaml", folder: "/nowhere") { name in
                    BackendContext(name: name, http: ScriptedTransport(), time: InstantTime(), logger: .silent)
                }
            }
            switch result {
            case .success(let loaded):
                try require(
                    loaded.configuration.routes.allSatisfy { !$0.plan.backends.isEmpty },
                    "every route leads somewhere"
                )
            case .failure(let error):
                try require(!error.issues.isEmpty, "an error names a mistake")
                try require(error.issues.allSatisfy { !$0.problem.isEmpty }, "every mistake has words")
                try require(!"\(error)".contains("s3cret"), "no mistake shows a secret")
            }
        }
    }

    /// Whether a text might name a program to run, `encryption.key.command`: no mutation must get to start one.
    ///
    /// Without the escapes that stand for letters, the key can only be written as it is.
    private static func mayRunPrograms(_ bytes: [UInt8]) -> Bool {
        let text = String(decoding: bytes, as: UTF8.self)
        return ["command", "\\x", "\\u", "\\U", "\\\n", "\\\r", "\0"].contains { text.contains($0) }
    }
}

extension Logger {
    /// Reports to no observer.
    static let silent = Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }
}
