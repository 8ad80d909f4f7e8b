import ChaparCore
import Testing

@testable import ChaparFCM

@Suite("Altcraft's marker over FCM", .timeLimit(.minutes(1)))
struct MarkerOverFCMTests {
    @Test("A raw push with the marker in its data comes out as Altcraft's")
    func marker() throws {
        let payload = FCMPayload(notification: Marker.notification, overrides: nil, label: nil, life: .init())
        for platform in [FCMTarget.Class.android, .iOS] {
            try Marker.expect(in: try JSONValue(parsing: payload.encoded(for: platform, language: nil)))
        }
    }
}
