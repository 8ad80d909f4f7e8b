import Crypto
import Foundation
import Logging
import ChaparCore
import ChaparSandbox
import ChaparTesting
import Synchronization

@testable import ChaparAPNs

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
let bundleID = "com.example.courier"
let goodToken = "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0"

/// Device tokens that differ: 64 hexadecimal digits ending in the number.
func deviceToken(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return "5e" + String(repeating: "0", count: 62 - digits.count) + digits
}

func recipient(_ token: String = goodToken) -> Recipient { .token(DeviceToken(token, service: .iOSAPNs)) }

extension PushRequest {
    static func sample(_ tokens: String..., title: String = "Parcel") -> PushRequest {
        PushRequest(
            PushNotification(title: .plain(title), body: "Out for delivery"),
            to: (tokens.isEmpty ? [goodToken] : tokens).map { Addressee(recipient($0)) }
        )
    }
}

/// One team's key for all tests that need none of their own.
let sampleKey = ChaparSandbox.APNsSigningKey(teamID: "TEAM1D2345", keyID: "K3YID12345")

extension APNsOptions {
    static func sample(
        _ key: ChaparSandbox.APNsSigningKey = sampleKey,
        topic: String = bundleID,
        environment: Environment = .production
    ) throws -> APNsOptions {
        APNsOptions(
            credential: .key(try APNsAuthKey(pem: Secret(key.pem)), keyID: key.keyID, teamID: key.teamID),
            topic: topic,
            environment: environment
        )
    }
}

extension APNsBackend {
    /// A backend that talks to a scripted platform.
    static func scripted(
        _ transport: ScriptedTransport,
        options: APNsOptions? = nil,
        time: any TimeSource = ManualTime(),
        state: (any StateStore)? = nil
    ) throws -> APNsBackend {
        try APNsBackend(
            options: options ?? .sample(),
            context: BackendContext(name: "ios", http: transport, time: time, state: state, logger: quiet)
        )
    }
}

extension HTTPAnswer {
    /// An error as Apple writes it.
    static func apns(_ status: Int, _ reason: String, timestamp: Int64? = nil) -> HTTPAnswer {
        let time = timestamp.map { #","timestamp":\#($0)"# } ?? ""
        return HTTPAnswer(status: status, body: Array(#"{"reason":"\#(reason)"\#(time)}"#.utf8))
    }
}

extension ScriptedTransport.Sent {
    /// The claims of its provider token.
    var tokenClaims: JSONValue? {
        guard let jwt = header("authorization")?.dropFirst("bearer ".count) else { return nil }
        let parts = jwt.split(separator: ".")
        guard parts.count == 3, let bytes = Base64URL.decode(parts[1]) else { return nil }
        return try? JSONValue(parsing: bytes)
    }
}

/// A section of a configuration file, and the files it names.
struct SampleConfiguration: ConfigFileReader {
    struct NoSuchFile: Error, CustomStringConvertible { let description = "cannot be read: no such file" }

    var values: [(String, String)]
    var files: [String: String] = [:]

    func contents(of path: String) throws -> [UInt8] {
        guard let text = files[path] else { throw NoSuchFile() }
        return Array(text.utf8)
    }

    /// Reads the section the way the registry does, and gives back every issue as `key: problem. fix`.
    func read() -> (options: APNsOptions?, issues: [String]) {
        let origin = ConfigOrigin(file: "chapar.yaml", line: 1, column: 1)
        let entries = values.map {
            ConfigNode.Entry(key: $0.0, keyOrigin: origin, node: ConfigNode(.scalar($0.1), origin: origin))
        }
        let report = ConfigReport()
        let section = ConfigSection(ConfigNode(.map(entries), origin: origin), report: report, files: self)
        let options = APNsOptions(section)
        section.finish()
        return (
            options,
            report.issues.map { issue in "\(issue.path): \(issue.problem)" + (issue.fix.map { ". \($0)" } ?? "") }
        )
    }
}
