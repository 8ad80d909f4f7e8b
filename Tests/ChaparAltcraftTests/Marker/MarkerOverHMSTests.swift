import Foundation
import ChaparCore
import Testing

@testable import ChaparHMS

@Suite("Altcraft's marker over HMS", .timeLimit(.minutes(1)))
struct MarkerOverHMSTests {
    @Test("A raw push with the marker in its data comes out as Altcraft's")
    func marker() throws {
        let message = HMSPayloadTree.make(
            PushRequest(Marker.notification, to: []),
            form: .android,
            language: nil,
            options: HMSOptions(credential: .client(id: "1", secret: Secret("s")), api: .v1(appID: "1")),
            now: Date(timeIntervalSince1970: 0)
        )
        try Marker.expect(in: .object(message))
    }
}
