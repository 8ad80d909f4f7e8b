import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Attempts and events of what a platform accepted", .timeLimit(.minutes(1)))
struct AttemptTemplateTests {
    private static let time = Date(timeIntervalSince1970: 1_790_000_000.25)

    private static func claim(_ recipient: Recipient, place: Int64 = 0, plan: [String] = ["ios"]) -> ClaimedDelivery {
        let id = NotificationID(rawValue: 123_456_789_000)
        return ClaimedDelivery(
            id: id.rawValue + place,
            notificationID: id,
            content: .stored([]),
            recipient: recipient,
            plan: DeliveryPlan(plan),
            acceptedAt: time,
            expiresAt: time
        )
    }

    private static func token(_ value: String) -> Recipient { .token(DeviceToken(value, service: .iOSAPNs)) }

    private static let claims = [
        claim(token("00ff")), claim(token(String(repeating: "ab", count: 100)), place: 1_234_567),
        claim(token("a \"quoted\" \\ one\n")), claim(token("")), claim(token("ü{0}")), claim(.topic("news")),
        claim(.device("d1")), claim(token("00ff"), plan: ["other"]), claim(token("00ff"), plan: []),
    ]

    private static let acceptances = [
        Acceptance(platformID: "0F0E-1", status: 200), Acceptance(platformID: "a \"b\"", status: 200),
        Acceptance(status: 200), Acceptance(platformID: "x"), Acceptance(platformID: "x", trackingID: "y", status: 200),
        Acceptance(platformID: "x", isForAudience: true, status: 200),
        Acceptance(platformID: "x", isVerdictPending: true, status: 200),
        Acceptance(platformID: "x", isDryRun: true, status: 200), Acceptance(platformID: "x", status: 201),
    ]

    @Test("They are what EventJSON writes, byte for byte", arguments: acceptances, claims)
    func same(acceptance: Acceptance, claim: ClaimedDelivery) {
        let json = AttemptTemplate(backend: "ios")
        let moment = AttemptTemplate.Moment(Self.time)
        for service in [nil, TokenService.iOSAPNs] {
            let attempt = json.attempt(acceptance, service: service, at: moment)
            let other = EventJSON.attempt(
                .accepted(acceptance),
                backend: "ios",
                at: Self.time,
                retryAt: nil,
                service: service
            )
            #expect(String(decoding: attempt, as: UTF8.self) == String(decoding: other, as: UTF8.self))
            let event = json.event(claim, attempt: attempt, at: moment)
            let general = EventJSON.delivery(claim, state: .acceptedByPlatform, at: Self.time, attempt: attempt)
            #expect(String(decoding: event, as: UTF8.self) == String(decoding: general, as: UTF8.self))
        }
    }
}
