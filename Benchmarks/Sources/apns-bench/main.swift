// apns-bench HOST PORT CA-FILE KEY-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of an APNs backend made in code, each with its own token, title and id, and
// prints one JSON line. `../run apns` starts it beside h2load; on its own it measures nothing that could be compared.

import BenchSupport
import Foundation
import Logging
import NIOPosix
import ChaparAPNs
import ChaparCore
import ChaparHTTP

struct Usage: Error, CustomStringConvertible {
    let description = "usage: apns-bench HOST PORT CA-FILE KEY-FILE TOTAL [SENDERS] [BATCH]"
}

let arguments = CommandLine.arguments
guard arguments.count >= 6, let port = Int(arguments[2]), let total = Int(arguments[5]) else { throw Usage() }
let senders = arguments.count > 6 ? Int(arguments[6]) ?? 6 : 6
let batch = arguments.count > 7 ? Int(arguments[7]) ?? 256 : 256

let key = try APNsAuthKey(pem: Secret(String(contentsOfFile: arguments[4], encoding: .utf8)))
var options = APNsOptions(
    credential: .key(key, keyID: "ABC123DEFG", teamID: "DEF123GHIJ"),
    topic: "com.example.app"
)
options.common.address = PlatformAddress(HTTPEndpoint(host: arguments[1], port: port))
options.common.trustPEM = try String(contentsOfFile: arguments[3], encoding: .utf8)
options.common.maximumConnections = 1
options.managementEndpoint = nil

let logger = Logger(label: "apns-bench") { _ in SwiftLogNoOpLogHandler() }
let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let transport = NIOTransport(group: group, logger: logger)
let backend = try APNsBackend(
    options: options,
    context: BackendContext(name: "bench", http: transport, logger: logger)
)
try await measure(backend, total: total, senders: senders, batch: batch) { number in
    DeviceToken(hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 64), service: .iOSAPNs)
}
await backend.shutdown(grace: .seconds(1))
await transport.shutdown(grace: .seconds(1))
try await group.shutdownGracefully()
