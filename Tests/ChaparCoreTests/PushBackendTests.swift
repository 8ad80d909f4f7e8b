import Foundation
import ChaparCore
import Testing

@Suite("Sending through a backend in code", .timeLimit(.minutes(1)))
struct PushBackendTests {
    private struct Forgetful: PushBackend {
        let kind: BackendKind = "forgetful"
        let audience = BackendAudience(services: [.iOSAPNs], forms: [.topic])
        var schedulesMessages = false

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

    private static let tomorrow = PushNotification(title: "Happy birthday", sendAt: Date() + 86_400)

    private static func needsGateway(_ outcome: DeliveryOutcome) -> Bool {
        guard case .refused(let refusal) = outcome else { return false }
        return refusal.reason == "scheduling_needs_a_gateway" && refusal.advice == .never && refusal.kind == .message
            && refusal.detail?.contains("Gateway.accept") == true
    }

    @Test("A message with a time to send is refused, and goes out only where the platform keeps it")
    func scheduled() async {
        let backend = Forgetful()
        #expect(Self.needsGateway(await backend.send(Self.tomorrow, to: .topic("x"))))
        #expect(await backend.send(Self.tomorrow, to: [.topic("x"), .topic("y")]).allSatisfy(Self.needsGateway))
        let keeping = Forgetful(schedulesMessages: true)
        #expect(await keeping.send(Self.tomorrow, to: .topic("x")) == .accepted(Acceptance(platformID: "topic:x")))
        let past = PushNotification(title: "a", sendAt: Date() - 1)
        #expect(await backend.send(past, to: .topic("x")) == .accepted(Acceptance(platformID: "topic:x")))
    }

    @Test("Of several messages only the scheduled one is refused, and each outcome keeps its place")
    func someScheduled() async {
        let rows = await Forgetful().send([
            PushRequest(PushNotification(title: "a"), to: [Addressee(.topic("x"))]),
            PushRequest(Self.tomorrow, to: [Addressee(.topic("y")), Addressee(.topic("z"))]),
            PushRequest(PushNotification(title: "b"), to: [Addressee(.topic("w"))]),
        ])
        #expect(rows[0] == [.accepted(Acceptance(platformID: "topic:x"))])
        #expect(rows[1].count == 2 && rows[1].allSatisfy(Self.needsGateway))
        #expect(rows[2] == [.accepted(Acceptance(platformID: "topic:w"))])
    }

    @Test("The check says so too")
    func checkOfScheduled() {
        let faults = Forgetful().check(Self.tomorrow, to: .topic("x")).faults
        #expect(faults.map(\.code) == ["scheduling_needs_a_gateway"])
        #expect(faults.map(\.pointer) == ["#/options/send_at"])
        #expect(Forgetful(schedulesMessages: true).check(Self.tomorrow, to: .topic("x")) == PayloadCheck())
        #expect(Forgetful().check(PushNotification(title: "a"), to: .topic("x")) == PayloadCheck())
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
