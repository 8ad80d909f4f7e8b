// hms-bench serve                                     runs the HMS simulator until its input ends; prints its addresses
// hms-bench send PUSH-URL TOKEN-URL CA-FILE BATCH TOTAL   sends to it and prints one JSON line
//
// Sends one notification to TOTAL recipients through the public `send` of an HMS backend, 1,000 at a time, each in a request
// of its own as a gateway's worker hands them over, with at most BATCH in one HTTP request. `../run hms` starts both and
// compares batch sizes; on its own it measures nothing that could be compared.

import BenchSupport
import Foundation
import Logging
import ChaparCore
import ChaparHMS
import ChaparHTTP
import ChaparSandbox
import Synchronization

struct Usage: Error, CustomStringConvertible {
    let description = "usage: hms-bench serve | hms-bench send PUSH-URL TOKEN-URL CA-FILE BATCH TOTAL"
}

func serve() async throws {
    var configuration = HMSSimulatorConfiguration()
    configuration.acceptsAnyToken = true
    configuration.inboxLimit = 1000
    try await HMSSimulator.run(configuration) { simulator in
        try show([
            "push": simulator.url(HMSSimulator.push), "token": simulator.url(HMSSimulator.token),
            "ca": simulator.authority.certificatePEM,
        ])
        while readLine() != nil {}
    }
}

func send(_ arguments: [String]) async throws {
    guard arguments.count == 5, let push = HTTPEndpoint(url: arguments[0]), let token = HTTPEndpoint(url: arguments[1]),
        let batch = Int(arguments[3]), let total = Int(arguments[4])
    else { throw Usage() }
    let app = HMSSimulatorConfiguration.App()
    var options = HMSOptions(
        credential: .client(id: app.appID, secret: Secret(app.clientSecret)),
        api: .v1(appID: app.appID)
    )
    options.common.address = PlatformAddress(push)
    options.common.trustPEM = try String(contentsOfFile: arguments[2], encoding: .utf8)
    options.common.maximumConnections = 4
    options.tokenEndpoint = token
    options.batchSize = batch
    let logger = Logger(label: "hms-bench") { _ in SwiftLogNoOpLogHandler() }
    let transport = NIOTransport(logger: logger)
    let backend = try HMSBackend(
        options: options,
        context: BackendContext(name: "bench", http: transport, logger: logger)
    )
    let notification = PushNotification(
        title: "Order 42 shipped",
        body: "Your parcel is on its way and should arrive tomorrow between nine and noon. Tap to follow it."
    )
    // As long as Huawei's tokens are, about 130 characters.
    let tail = String(repeating: "AbCdEfGhIjKlMnOp", count: 7)
    func requests(_ numbers: Range<Int>) -> [PushRequest] {
        numbers.map { number in
            let token = DeviceToken("IQAAAACy\(number)\(tail)", service: .androidHuawei)
            return PushRequest(notification, to: [Addressee(.token(token))], expiration: .at(4_000_000_000))
        }
    }
    _ = await backend.send(requests(0..<4))  // Opens the connections and fetches the access token.
    let accepted = Atomic(0)
    let clock = ContinuousClock()
    let cpuBefore = used().cpu
    let began = clock.now
    for start in stride(from: 0, to: total, by: 1000) {
        await backend.send(requests(start..<min(total, start + 1000))) { reports in
            var good = 0
            for report in reports { if case .accepted = report.outcome { good += 1 } }
            accepted.add(good, ordering: .relaxed)
        }
    }
    let took = began.duration(to: clock.now) / .seconds(1)
    let cpu = used().cpu - cpuBefore
    let done = accepted.load(ordering: .relaxed)
    try show([
        "batch": batch, "recipients": done, "failed": total - done, "seconds": took,
        "cpu_us_per_recipient": cpu * 1e6 / Double(max(done, 1)), "recipients_per_second": Double(done) / took,
    ])
    await backend.shutdown(grace: .seconds(1))
    await transport.shutdown(grace: .seconds(1))
}

switch CommandLine.arguments.dropFirst().first {
case "serve": try await serve()
case "send": try await send(Array(CommandLine.arguments.dropFirst(2)))
default: throw Usage()
}
