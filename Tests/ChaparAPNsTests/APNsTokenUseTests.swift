import ChaparCore
import Testing

@testable import ChaparAPNs

@Suite("Which token a push goes to")
struct APNsTokenUseTests {
    private static func use(_ type: String?, _ aps: JSONObject = [:], activity: String? = nil) -> TokenUse? {
        var members: JSONObject = ["payload": ["aps": .object(aps)]]
        if let type { members["headers"] = ["apns-push-type": .string(type)] }
        return APNsOverrides(members).tokenUse(activity: activity)
    }

    @Test("Each push type has the kind of its tokens")
    func types() {
        let kinds = APNsPushType.allCases.filter { $0 != .liveactivity }.map { Self.use($0.rawValue)?.kind }
        #expect(
            kinds == [
                .device, .device, .controls, .complication, .fileProvider, .location, .device, .pushToTalk, .voip,
                .widgets,
            ]
        )
        #expect(Self.use(nil) == TokenUse(.device))
    }

    @Test("A start goes to the attributes' type, what follows to the activity, and the end is the last")
    func activities() {
        let start: JSONObject = ["event": "start", "attributes-type": "Order"]
        #expect(Self.use("liveactivity", start) == TokenUse(.liveActivityStart(attributesType: "Order")))
        let update = TokenKind.liveActivityUpdate(activity: "42")
        #expect(Self.use("liveactivity", ["event": "update"], activity: "42") == TokenUse(update))
        #expect(Self.use("liveactivity", ["event": "end"], activity: "42") == TokenUse(update, isLast: true))
    }

    @Test("A message that fits no token of a device gets no token")
    func none() {
        #expect(Self.use("liveactivity", ["event": "start"]) == nil)
        #expect(Self.use("liveactivity", ["event": "update"]) == nil)
        #expect(Self.use("liveactivity", ["event": "start", "attributes-type": "Order"], activity: "42") == nil)
        #expect(Self.use("alert", activity: "42") == nil)
        #expect(Self.use(nil, activity: "42") == nil)
    }
}
