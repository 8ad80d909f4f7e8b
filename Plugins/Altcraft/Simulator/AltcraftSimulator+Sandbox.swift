internal import Crypto
package import ChaparCore
package import ChaparSimulator

/// A key that the sandbox makes up; its private half goes into a file for the gateway.
struct SandboxSigningKey: Sendable {
    private let key = P256.Signing.PrivateKey()

    var privatePEM: String { key.pemRepresentation }
    var publicPEM: String { key.publicKey.pemRepresentation }
}

extension AltcraftSimulator: SimulatedPlatform {
    private static let keyFile = "altcraft.pem"

    /// Accepts JWTs of the sandbox's own key, unless the rules name others.
    package func acceptOwnKey() {
        if rules.publicKeysPEM.isEmpty { rules.publicKeysPEM = [signingKey.publicPEM] }
    }

    package var name: String { "altcraft" }

    package var listeners: [(name: String, url: String)] { [("altcraft api", url)] }

    package var files: [SandboxFile] { [SandboxFile(name: Self.keyFile, text: signingKey.privatePEM, isSecret: true)] }

    /// Returns a backend whose JWTs the gateway signs: users in database 12, devices without a user in database 11.
    package func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "crm",
                keys: [
                    ("kind", "altcraft"), ("api_url", .string(url)), ("ca_file", .string(folder.ca)),
                    ("pixel", .string(rules.pixels.min() ?? "")),
                    (
                        "auth",
                        [
                            "kind": "jwt", "provider": "sign", "alg": "ES256",
                            "key_file": .string(folder.file(Self.keyFile)), "db_id": 12, "matching": "custom",
                            "field_name": "user_id",
                            "anonymous": ["db_id": 11, "matching": "custom", "field_name": "device_id"],
                        ]
                    ),
                    (
                        "campaign",
                        [
                            "url": .string(url), "api_token": .string(rules.apiToken), "trigger_id": 13,
                            "matching": "custom", "field_name": "user_id",
                        ]
                    ),
                ]
            )
        ]
    }

    package func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        try AltcraftControl(simulator: self).route(request)
    }
}
