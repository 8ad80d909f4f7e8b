import Logging
import OneSignalBench
import ChaparCore
import ChaparIDPush
import ChaparOneSignal
import ChaparOneSignalDevices
import ChaparSandbox
import ChaparTesting

/// The simulators, and backends of IDPush and OneSignal that talk to them; the one of IDPush sends through OneSignal.
@dynamicMemberLookup
struct Harness: Sendable {
    let bench: OneSignalBench
    let oneSignal: OneSignalBackend
    let idPush: IDPushBackend

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
            let harness = Harness(
                bench: bench,
                oneSignal: try OneSignalBackend(options: options, context: bench.context),
                idPush: try IDPushBackend(
                    options: .sample(bench.simulator),
                    context: bench.context,
                    sender: options.sender
                )
            )
            try await finally({ try await body(harness) }) {
                await harness.oneSignal.shutdown(grace: .milliseconds(50))
                await harness.idPush.shutdown(grace: .milliseconds(50))
            }
        }
    }

    /// Another backend of the same name and store, as after a restart.
    func restarted(adjust: (inout OneSignalOptions) -> Void = { _ in }) throws -> OneSignalBackend {
        var options = OneSignalOptions.sample(bench.simulator)
        adjust(&options)
        return try OneSignalBackend(options: options, context: bench.restarted)
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

    /// Makes a backend with these options that sends to the devices of another.
    var sender: OneSignalSender {
        { [self] context, players throws(HTTPPoolError) in
            try OneSignalBackend(options: self, players: players, context: context)
        }
    }
}
