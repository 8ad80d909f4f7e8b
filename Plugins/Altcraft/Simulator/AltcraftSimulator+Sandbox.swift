internal import Crypto
internal import ChaparCore

/// A key that the sandbox makes up; its private half goes into a file for the gateway.
struct SandboxSigningKey: Sendable {
    private let key = P256.Signing.PrivateKey()

    var privatePEM: String { key.pemRepresentation }
    var publicPEM: String { key.publicKey.pemRepresentation }
}

extension AltcraftSimulator: SimulatedPlatform {
    private static let keyFile = "altcraft.pem"

    var name: String { "altcraft" }

    var listeners: [(name: String, url: String)] { [("altcraft api", url)] }

    var files: [SandboxFile] { [SandboxFile(name: Self.keyFile, text: signingKey.privatePEM, isSecret: true)] }

    /// Returns a backend whose JWTs the gateway signs: users in database 12, devices without a user in database 11.
    func backends(in folder: SandboxFolder) -> [SandboxBackend] {
        [
            SandboxBackend(
                name: "crm",
                keys: [
                    ("kind", "altcraft"), ("api_url", .string(url)), ("ca_file", .string(folder.ca)),
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

    /// | call | does |
    /// | --- | --- |
    /// | `GET /` | says where it listens |
    /// | `GET /profiles` | all profiles with their fields and subscriptions |
    /// | `GET /events` | the deliveries and openings that were told |
    /// | `GET /launches` | the campaigns that were started |
    /// | `GET /counters` | what happened |
    ///
    /// and those of ``HostControl``.
    func control(_ request: ControlRequest) throws(ControlError) -> JSONValue {
        let words = FaultVocabulary(listeners: [Self.pixel], foldsTokens: false)
        let common = HostControl(host: host, words: words)
        if let answer = try common.route(request) { return answer }
        switch (request.method, request.path) {
        case ("GET", "/"): return ["api": .string(url)]
        case ("GET", "/profiles"): return ["profiles": .array(profiles.map(\.json))]
        case ("GET", "/events"):
            let list = events.map { event -> JSONValue in
                [
                    "smid": .string(event.smid), "type": .string(event.type), "time": .integer(event.time),
                    "count": .integer(Int64(event.count)),
                ]
            }
            return ["events": .array(list)]
        case ("GET", "/launches"):
            let list = launches.map { launch -> JSONValue in
                ["request": .object(launch.request), "reached": .integer(Int64(launch.reached))]
            }
            return ["launches": .array(list)]
        case ("GET", "/counters"):
            var object = host.counters.json
            object["api_requests"] = .integer(Int64(counters.requests))
            object["refused"] = .integer(Int64(counters.refused))
            return .object(object)
        default: throw ControlError("no such call: \(request.method) \(request.path)", status: 404)
        }
    }
}

extension AltcraftProfile {
    fileprivate var json: JSONValue {
        let list = subscriptions.map { entry -> JSONValue in
            var object = entry.json.objectValue ?? JSONObject()
            object["received"] = .array(entry.received.map { .string($0) })
            return .object(object)
        }
        return [
            "id": .string(id), "db_id": .integer(databaseID), "key": key.map { .string($0) } ?? .null,
            "fields": .object(fields), "subscriptions": .array(list),
        ]
    }
}
