import Foundation
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

@testable import ChaparFCM

/// Google's advice to senders of many messages, as far as it concerns a backend.
///
/// Sources: Firebase, "Best practices for FCM registration management" and "Best practices when sending FCM messages at
/// scale", read 2026-11.
@Suite("Google's advice for large senders", .timeLimit(.minutes(1)))
struct FCMAdviceTests {
    private static let now = Date(timeIntervalSince1970: 1_767_225_600)

    private static func request(_ service: TokenService, daysAgo days: Double?) -> PushRequest {
        PushRequest(
            PushNotification(title: "Parcel"),
            to: [Addressee(recipient(goodToken, service), lastSeen: days.map { now.addingTimeInterval(-$0 * 86_400) })]
        )
    }

    @Test(
        "An Android device that was not seen for 270 days gets nothing, and keeps its token",
        arguments: [
            (TokenService.androidFirebase, 270.1, true), (.androidFirebase, 269.9, false),
            (.androidFirebase, nil, false),
            (.iOSFirebase, 400, false), (.webFirebase, 400, false),
        ] as [(TokenService, Double?, Bool)]
    )
    func stale(service: TokenService, days: Double?, isLeftOut: Bool) async throws {
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let backend = try FCMBackend.scripted(transport, time: ManualTime(Self.now))
        let outcome = await backend.send([Self.request(service, daysAgo: days)])[0][0]
        #expect(transport.calls.count == (isLeftOut ? 0 : 1))
        #expect((outcome.acceptance == nil) == isLeftOut)
        guard isLeftOut else { return }
        let refusal = try #require(outcome.refusal)
        #expect(refusal.reason == "stale_token" && refusal.kind == .token)
        #expect(refusal.advice == .never && refusal.invalidation == nil, "another backend may reach it")
    }

    @Test(
        "Within two minutes of a quarter of an hour less is sent at once",
        arguments: [
            (0, true), (119, true), (120, false), (780, false), (781, true), (899, true), (450, false), (900, true),
        ]
    )
    func quarterHours(second: Int, isNear: Bool) throws {
        let time = ManualTime(Self.now.addingTimeInterval(Double(second)))
        let transport = ScriptedTransport { _ in .success(.fcmAccepted) }
        let backend = try FCMBackend.scripted(transport, time: time)
        #expect(backend.window == (isNear ? 25 : 100))
    }
}
