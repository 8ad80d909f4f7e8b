import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Foundation
import HTTPTypes
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Reports about deliveries that are worked on", .timeLimit(.minutes(1)))
struct EarlyReportsTests {
    /// The ways by which a report comes.
    enum Way: CaseIterable {
        case app, platform, click, device
    }

    /// Reads the platform's id of the message from everything.
    struct Reader: ReceiptReader, ClickReader {
        func isAuthentic(head callback: ReceiptCallback) throws(ReceiptRefusal) -> Bool { true }
        func receipts(in callback: ReceiptCallback) throws(ReceiptRefusal) -> [DeliveryReceipt] {
            [DeliveryReceipt(.delivered, platformID: "P-1", token: "t", reason: "delivered", at: .distantPast)]
        }
        var acknowledgement: [UInt8] { Array("{}".utf8) }

        func read(_ click: ReportedClick) async throws(PushError) -> ClickResult {
            let receipt = DeliveryReceipt(.delivered, platformID: "P-1", reason: "delivered", at: click.at)
            return ClickResult(receipt: receipt, notification: JSONObject(), forwarding: nil)
        }
    }

    private static let recipient = Recipient.token(DeviceToken("t", service: .androidFirebase))
    private static let accepted = Array(
        #"{"at":"1","backend":"android","outcome":"accepted","platform_id":"P-1"}"#.utf8
    )

    private let harness: APIHarness

    init() {
        var backend = StubBackend.android
        backend.receipts = Reader()
        backend.clicks = Reader()
        harness = APIHarness(backends: [.ios, backend]) { $0.receipts[.default] = .init() }
    }

    /// A message that android takes, and for which ios takes over.
    private func accept(at step: Int) async throws -> NotificationID {
        var plan = DeliveryPlan(["android", "ios"])
        plan.escalation = Escalation(step: step, after: .seconds(120), unless: .delivered)
        let new = NewNotification(
            id: harness.store.makeID(recipients: 1),
            notification: PushNotification(title: "t"),
            record: NotificationRecord(
                content: Array("{}".utf8),
                plans: [plan],
                acceptedAt: harness.time.now
            ),
            recipients: [Self.recipient],
            caller: "",
            expiresAt: harness.time.now + 3_600,
            event: Array("{}".utf8)
        )
        _ = try await harness.store.enqueue(EnqueueBatch([new]))
        return new.id
    }

    /// Registers the phone that gets it.
    private func register() async throws {
        var device = Device(id: "phone", createdAt: harness.time.now)
        device.tokens = [RegisteredToken(DeviceToken("t", service: .androidFirebase), registeredAt: device.createdAt)]
        _ = try await harness.devices.put([device])
    }

    /// Lets android take it, so that it waits for a report.
    private func hold() async throws {
        let later = Resolution.Transition.retry(at: harness.time.steady + 120, step: 1)
        let address = ReceiptAddress(backend: "android", platformID: "P-1", token: "t")
        try await harness.store.record(
            try await claim("android").map {
                Resolution(of: $0, later, attempt: Self.accepted, mayHaveBeenSent: true, receipt: address)
            }
        )
    }

    private func claim(_ backend: String) async throws -> [ClaimedDelivery] {
        try await harness.store.claim(backend: backend, limit: 1, wait: .zero)
    }

    private func report(_ way: Way, _ id: NotificationID) async throws -> APIHarness.Reply {
        var path = "/v1/backends/android/receipts"
        var body = "{}"
        switch way {
        case .app:
            let stamp = try await harness.state.receiptKeys.stamp(for: .default, at: harness.time.now)
            path = "/v1/receipts/\(stamp.id(of: .delivery(id.rawValue)))"
            body = #"{"event":"delivered"}"#
        case .platform: break
        case .click:
            path = "/v1/backends/android/clicks"
            body = #"{"user_info":{"id":"P-1"}}"#
        case .device:
            path = "/v1/devices/phone/events"
            body = #"{"event":"delivered","notification":"\#(id)"}"#
        }
        return try await harness.send(.post, path, body, headers: [.contentType: "application/json"])
    }

    /// Reports, and lets the time of the second look pass.
    private func reportEarly(_ way: Way, _ id: NotificationID) async throws -> APIHarness.Reply {
        async let reply = report(way, id)
        if way == .app || way == .platform {
            try await eventually("the second look") { harness.time.sleeping > 0 }
            harness.time.advance(by: AppReceiptsAPI.earlyDelay)
        }
        return try await reply
    }

    @Test("while another backend takes over are asked to come again, and count then", arguments: Way.allCases)
    func takeOver(way: Way) async throws {
        try await register()
        let id = try await accept(at: 1)
        try await hold()
        harness.time.advance(by: .seconds(121))
        let claimed = try await claim("ios")
        #expect(claimed.count == 1)
        for _ in 1...2 {
            let reply = try await reportEarly(way, id)
            #expect(reply.status == 503 && reply.code == "report_early", "\(reply.text)")
            #expect(reply.headers[.retryAfter] != nil)
        }
        let limited = Array(#"{"at":"2","outcome":"none","reason":"escalation_limit"}"#.utf8)
        try await harness.store.record(claimed.map { Resolution(of: $0, .reached(step: 0), attempt: limited) })
        let reply = try await report(way, id)
        #expect((200..<300).contains(reply.status), "\(reply.text)")
        #expect(try await harness.store.notification(id)?.counts == [.delivered: 1])
    }

    @Test("while nothing has taken over yet end the wait, whichever way they come", arguments: Way.allCases)
    func waiting(way: Way) async throws {
        try await register()
        let id = try await accept(at: 1)
        try await hold()
        let reply = try await report(way, id)
        #expect((200..<300).contains(reply.status), "\(reply.text)")
        #expect(try await harness.store.notification(id)?.counts == [.delivered: 1])
        harness.time.advance(by: .seconds(121))
        #expect(try await claim("ios").isEmpty)
    }

    @Test("of an app, while a message that may have arrived waits for its next attempt, come again too")
    func retrying() async throws {
        let id = try await accept(at: 2)
        let later = Resolution.Transition.retry(at: harness.time.steady + 60, step: 0)
        let unknown = Array(#"{"at":"1","backend":"android","outcome":"unknown","reason":"timeout"}"#.utf8)
        try await harness.store.record(
            try await claim("android").map { Resolution(of: $0, later, attempt: unknown, mayHaveBeenSent: true) }
        )
        #expect(try await reportEarly(.app, id).status == 503)
        harness.time.advance(by: .seconds(61))
        try await harness.store.record(
            try await claim("android").map { Resolution(of: $0, .end(.acceptedByPlatform), attempt: Self.accepted) }
        )
        #expect(try await report(.app, id).status == 204)
        #expect(try await harness.store.notification(id)?.counts == [.delivered: 1])
    }
}
