import Logging
import OneSignalBench
import ChaparCore
import ChaparSandbox
import ChaparTesting

@testable import ChaparOneSignal

/// The simulators, and a backend of OneSignal that talks to them.
@dynamicMemberLookup
struct Harness: Sendable {
    let bench: OneSignalBench
    let oneSignal: OneSignalBackend

    subscript<Value>(dynamicMember path: KeyPath<OneSignalBench, Value>) -> Value { bench[keyPath: path] }

    static func run(
        _ rules: OneSignalSimulator.Rules = .lenient,
        adjust: (inout OneSignalOptions) -> Void = { _ in },
        state: MemoryState = MemoryState(),
        logger: Logger = quiet,
        _ body: (Harness) async throws -> Void
    ) async throws {
        try await OneSignalBench.run(rules, state: state, logger: logger) { bench in
            var options = OneSignalOptions.sample(bench.simulator)
            adjust(&options)
            let backend = try OneSignalBackend(options: options, context: bench.context)
            try await finally({ try await body(Harness(bench: bench, oneSignal: backend)) }) {
                await backend.shutdown(grace: .milliseconds(50))
            }
        }
    }

    /// Another backend of the same name and store, as after a restart.
    func restarted(adjust: (inout OneSignalOptions) -> Void = { _ in }) throws -> OneSignalBackend {
        var options = OneSignalOptions.sample(bench.simulator)
        adjust(&options)
        return try OneSignalBackend(options: options, context: bench.restarted)
    }

    /// Sends one message to each id; the outcomes.
    func send(_ ids: [String], _ notification: PushNotification = .sample) async -> [DeliveryOutcome] {
        await oneSignal.send(notification, to: ids.map { .platformID($0) })
    }
}

extension OneSignalOptions {
    static func sample(_ simulator: OneSignalSimulator) -> OneSignalOptions {
        var options = OneSignalOptions(appID: simulator.rules.appID, apiKey: Secret("os_v2_app_sandbox"))
        options.broadcast.isAllowed = true
        options.base = simulatorAddress(simulator.apiURL)
        options.common.trustPEM = simulator.certificatePEM
        options.common.timeout = .seconds(120)
        options.writeSpacing = .zero
        return options
    }
}
