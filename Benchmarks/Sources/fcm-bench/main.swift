// fcm-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of an FCM backend made in code, each with its own token, title and id, and
// prints one JSON line. `../run fcm` starts it beside apns-bench; on its own it measures nothing that could be compared.

import BenchSupport
import ChaparCore
import ChaparFCM

let bench = try BackendBench("fcm-bench")
let accessToken = "ya29." + hexadecimal(7, digits: 200)
var options = FCMOptions(
    credential: .accessToken { AccessToken(Secret(accessToken), lifetime: .seconds(3600)) },
    projectID: "courier-demo"
)
bench.connect(&options.common)
options.instanceIDEndpoint = nil

try await bench.run {
    try FCMBackend(options: options, context: $0)
} token: { number in
    // A registration token has some 160 characters.
    let value = "dR3v0Q:APA91b" + hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 147)
    return DeviceToken(value, service: .androidFirebase)
}
