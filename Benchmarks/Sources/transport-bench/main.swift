// transport-bench HOST PORT CA-FILE TOTAL IN-FLIGHT [BATCH] [AUTHORIZATION]
//
// Sends POSTs with APNs' fields and 200 bytes through the public pool, over one connection, and prints one JSON line.
// `../run transport` starts it beside h2load; on its own it measures nothing that could be compared.

import BenchSupport
import Foundation
import Logging
import NIOPosix
import ChaparCore
import ChaparHTTP
import Synchronization

struct Usage: Error, CustomStringConvertible {
    let description = "usage: transport-bench HOST PORT CA-FILE TOTAL IN-FLIGHT [BATCH] [AUTHORIZATION]"
}

let arguments = CommandLine.arguments
guard arguments.count >= 6, let port = Int(arguments[2]), let total = Int(arguments[4]),
    let inFlight = Int(arguments[5])
else { throw Usage() }
let batch = arguments.count > 6 ? Int(arguments[6]) ?? 100 : 100

var configuration = HTTPPoolConfiguration(
    endpoint: HTTPEndpoint(host: arguments[1], port: port),
    version: .http2
)
configuration.extraTrustPEM = try String(contentsOfFile: arguments[3], encoding: .utf8)
configuration.maximumConnections = 1
configuration.maximumWaiting = 100_000

let logger = Logger(label: "transport-bench") { _ in SwiftLogNoOpLogHandler() }
let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
let transport = NIOTransport(group: group, logger: logger)
let pool = try transport.pool(configuration)

var headers = [
    HTTPHeader("apns-topic", "com.example.app"), HTTPHeader("apns-push-type", "alert"),
    HTTPHeader("apns-priority", "10"), HTTPHeader("apns-expiration", "0"),
]
if arguments.count > 7, !arguments[7].isEmpty { headers.append(HTTPHeader("authorization", arguments[7])) }
let template = HTTPCallTemplate(method: "POST", headers: headers)
let body = Array(
    (#"{"aps":{"alert":{"title":"Order shipped","body":""# + String(repeating: "x", count: 200)).utf8.prefix(200)
)
let paths = (0..<1000).map { number in
    "/3/device/" + String(repeating: "0", count: 60 - 6)
        + String(format: "%010x", number &* 2_654_435_761 & 0xFFFF_FFFF)
}

let answered = Mutex(0)
let failed = Mutex(0)
_ = try await pool.send(HTTPCall(template, path: paths[0], body: body))  // Opens the connection.

let clock = ContinuousClock()
let cpuBefore = used().cpu
let began = clock.now
// Half as many again as may be in flight, so that the window stays full between a batch's end and the next one.
let senders = max(1, inFlight * 3 / 2 / batch)
await withTaskGroup(of: Void.self) { tasks in
    for sender in 0..<senders {
        tasks.addTask {
            var left = total / senders
            var next = sender * 17
            while left > 0 {
                let calls = (0..<min(batch, left)).map { index in
                    HTTPCall(template, path: paths[(next + index) % paths.count], body: body)
                }
                left -= calls.count
                next += calls.count
                await pool.send(calls) { replies in
                    var good = 0
                    for reply in replies {
                        if case .success(let answer) = reply.result, answer.status == 200 { good += 1 }
                    }
                    let goodOnes = good
                    answered.withLock { $0 += goodOnes }
                    failed.withLock { $0 += replies.count - goodOnes }
                }
            }
        }
    }
}
let took = began.duration(to: clock.now) / .seconds(1)
let usage = used()
let cpu = usage.cpu - cpuBefore
let done = answered.withLock { $0 }
try show([
    "requests": Double(done), "failed": Double(failed.withLock { $0 }), "seconds": took,
    "rps": Double(done) / took, "cpu_us_per_request": cpu * 1e6 / Double(max(done, 1)), "rss_mib": usage.memory,
])
await transport.shutdown(grace: .seconds(1))
try await group.shutdownGracefully()
