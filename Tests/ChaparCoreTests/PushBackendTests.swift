import ChaparCore
import Testing

@Suite("Sending through a backend in code", .timeLimit(.minutes(1)))
struct PushBackendTests {
    private struct Forgetful: PushBackend {
        let kind: BackendKind = "forgetful"
        let audience = BackendAudience(services: [.iOSAPNs], forms: [.topic])

        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            for (row, request) in requests.enumerated() {
                for place in request.recipients.indices.reversed() where place != 1 {
                    let id = request.recipients[place].recipient.storedForm
                    report([
                        DeliveryReport(request: row, recipient: place, outcome: .accepted(Acceptance(platformID: id)))
                    ])
                }
            }
        }
    }

    @Test("Outcomes come back in the order of the recipients, and one that is never reported is unknown")
    func order() async {
        let outcomes = await Forgetful().send(
            PushNotification(title: "a"),
            to: [.topic("x"), .topic("y"), .topic("z")]
        )
        #expect(
            outcomes == [
                .accepted(Acceptance(platformID: "topic:x")), .unknown(UnknownOutcome(reason: "not_reported")),
                .accepted(Acceptance(platformID: "topic:z")),
            ]
        )
    }

    @Test("An audience holds services for tokens and forms for the rest")
    func audience() {
        let audience = Forgetful().audience
        #expect(audience.contains(.token(DeviceToken("a", service: .iOSAPNs))))
        #expect(!audience.contains(.token(DeviceToken("a", service: .androidFirebase))))
        #expect(audience.contains(.topic("x")))
        #expect(!audience.contains(.everyone))
    }
}
