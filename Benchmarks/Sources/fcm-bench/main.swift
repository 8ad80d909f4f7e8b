// fcm-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]
//
// Sends notifications through the public `send` of an FCM backend made in code, each with its own token, title and id, and
// prints one JSON line. `../run fcm` starts it beside apns-bench; on its own it measures nothing that could be compared.

import Foundation
import Logging
import NIOPosix
import PushCore
import PushFCM
import PushHTTP
import Synchronization

struct Usage: Error, CustomStringConvertible {
    let description = "usage: fcm-bench HOST PORT CA-FILE TOTAL [SENDERS] [BATCH]"
}

/// CPU seconds that the process has used.
func cpuSeconds() -> Double {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
        + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
}

/// A number as lower-case hexadecimal digits after zeros.
func hexadecimal(_ number: UInt64, digits: Int) -> String {
    String(unsafeUninitializedCapacity: digits) { text in
        for place in 0..<digits {
            let shift = 4 * (digits - 1 - place)
            let nibble = shift < 64 ? UInt8(truncatingIfNeeded: number >> UInt64(shift)) & 15 : 0
            text[place] = nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") - 10 + nibble
        }
        return digits
    }
}

let text = LocalizedText.plain(
    "Your parcel is on its way and should arrive tomorrow between nine and noon. Tap to follow it, to change the day or "
        + "to name a neighbour."
)

/// The notification with a number: its own title, token and id.
///
/// A registration token has some 160 characters.
func request(_ number: UInt64) -> PushRequest {
    var notification = PushNotification(title: .plain("Order " + hexadecimal(number, digits: 6) + " shipped"))
    notification.body = text
    notification.sound = "default"
    notification.badge = 1
    let value = "dR3v0Q:APA91b" + hexadecimal(number &* 0x9E37_79B9_7F4A_7C15, digits: 147)
    let token = DeviceToken(value, service: .androidFirebase)
    let id = MessageID(high: 0x0190_0000_0000_7000, low: 0x8000_0000_0000_0000 | number)
    return PushRequest(notification, to: [Addressee(.token(token), messageID: id)], expiration: .immediately)
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
options.common.baseURL = HTTPEndpoint(host: arguments[1], port: port)
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
_ = await backend.send([request(0)])  // Opens the connection.

let accepted = Atomic(0)
let failed = Atomic(0)
let clock = ContinuousClock()
let cpuBefore = cpuSeconds()
let began = clock.now
await withTaskGroup(of: Void.self) { tasks in
    for sender in 0..<senders {
        tasks.addTask {
            var next = total * sender / senders
            let end = total * (sender + 1) / senders
            while next < end {
                let numbers = next..<min(next + batch, end)
                next = numbers.upperBound
                await backend.send(numbers.map { request(UInt64($0)) }) { reports in
                    var good = 0
                    for report in reports {
                        if case .accepted = report.outcome { good += 1 }
                    }
                    accepted.add(good, ordering: .relaxed)
                    failed.add(reports.count - good, ordering: .relaxed)
                }
            }
        }
    }
}
let took = began.duration(to: clock.now).inSeconds
let cpu = cpuSeconds() - cpuBefore
let done = accepted.load(ordering: .relaxed)
let line: [String: Double] = [
    "requests": Double(done), "failed": Double(failed.load(ordering: .relaxed)), "seconds": took,
    "rps": Double(done) / took, "cpu_us_per_request": cpu * 1e6 / Double(max(done, 1)),
]
print(String(decoding: try JSONSerialization.data(withJSONObject: line, options: .sortedKeys), as: UTF8.self))
await backend.shutdown(grace: .seconds(1))
await transport.shutdown(grace: .seconds(1))
try await group.shutdownGracefully()
