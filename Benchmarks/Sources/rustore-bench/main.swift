// rustore-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of a RuStore backend made in code, each with its own token, title and id,
// and prints one JSON line. `../run rustore` starts it beside fcm-bench; on its own it measures nothing that could be
// compared.

import BenchSupport
import ChaparCore
import ChaparRuStore

let bench = try BackendBench("rustore-bench")
// The credential is as long as that of fcm-bench.
var options = RuStoreOptions(projectID: "courier-demo", serviceToken: Secret("rus4." + hexadecimal(7, digits: 200)))
bench.connect(&options.common)

try await bench.run {
    try RuStoreBackend(options: options, context: $0)
} token: { number in
    // As long as the tokens of fcm-bench.
    let value = "dR3v0Q-APA91b" + hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 147)
    return DeviceToken(value, service: .androidRuStore)
}
