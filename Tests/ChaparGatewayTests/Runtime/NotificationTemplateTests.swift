import Foundation
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Events of notifications that were accepted together", .timeLimit(.minutes(1)))
struct NotificationTemplateTests {
    private static let time = Date(timeIntervalSince1970: 1_790_000_000.25)

    @Test("Events are what EventJSON writes, byte for byte", arguments: ["", "shop"])
    func events(caller: String) {
        var json = NotificationTemplate(at: Self.time, caller: caller)
        let titles = ["Hello", "سلام", "", "a \"quoted\" \\ one\n", nil, "Hello"]
        for (state, recipients, backend) in [
            (DeliveryState.queued, 1, "ios"), (.scheduled, 300, "fcm"), (.queued, 1, "ios"),
        ] {
            for (place, title) in titles.enumerated() {
                let id = NotificationID(rawValue: 123_456_789_000 + Int64(place))
                let plan = DeliveryPlan([backend, "other"])
                let record = NotificationRecord(content: [], plans: [plan], acceptedAt: Self.time)
                let event = json.event(id, state: state, recipients: recipients, record: record, title: title)
                let general = EventJSON.accepted(
                    id,
                    at: Self.time,
                    state: state,
                    recipients: recipients,
                    record: record,
                    title: title,
                    caller: caller
                )
                #expect(String(decoding: event, as: UTF8.self) == String(decoding: general, as: UTF8.self))
            }
        }
    }

    @Test("Answers are what the general writer writes, byte for byte")
    func answers() {
        let id = NotificationID(rawValue: 123_456_789_000)
        let warning = Finding(pointer: "#/content", code: "c", detail: "d")
        func accepted(_ state: DeliveryState, _ recipients: Int?, _ warnings: [Finding] = [])
            -> NotificationIntake.Enqueued
        {
            NotificationIntake.Enqueued(
                id: id,
                state: state,
                recipients: recipients,
                warnings: warnings,
                labels: AcceptanceLabels(route: "direct")
            )
        }
        let all = [
            accepted(.queued, 1), accepted(.scheduled, 1), accepted(.queued, 2), accepted(.queued, nil),
            accepted(.queued, 1, [warning]),
        ]
        var writer = JSONWriter()
        var general = JSONWriter()
        writer.beginArray()
        general.beginArray()
        for accepted in all + all {
            NotificationTemplate.write(accepted, to: &writer)
            general.beginObject()
            general.name("status")
            general.integer(202)
            accepted.write(to: &general, stateName: "state")
            general.endObject()
        }
        writer.endArray()
        general.endArray()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == String(decoding: general.bytes, as: UTF8.self))
    }
}
