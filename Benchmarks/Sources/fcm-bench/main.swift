// fcm-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of an FCM backend made in code, each with its own token, title and id, and
// prints one JSON line. `../run fcm` starts it beside apns-bench; on its own it measures nothing that could be compared.

import BenchSupport
import Foundation
import Logging
import NIOPosix
import ChaparCore
import ChaparFCM
import ChaparHTTP

struct Usage: Error, CustomStringConvertible {
    let description = "usage: fcm-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]"
}

let arguments = CommandLine.arguments
guard arguments.count >= 5, let port = Int(arguments[2]), let total = Int(arguments[4]) else { throw Usage() }
let senders = arguments.count > 5 ? Int(arguments[5]) ?? 6 : 6
let batch = arguments.count > 6 ? Int(arguments[6]) ?? 256 : 256

let accessToken = "ya29." + hexadecimal(7, digits: 200)
var options = FCMOptions(
    credential: .accessToken { AccessToken(Secret(accessToken), lifetime: .seconds(3600)) },
    projectID: "courier-demo"
)
options.common.address = PlatformAddress(HTTPEndpoint(host: arguments[1], port: port))
options.common.trustPEM = try String(contentsOfFile: arguments[3], encoding: .utf8)
options.common.maximumConnections = 1
options.instanceIDEndpoint = nil

let logger = Logger(label: "fcm-bench") { _ in SwiftLogNoOpLogHandler() }
let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let transport = NIOTransport(group: group, logger: logger)
let backend = try FCMBackend(
    options: options,
    context: BackendContext(name: "bench", http: transport, logger: logger)
)
try await measure(backend, total: total, senders: senders, batch: batch) { number in
    // A registration token has some 160 characters.
    let value = "dR3v0Q:APA91b" + hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 147)
    return DeviceToken(value, service: .androidFirebase)
}
await backend.shutdown(grace: .seconds(1))
await transport.shutdown(grace: .seconds(1))
try await group.shutdownGracefully()
