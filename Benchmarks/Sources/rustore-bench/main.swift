// rustore-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of a RuStore backend made in code, each with its own token, title and id,
// and prints one JSON line. `../run rustore` starts it beside fcm-bench; on its own it measures nothing that could be
// compared.

import BenchSupport
import Foundation
import Logging
import NIOPosix
import ChaparCore
import ChaparHTTP
import ChaparRuStore

struct Usage: Error, CustomStringConvertible {
    let description = "usage: rustore-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]"
}

let arguments = CommandLine.arguments
guard arguments.count >= 5, let port = Int(arguments[2]), let total = Int(arguments[4]) else { throw Usage() }
let senders = arguments.count > 5 ? Int(arguments[5]) ?? 6 : 6
let batch = arguments.count > 6 ? Int(arguments[6]) ?? 256 : 256

// The credential is as long as that of fcm-bench.
var options = RuStoreOptions(projectID: "courier-demo", serviceToken: Secret("rus4." + hexadecimal(7, digits: 200)))
options.common.address = PlatformAddress(HTTPEndpoint(host: arguments[1], port: port))
options.common.trustPEM = try String(contentsOfFile: arguments[3], encoding: .utf8)
options.common.maximumConnections = 1

let logger = Logger(label: "rustore-bench") { _ in SwiftLogNoOpLogHandler() }
let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let transport = NIOTransport(group: group, logger: logger)
let backend = try RuStoreBackend(
    options: options,
    context: BackendContext(name: "bench", http: transport, logger: logger)
)
try await measure(backend, total: total, senders: senders, batch: batch) { number in
    // As long as the tokens of fcm-bench.
    let value = "dR3v0Q-APA91b" + hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 147)
    return DeviceToken(value, service: .androidRuStore)
}
await backend.shutdown(grace: .seconds(1))
await transport.shutdown(grace: .seconds(1))
try await group.shutdownGracefully()
