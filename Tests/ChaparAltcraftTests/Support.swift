import Foundation
import Logging
import ChaparCore
import ChaparHTTP
import ChaparSandbox
import ChaparTesting
import Synchronization

@testable import ChaparAltcraft

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// The simulator and a backend that talks to it, over TLS on the loopback interface.
struct Harness: Sendable {
    let simulator: AltcraftSimulator
    let backend: AltcraftBackend
    let transport: NIOTransport
    let time: InstantTime
    let state: MemoryState
    let events: Recorder<AltcraftEvent>
    let notices: Recorder<BackendNotice>

    var mobile: AltcraftDevices { backend.mobile }
    var codes: [Int] { events.all.compactMap(\.eventCode) }

    /// Users are in database 12, devices without a user in 11, and JWTs come from the test.
    static let byUser = AltcraftClosureTokens { identity in
        let (database, field, value) = identity.user.map { (12, "crm_id", $0) } ?? (11, "device_id", identity.device)
        return AltcraftAuthTests.jwt([
            "matching": .string(
                """
                {"db_id":\(database),"matching":"custom","field_name":"\(field)","field_value":"\(value)"}
                """
            )
        ])
    }

    static func run(
        _ rules: AltcraftSimulator.Rules = AltcraftSimulator.Rules(),
        rToken: String? = nil,
        source: any AltcraftTokenSource = byUser,
        state: MemoryState = MemoryState(),
        adjust: (inout AltcraftOptions) -> Void = { _ in },
        _ body: (Harness) async throws -> Void
    ) async throws {
        let time = InstantTime(Date(timeIntervalSince1970: 1_760_000_000))
        try await AltcraftSimulator.run(rules, time: time) { simulator in
            let transport = NIOTransport(logger: quiet)
            let events = Recorder<AltcraftEvent>()
            let notices = Recorder<BackendNotice>()
            let context = BackendContext(
                name: "crm",
                http: transport,
                time: time,
                state: state,
                logger: quiet,
                announce: { notices.add($0) }
            )
            var options = AltcraftOptions.sample(simulator)
            adjust(&options)
            let auth = AltcraftAuth(rToken: rToken.map { Secret($0) }, source: source, time: time)
            let backend = try AltcraftBackend(options: options, auth: auth, context: context) { events.add($0) }
            let harness = Harness(
                simulator: simulator,
                backend: backend,
                transport: transport,
                time: time,
                state: state,
                events: events,
                notices: notices
            )
            try await finally({ try await body(harness) }) { await harness.end() }
        }
    }

    private func end() async {
        await backend.shutdown(grace: .milliseconds(50))
        await transport.shutdown(grace: .milliseconds(100))
    }

    /// Changes a subscription.
    @discardableResult
    func change(
        _ status: SubscriptionStatus,
        _ options: JSONObject = [:],
        _ device: DeviceRecord = .sample(),
        _ attempt: OutboxAttempt? = nil
    ) async throws(PushError) -> ResponseWithHttp {
        try await mobile.subscription(
            SubscriptionChange(status, options: options),
            of: device,
            as: attempt ?? OutboxAttempt(at: time.now)
        )
    }

    func ada(in database: Int64 = 12) -> AltcraftProfile? { simulator.profile("custom crm_id/ada", in: database) }
}

extension AltcraftOptions {
    static func sample(_ simulator: AltcraftSimulator) -> AltcraftOptions {
        let nowhere = HTTPBaseURL(HTTPEndpoint(host: "127.0.0.1", port: 1))
        var common = CommonBackendOptions(timeout: .seconds(10))
        common.trustPEM = simulator.certificatePEM
        return AltcraftOptions(base: HTTPBaseURL(url: simulator.url) ?? nowhere, common: common)
    }
}

let apnsToken = "9f3c0a51d2e84b7790aa16c3be52fd08417e6b2c95d0a3f8e1647b0c2d9f5a34"
let fcmToken = "fcm-41d0:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx"

extension DeviceRecord {
    static func sample(
        _ id: String = "d-1",
        user: String? = "ada",
        tokens: [DeviceToken] = [DeviceToken(apnsToken, service: .iOSAPNs)],
        attributes: JSONObject = [:]
    ) -> DeviceRecord {
        DeviceRecord(id: id, user: user, tokens: tokens, language: "ru-RU", attributes: attributes)
    }
}
