internal import Crypto
internal import CryptoExtras
internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Reads credentials as Altcraft does: a role token for a whole database, or a JWT that names one profile.
struct AltcraftGate {
    private static let identifiers = [
        "email", "phone", "profile_id", "field_name", "field_value", "provider", "subscription_id",
    ]

    private let simulator: AltcraftSimulator

    init(_ simulator: AltcraftSimulator) { self.simulator = simulator }

    /// Returns the caller; throws 401 when the credential is missing, unknown, expired or not signed by a registered
    /// key.
    func caller(of request: SandboxRequest, _ now: Date) throws(AltcraftHandler.Refusal) -> AltcraftCaller {
        let refusal = AltcraftHandler.refuse(401, "authorization failed")
        guard let field = request.header("authorization"), field.hasPrefix("Bearer ") else { throw refusal }
        let token = String(field.dropFirst(7))
        let rules = simulator.rules
        if token.hasPrefix("rtoken@") {
            let role = String(token.dropFirst(7))
            guard let database = rules.roles[role] else { throw refusal }
            return AltcraftCaller(databaseID: database, modes: ["push_sub", role])
        }
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = Self.decode(parts[1]), let claims = try? JSONValue(parsing: payload),
            rules.publicKeysPEM.isEmpty || isSigned(parts, rules.publicKeysPEM)
        else { throw refusal }
        if let end = claims["exp"]?.numberValue, end <= now.timeIntervalSince1970 { throw refusal }
        var matching = claims["matching"]?.objectValue
        if let text = claims["matching"]?.stringValue {
            matching = (try? JSONValue(parsing: Array(text.utf8)))?.objectValue
        }
        guard let matching, let mode = matching["matching"]?.stringValue, !mode.isEmpty,
            let database = matching["db_id"]?.integerValue ?? matching["db_id"]?.stringValue.flatMap(Int64.init),
            rules.databases.contains(database)
        else { throw refusal }
        let found = Self.identifiers.compactMap { name -> String? in
            matching[name].flatMap { $0.stringValue ?? $0.integerValue.map(String.init) }.flatMap {
                $0.isEmpty ? nil : $0
            }
        }
        guard !found.isEmpty else { throw refusal }
        let isByToken = mode == "push_sub"
        return AltcraftCaller(
            databaseID: database,
            key: isByToken ? nil : "\(mode) \(found.joined(separator: "/"))",
            token: isByToken ? matching["subscription_id"]?.stringValue : nil,
            provider: isByToken ? matching["provider"]?.stringValue : nil,
            modes: [mode]
        )
    }

    private func isSigned(_ parts: [Substring], _ keys: [String]) -> Bool {
        let text = Data("\(parts[0]).\(parts[1])".utf8)
        guard let signature = Self.decode(parts[2]), let header = Self.decode(parts[0]),
            let algorithm = (try? JSONValue(parsing: header))?["alg"]?.stringValue
        else { return false }
        return keys.contains { pem in
            switch algorithm {
            case "ES256":
                guard let key = try? P256.Signing.PublicKey(pemRepresentation: pem),
                    let made = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
                else { return false }
                return key.isValidSignature(made, for: text)
            case "RS256":
                guard let key = try? _RSA.Signing.PublicKey(pemRepresentation: pem) else { return false }
                let made = _RSA.Signing.RSASignature(rawRepresentation: signature)
                return key.isValidSignature(made, for: text, padding: .insecurePKCS1v1_5)
            default: return false
            }
        }
    }

    private static func decode(_ text: Substring) -> [UInt8]? {
        var plain = text.replacing("-", with: "+").replacing("_", with: "/")
        plain += String(repeating: "=", count: (4 - plain.count % 4) % 4)
        return Data(base64Encoded: String(plain)).map(Array.init)
    }
}
