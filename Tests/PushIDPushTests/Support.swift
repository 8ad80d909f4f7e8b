import Foundation
import Logging
import PushCore
import PushHTTP
import PushSandbox
import PushTesting
import Synchronization

@testable import PushIDPush

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
let apnsToken = "9f3c0a51d2e84b7790aa16c3be52fd08417e6b2c95d0a3f8e1647b0c2d9f5a34"

/// The address of a simulator; nowhere when it does not run.
func simulatorAddress(_ url: String) -> HTTPBaseURL {
    HTTPBaseURL(url: url) ?? HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1))
}

/// The simulators and backends that talk to them, over TLS on the loopback interface.
struct Harness: Sendable {
    let simulator: OneSignalSimulator
    let oneSignal: OneSignalBackend
    let idPush: IDPushBackend
    let transport: NIOTransport
    let time: MovableTime
    let state: MemoryState
    /// What the backends announced.
    let notices: Recorder<BackendNotice>

    static func run(
        _ rules: OneSignalSimulator.Rules = .lenient,
        adjust: (inout OneSignalOptions) -> Void = { _ in },
        state: MemoryState = MemoryState(),
        logger: Logger = quiet,
        _ body: (Harness) async throws -> Void
    ) async throws {
        await Turns.shared.take()
        defer { Turns.shared.giveBack() }
        let time = MovableTime()
        try await OneSignalSimulator.run(rules, time: time) { simulator in
            let transport = NIOTransport(logger: logger)
            let notices = Recorder<BackendNotice>()
            let context = BackendContext(
                name: "campaigns",
                http: transport,
                time: time,
                state: state,
                logger: logger,
                announce: { notices.add($0) }
            )
            var options = OneSignalOptions.sample(simulator)
            adjust(&options)
            let harness = Harness(
                simulator: simulator,
                oneSignal: try OneSignalBackend(options: options, context: context),
                idPush: try IDPushBackend(options: .sample(simulator), oneSignal: options, context: context),
                transport: transport,
                time: time,
                state: state,
                notices: notices
            )
            try await finally({ try await body(harness) }) { await harness.end() }
        }
    }

    private func end() async {
        await oneSignal.shutdown(grace: .milliseconds(50))
        await idPush.shutdown(grace: .milliseconds(50))
        await transport.shutdown(grace: .milliseconds(100))
    }

    /// Another backend of the same name and store, as after a restart.
    func restarted(adjust: (inout OneSignalOptions) -> Void = { _ in }) throws -> OneSignalBackend {
        var options = OneSignalOptions.sample(simulator)
        adjust(&options)
        let context = BackendContext(name: "campaigns", http: transport, time: time, state: state, logger: quiet)
        return try OneSignalBackend(options: options, context: context)
    }

    /// Sends one message to each id; the outcomes.
    func send(_ ids: [String], _ notification: PushNotification = .sample) async -> [DeliveryOutcome] {
        await oneSignal.send(notification, to: ids.map { .platformID($0) })
    }

    /// An IDPush facade over the simulator.
    func facade(
        store: any PlayerIDStore = MemoryPlayerIDStore(),
        acceptsAny2xx: Bool = false,
        facts: DeviceFacts = .phone,
        print: @escaping @Sendable (String) -> Void = { _ in }
    ) throws -> IDPush {
        IDPush(
            client: try client(),
            store: store,
            acceptsAny2xx: acceptsAny2xx,
            device: { facts },
            print: print
        )
    }

    func client(timeout: Duration = .seconds(120)) throws -> IDPushClient {
        var common = CommonBackendOptions(timeout: timeout)
        common.trustPEM = simulator.certificatePEM
        return try IDPushClient(base: simulatorAddress(simulator.idPushURL), common: common, http: transport)
    }
}

/// Few tests with simulators at a time: a hundred that begin at once on two cores meet their own deadlines.
final class Turns: Sendable {
    static let shared = Turns(4)
    private let state: Mutex<(free: Int, waiting: [CheckedContinuation<Void, Never>])>

    private init(_ count: Int) { state = Mutex((count, [])) }

    func take() async {
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

    func giveBack() {
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
    static var lenient: Self {
        var rules = Self()
        rules.enforcesBudgets = false
        return rules
    }
}

extension OneSignalOptions {
    static func sample(_ simulator: OneSignalSimulator) -> OneSignalOptions {
        var options = OneSignalOptions(appID: simulator.rules.appID, apiKey: Secret("os_v2_app_sandbox"))
        options.base = simulatorAddress(simulator.apiURL)
        options.common.trustPEM = simulator.certificatePEM
        options.common.timeout = .seconds(120)
        options.writeSpacing = .zero
        return options
    }
}

extension IDPushOptions {
    static func sample(_ simulator: OneSignalSimulator) -> IDPushOptions {
        var options = IDPushOptions(projectID: Secret(" \(simulator.rules.projectID)\n"))
        options.base = simulatorAddress(simulator.idPushURL)
        options.common.trustPEM = simulator.certificatePEM
        options.writeSpacing = .zero
        return options
    }
}

extension DeviceFacts {
    static let phone = DeviceFacts(appVersion: "3.4.1", model: "iPhone14,2", osVersion: "17.5.1", isTestBuild: true)
}

extension DeviceRecord {
    static func sample(
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
    static let sample = PushNotification(title: "Order 42", body: "is on its way")
}

/// A device token that differs with its number.
func token(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return "5e" + String(repeating: "0", count: 62 - digits.count) + digits
}

/// A clock that tests move, and whose sleeps end at once by moving it: waits take no time.
final class MovableTime: TimeSource {
    private let offset = Mutex(0.0)
    private let start = Date()
    /// All waits so far.
    let slept = Mutex<[Duration]>([])
    /// Whether waits last, until they are cancelled or this is false again.
    let holdsSleepers = Mutex(false)

    var now: Date { start.addingTimeInterval(offset.withLock { $0 }) }
    func advance(by span: Duration) { offset.withLock { $0 += span.inSeconds } }
    func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        while holdsSleepers.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(2)) }
        slept.withLock { $0.append(duration) }
        advance(by: duration)
    }
}
