import ChaparAPNs
import ChaparClient
import ChaparFCM
import ChaparHMS
import ChaparSandbox
import ChaparService
import Foundation
import Hummingbird
import InMemoryTracing
import MetricsTestKit

/// A program with what it is run with, and what must have reached the platforms then.
struct Trial: Sendable {
    let name: String
    /// Whether it runs until SIGTERM.
    var isServer = false
    let run: @Sendable (Sandbox) async throws -> Void

    private static let phone = "ab" + String(repeating: "0", count: 62)
    /// The simulator of Apple calls it dead.
    private static let deadPhone = APNsMagicToken.unregistered.rawValue + String(repeating: "0", count: 60)

    static let all = [
        Trial(name: "OneAlert") { sandbox in
            let (key, account) = (sandbox.apns.key, try sandbox.apns.pushAccount)
            let settings = AppleSettings(
                key: key.pem,
                keyID: key.keyID,
                teamID: key.teamID,
                topic: Sandbox.topic,
                common: account.common
            )
            try await oneAlert(settings, phone: phone)
            try expect(text(sandbox.apns.inbox.last?.payload).contains("Order 42"), "Apple has the alert")
        },
        Trial(name: "LocalizedMessage") { sandbox in
            let common = try sandbox.fcm.pushAccount.common
            let settings = GoogleSettings(serviceAccount: sandbox.fcm.credentialsFile, common: common)
            try await localizedMessage(settings, phone: "firebase-42", language: "fa-IR")
            let title = sandbox.fcm.inbox.last?.message["notification"]?["title"]?.stringValue
            try expect(title == "سفارش ۴۲", "the message is in the language of its reader")
        },
        Trial(name: "ManyRecipients") { sandbox in
            var dead: [DeviceToken] = []
            let phones = (10..<30).map { "\($0)" + String(repeating: "0", count: 62) } + [deadPhone]
            sandbox.apns.reset()
            try await manyRecipients(.apns(sandbox.apns.pushAccount), phones: phones) { dead.append($0) }
            try expect(sandbox.apns.inbox.count == 20, "every phone that lives has the message")
            try expect(dead.map(\.value) == [deadPhone], "the dead token is forgotten, and no other")
        },
        Trial(name: "FallbackChain") { sandbox in
            let devices: [String: ResolvedDevice] = [
                "ada": [
                    DeviceToken(deadPhone, service: .iOSAPNs),
                    DeviceToken("sim-unregistered-1", service: .androidFirebase),
                    DeviceToken("+4915112345678", service: sms),
                ]
            ]
            try await fallbackChain(
                .apns(sandbox.apns.pushAccount),
                .fcm(sandbox.fcm.pushAccount),
                .service(textMessages(sandbox)),
                devices: RecipientResolver { ids in devices.filter { ids.contains($0.key) } }
            )
            try expect(sandbox.service.counters.messages == 1, "whom neither phone reaches gets a text message")
        },
        Trial(name: "OwnTokens") { sandbox in
            sandbox.apns.reset()
            try await ownTokens(.apns(sandbox.apns.pushAccount), phones: ["ada": phone])
            try expect(sandbox.apns.inbox.last?.token == phone, "the message goes to the token of the address book")
        },
        Trial(name: "OwnCredentials") { sandbox in
            let common = try sandbox.hms.pushAccount.common
            let settings = HuaweiSettings(
                id: sandbox.hms.app.appID,
                secret: Secret(sandbox.hms.app.clientSecret),
                tokenURL: try HTTPBaseURL(sandbox.hms.url(HMSSimulator.token) + "/oauth2/v3/token"),
                host: common.address.endpoint(platform: HMSOptions.pushEndpoint),
                common: common
            )
            try await ownCredentials(settings, phone: "huawei-42")
            try expect(sandbox.hms.inbox().count == 1, "Huawei took the message with the access token")
        },
        Trial(name: "MetricsAndTraces") { sandbox in
            let (metrics, tracer) = (TestMetrics(), InMemoryTracer())
            let recipient = Recipient.token(phone, service: .iOSAPNs)
            let account = try PushAccount.apns(sandbox.apns.pushAccount)
            try await metricsAndTraces(account, phone: recipient, metrics: metrics, tracer: tracer)
            let spans = tracer.finishedSpans
            let (order, send) = (spans.first { $0.operationName == "ship order 42" }, spans.first)
            try expect(send?.operationName == "send ios", "a send is a span")
            try expect(send?.parentSpanID != nil && send?.parentSpanID == order?.spanID, "it lies below the order's")
            let counted = metrics.counters.contains { $0.label == "push_client_messages" }
            try expect(counted, "the message is counted")
        },
        Trial(name: "DurableOrders", isServer: true) { sandbox in
            let environment = ProcessInfo.processInfo.environment
            let address = BindAddress.hostname("127.0.0.1", port: environment["PORT"].flatMap { Int($0) } ?? 8080)
            let settings = ServerSettings(
                web: ApplicationConfiguration(address: address),
                database: environment["DATABASE"] ?? "orders.db"
            )
            let logger = Logger(label: "shop")
            try await durableOrders(PushAccount.apns(sandbox.apns.pushAccount), settings, log: logger)
        },
        Trial(name: "GracefulShutdown", isServer: true) { sandbox in
            let account = try PushAccount.apns(sandbox.apns.pushAccount)
            let recipient = Recipient.token(phone, service: .iOSAPNs)
            try await gracefulShutdown(account, phone: recipient, logger: Logger(label: "shop"))
            try expect(sandbox.apns.inbox.last?.token == phone, "a reminder was sent before the end")
        },
    ]

    /// The tokens of the service that sends text messages: phone numbers.
    private static let sms = TokenService(rawValue: "x-sms")

    /// A service of one's own that sends text messages; the sandbox has one.
    private static func textMessages(_ sandbox: Sandbox) throws -> ServiceOptions {
        ServiceOptions(
            url: try HTTPBaseURL(sandbox.service.url),
            secret: Secret(ServiceSimulator.secret),
            audience: BackendAudience(services: [sms]),
            common: CommonBackendOptions(trustPEM: sandbox.authority.certificatePEM)
        )
    }

    private static func text(_ payload: [UInt8]?) -> String { String(decoding: payload ?? [], as: UTF8.self) }

    private static func expect(_ isSo: Bool, _ promise: String) throws {
        guard isSo else { throw Unexpected("expected: \(promise)") }
        print("  \(promise)")
    }
}
