package import Foundation
package import Logging
package import ChaparCore
package import ChaparHTTP
package import ChaparSandbox
package import ChaparTesting
package import Synchronization

/// A logger that keeps nothing.
package let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
/// A token as APNs gives them.
package let apnsToken = "9f3c0a51d2e84b7790aa16c3be52fd08417e6b2c95d0a3f8e1647b0c2d9f5a34"

/// The address of a simulator; nowhere when it does not run.
package func simulatorAddress(_ url: String) -> HTTPBaseURL {
    HTTPBaseURL(url: url) ?? HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1))
}

/// The simulators of OneSignal and IDPush over TLS on the loopback interface, and what a backend needs to reach them.
///
/// The tests of both plugins run on it; it knows neither.
package struct OneSignalBench: Sendable {
    package let simulator: OneSignalSimulator
    package let transport: NIOTransport
    /// The requests of the backends of ``context``.
    package let sent: RecordedTransport
    package let time: MovableTime
    package let state: MemoryState
    /// The notices of the backends.
    package let notices: Recorder<BackendNotice>
    /// The context of the backend `campaigns`.
    package let context: BackendContext

    /// Starts the simulators, runs `body`, and ends them.
    package static func run(
        _ rules: OneSignalSimulator.Rules = .lenient,
        state: MemoryState = MemoryState(),
        logger: Logger = quiet,
        _ body: (OneSignalBench) async throws -> Void
    ) async throws {
        await Turns.shared.take()
        defer { Turns.shared.giveBack() }
        let time = MovableTime()
        try await OneSignalSimulator.run(rules, time: time) { simulator in
            let transport = NIOTransport(logger: logger)
            let sent = RecordedTransport(transport)
            let notices = Recorder<BackendNotice>()
            let bench = OneSignalBench(
                simulator: simulator,
                transport: transport,
                sent: sent,
                time: time,
                state: state,
                notices: notices,
                context: BackendContext(
                    name: "campaigns",
                    http: sent,
                    time: time,
                    state: state,
                    logger: logger,
                    announce: { notices.add($0) }
                )
            )
            try await finally({ try await body(bench) }) { await transport.shutdown(grace: .milliseconds(100)) }
        }
    }

    /// A context of the same name and store, as after a restart.
    package var restarted: BackendContext {
        BackendContext(name: "campaigns", http: transport, time: time, state: state, logger: quiet)
    }
}

/// Few tests with simulators at a time: a hundred that begin at once on two cores meet their own deadlines.
package final class Turns: Sendable {
    package static let shared = Turns(4)
    private let state: Mutex<(free: Int, waiting: [CheckedContinuation<Void, Never>])>

    private init(_ count: Int) { state = Mutex((count, [])) }

    package func take() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.free > 0 else {
                    state.waiting.append(continuation)
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    package func giveBack() {
        let next = state.withLock { state in
            if !state.waiting.isEmpty { return state.waiting.removeFirst() as CheckedContinuation? }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}

extension OneSignalSimulator.Rules {
    /// Without quotas, which have tests of their own.
    package static var lenient: Self {
        var rules = Self()
        rules.enforcesBudgets = false
        return rules
    }
}

extension DeviceRecord {
    package static func sample(
        _ id: String = "d-1",
        user: String? = nil,
        token: String = apnsToken,
        service: TokenService = .iOSAPNs
    ) -> DeviceRecord {
        DeviceRecord(
            id: id,
            user: user,
            token: DeviceToken(token, service: service),
            language: "fa-IR",
            attributes: [
                "app_version": "3.4.1", "model": "iPhone14,2", "os_version": "17.5.1", "time_zone": "Asia/Tehran",
            ]
        )
    }
}

extension PushNotification {
    package static let sample = PushNotification(title: "Order 42", body: "is on its way")
}

/// A device token that differs with its number.
package func token(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return "5e" + String(repeating: "0", count: 62 - digits.count) + digits
}

/// A clock that tests move, and whose sleeps end at once by moving it: waits take no time.
package final class MovableTime: TimeSource {
    private let offset = Mutex(0.0)
    private let start = Date()
    /// All waits so far.
    package let slept = Mutex<[Duration]>([])
    /// Whether waits last, until they are cancelled or this is false again.
    package let holdsSleepers = Mutex(false)

    package init() {}

    package var now: Date { start.addingTimeInterval(offset.withLock { $0 }) }
    package func advance(by span: Duration) { offset.withLock { $0 += span.inSeconds } }
    package func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        try await eventually("waits end again", within: .seconds(600), every: .milliseconds(2)) {
            holdsSleepers.withLock { !$0 }
        }
        slept.withLock { $0.append(duration) }
        advance(by: duration)
    }
}
