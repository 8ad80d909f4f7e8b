import ChaparCore
import Testing

@testable import ChaparAPNs

@Suite("Altcraft's marker over APNs", .timeLimit(.minutes(1)))
struct MarkerOverAPNsTests {
    @Test("A raw push with the marker in its data comes out as Altcraft's")
    func marker() throws {
        let payload = APNsPayload.encode(Marker.notification, language: nil, pushType: .alert, overrides: nil)
        try Marker.expect(in: try JSONValue(parsing: payload))
    }
}
