// webpush-bench MESSAGES RUNS     prints one JSON line
//
// The CPU of a message through the public `send` of a Web Push backend, whose transport takes everything at once, and that of what
// no implementation can do without, by the same library and in turns with it: a key pair, the agreement, the derivation of a key and
// the sealing of as many octets. `../run webpush` compares them.

import BenchSupport
import Crypto
import Foundation
import Logging
import ChaparCore
import ChaparWebPush
import Synchronization

struct Usage: Error, CustomStringConvertible {
    let description = "usage: webpush-bench MESSAGES RUNS"
}

/// A transport whose platforms take every message at once.
struct TakingTransport: HTTPTransport {
    struct Pool: HTTPPool {
        func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
            let taken = HTTPAnswer(status: 201)
            report(calls.indices.map { HTTPReply(index: $0, result: .success(taken), connection: 1) })
        }

        var status: HTTPPoolStatus { HTTPPoolStatus() }
        func replaceConnections() {}
        func shutdown(grace: Duration) async {}
    }

    func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool { Pool() }
}

func base64url(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}

let arguments = CommandLine.arguments.dropFirst()
guard arguments.count == 2, let messages = arguments.first.flatMap({ Int($0) }),
    let runs = arguments.last.flatMap({ Int($0) })
else { throw Usage() }

let browsers = (0..<256).map { _ in P256.KeyAgreement.PrivateKey() }
let auth = [UInt8](repeating: 7, count: 16)
let recipients = browsers.enumerated().map { number, key in
    let point = base64url(key.publicKey.x963Representation)
    let endpoint = "https://fcm.googleapis.com/fcm/send/\(number)-" + String(repeating: "x", count: 140)
    let text = #"{"endpoint":"\#(endpoint)","keys":{"p256dh":"\#(point)","auth":"\#(base64url(auth))"}}"#
    return Recipient.token(DeviceToken(text, service: .webPush))
}
let logger = Logger(label: "webpush-bench") { _ in SwiftLogNoOpLogHandler() }
let backend = WebPushBackend(
    options: WebPushOptions(keys: [WebPushKey()], subject: "mailto:ops@example.com"),
    context: BackendContext(name: "bench", http: TakingTransport(), logger: logger)
)
let notification = PushNotification(
    title: "Order 42 shipped",
    body: "Your parcel is on its way and should arrive tomorrow between nine and noon. Tap to follow it.",
    clickURL: "https://example.com/orders/42"
)
let plaintext = [UInt8](repeating: 0x61, count: 260)

/// The CPU of a message through the backend, in microseconds.
func sending() async throws -> Double {
    let accepted = Atomic(0)
    let before = used().cpu
    for start in stride(from: 0, to: messages, by: 256) {
        let requests = (start..<min(messages, start + 256)).map { number in
            PushRequest(notification, to: [Addressee(recipients[number % 256])], expiration: .at(4_000_000_000))
        }
        await backend.send(requests) { reports in
            accepted.add(reports.count { $0.outcome.isAccepted }, ordering: .relaxed)
        }
    }
    guard accepted.load(ordering: .relaxed) == messages else { throw Usage() }
    return (used().cpu - before) * 1e6 / Double(messages)
}

/// The CPU of a key pair, an agreement, a derivation and a sealing, in microseconds.
func floor() throws -> Double {
    var octets = 0
    let before = used().cpu
    for number in 0..<messages {
        let own = P256.KeyAgreement.PrivateKey()
        let browser = try P256.KeyAgreement.PublicKey(
            x963Representation: browsers[number % 256].publicKey.x963Representation
        )
        let secret = try own.sharedSecretFromKeyAgreement(with: browser)
        let key = secret.hkdfDerivedSymmetricKey(
            using: SHA256.self,
            salt: auth,
            sharedInfo: Array("floor".utf8),
            outputByteCount: 16
        )
        octets += try AES.GCM.seal(plaintext, using: key).ciphertext.count
    }
    guard octets == messages * plaintext.count else { throw Usage() }
    return (used().cpu - before) * 1e6 / Double(messages)
}

_ = try await sending()
var costs: [[String: Double]] = []
for _ in 0..<runs { costs.append(["floor": try floor(), "send": try await sending()]) }
try show(["runs": costs])
