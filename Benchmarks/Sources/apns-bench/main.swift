// apns-bench HOST PORT CA-FILE KEY-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of an APNs backend made in code, each with its own token, title and id, and
// prints one JSON line. `../run apns` starts it beside h2load; on its own it measures nothing that could be compared.

import BenchSupport
import ChaparAPNs
import ChaparCore
import Foundation

let bench = try BackendBench("apns-bench", files: ["KEY-FILE"])
let key = try APNsAuthKey(pem: Secret(String(contentsOfFile: bench.files[0], encoding: .utf8)))
var options = APNsOptions(
    credential: .key(key, keyID: "ABC123DEFG", teamID: "DEF123GHIJ"),
    topic: "com.example.app"
)
bench.connect(&options.common)
options.managementEndpoint = nil

try await bench.run {
    try APNsBackend(options: options, context: $0)
} token: { number in
    DeviceToken(hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 64), service: .iOSAPNs)
}
