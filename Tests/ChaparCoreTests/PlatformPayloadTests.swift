import Foundation
import ChaparCore
import Testing

/// A platform's value that takes one member, and refuses `red`.
private struct Paint: PlatformPayload {
    static let kind: BackendKind = "paint"
    var name = "color"
    var color: String
    var overrides: JSONObject { ["coat": [(name): .string(color)]] }

    static func faults(in notification: PushNotification) -> [Finding] {
        guard notification.overrides["paint"]?["coat"]?["color"] == "red" else { return [] }
        return [Finding(pointer: "#/overrides/paint/coat/color", code: "wrong_value", detail: "No red.")]
    }
}

/// A value of another platform.
private struct Ink: PlatformPayload {
    static let kind: BackendKind = "ink"
    var overrides: JSONObject { ["pot": 1] }
    static func faults(in notification: PushNotification) -> [Finding] { [] }
}

@Suite("Platforms' own values", .timeLimit(.minutes(1)))
struct PlatformPayloadTests {
    @Test("Each becomes the overrides of its kind, and the rest of the notification stays")
    func kinds() throws {
        let notification = PushNotification(title: "Parcel", overrides: ["paint": ["lid": true]])
        let painted = try notification.with(Paint(color: "blue"), Ink())
        #expect(painted.title == "Parcel")
        #expect(painted.overrides == ["paint": ["lid": true, "coat": ["color": "blue"]], "ink": ["pot": 1]])
        #expect(notification.overrides == ["paint": ["lid": true]], "the original is as it was")
    }

    @Test("Values of one kind add up, and the later one wins")
    func sum() throws {
        let painted = try PushNotification().with(
            Paint(color: "blue"),
            Paint(name: "finish", color: "matt"),
            Paint(color: "green")
        )
        #expect(painted.overrides["paint"] == ["coat": ["color": "green", "finish": "matt"]])
    }

    @Test("A value that the platform would refuse is one error that names the field")
    func refusal() {
        let error = #expect(throws: PayloadError.self) {
            try PushNotification().with(Paint(color: "red"), Paint(name: "finish", color: "matt"))
        }
        #expect(error?.faults.map(\.pointer) == ["#/overrides/paint/coat/color"])
        #expect(error?.description == "#/overrides/paint/coat/color: No red.")
    }

    private struct Ride: Encodable {
        var stopsLeft = 3
        var driverName = "Ada"
        var since = Date(timeIntervalSinceReferenceDate: 12.5)
        var fare: Double? = 0.1
        var none: Int?
    }

    @Test("A Swift value is encoded as the default decoder reads it, its members in the order of their names")
    func encoding() throws {
        let value = try JSONValue(encoding: Ride())
        #expect(value.text == #"{"driverName":"Ada","fare":0.1,"since":12.5,"stopsLeft":3}"#)
        let ordered: JSONValue = ["z": 1, "a": 2]
        #expect(try JSONValue(encoding: ordered).text == #"{"z":1,"a":2}"#, "a JSON value goes through unchanged")
        #expect(throws: EncodingError.self) { try JSONValue(encoding: [Double.infinity]) }
    }

    static let spans: [(Duration, String)] = [
        (.seconds(3600), "3600s"), (.zero, "0s"), (.milliseconds(1500), "1.5s"), (.nanoseconds(1), "0.000000001s"),
        (.milliseconds(-500), "-0.5s"), (.milliseconds(-1500), "-1.5s"),
    ]

    @Test("A span is written in seconds, to the nanosecond", arguments: spans)
    func span(duration: Duration, expected: String) {
        #expect(JSONValue.span(duration) == .string(expected))
    }

    @Test("No date is too far off to be written")
    func dates() {
        #expect(JSONValue.seconds(Date(timeIntervalSince1970: 1_767_225_600.9)) == 1_767_225_600)
        #expect(JSONValue.seconds(Date(timeIntervalSince1970: 1e300)) == 9_000_000_000_000_000)
        #expect(JSONValue.seconds(Date(timeIntervalSince1970: -.infinity)) == -9_000_000_000_000_000)
        #expect(JSONValue.seconds(Date(timeIntervalSince1970: .nan)) == 0)
        #expect(JSONValue.number(2) == 2)
        #expect(JSONValue.number(0.5) == 0.5)
    }
}
