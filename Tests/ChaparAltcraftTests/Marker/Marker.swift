import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAltcraft

/// A raw push with Altcraft's marker in its data, as another platform's plugin takes it to the phone.
enum Marker {
    static let notification = PushNotification(
        title: "Order 118",
        body: "On its way",
        data: ["_ac_push": true, "_uid": "m-7f31c0", "_buttons": #"[{"label":"Track","link":"https://x.test"}]"#]
    )

    /// Reads a platform's message as Altcraft's library on the phone does.
    static func expect(in message: JSONValue) throws {
        let read = try #require(message.objectValue.flatMap(AltcraftReceivedPush.init), "\(message.text)")
        #expect(read.uid == "m-7f31c0" && read.buttons.map(\.label) == ["Track"])
    }
}
