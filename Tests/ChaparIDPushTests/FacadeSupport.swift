import OneSignalBench
import ChaparCore
import ChaparHTTP
import ChaparIDPush
import ChaparIDPushSDK
import ChaparSandbox

extension OneSignalBench {
    /// An IDPush facade over the simulator.
    func facade(
        store: any PlayerIDStore = MemoryPlayerIDStore(),
        acceptsAny2xx: Bool = false,
        facts: DeviceFacts = .phone,
        print: @escaping @Sendable (String) -> Void = { _ in }
    ) throws -> IDPush {
        IDPush(
            client: try idPushClient(),
            store: store,
            acceptsAny2xx: acceptsAny2xx,
            device: { facts },
            print: print
        )
    }

    func idPushClient(timeout: Duration = .seconds(120)) throws -> IDPushClient {
        var common = CommonBackendOptions(timeout: timeout)
        common.trustPEM = simulator.certificatePEM
        return try IDPushClient(base: simulatorAddress(simulator.idPushURL), common: common, http: transport)
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
