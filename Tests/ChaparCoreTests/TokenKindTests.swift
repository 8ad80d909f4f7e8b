import Foundation
import ChaparCore
import ChaparQueue
import Testing

@Suite("Kinds of tokens")
struct TokenKindTests {
    @Test(
        "A slot is written and read back",
        arguments: [
            "ios-apns", "ios-apns/voip", "ios-apns/file_provider", "x-own/push_to_talk",
            "ios-apns/live_activity_start/Shop.OrderAttributes", "ios-apns/live_activity_update/order:42",
        ]
    )
    func slots(text: String) {
        #expect(TokenSlot(text)?.description == text)
    }

    @Test("The kind of an own token may be written out") func own() {
        #expect(TokenSlot("ios-apns/device") == TokenSlot(.iOSAPNs))
        #expect(TokenSlot("ios-apns/device")?.description == "ios-apns")
    }

    @Test(
        "A text that names no kind of token is not parsed",
        arguments: [
            "ios-apns/", "ios-apns/phone", "ios-apns/voip/", "ios-apns/voip/x", "ios-apns/live_activity_update",
            "ios-apns/live_activity_update/", "ios-apns/live_activity_update/a b", "ios-apns/live_activity_start/a/b",
            "ios-apns/live_activity_update/" + String(repeating: "a", count: 129),
        ]
    )
    func foreign(text: String) {
        #expect(TokenSlot(text) == nil)
    }

    private static func token(_ name: String, _ kind: TokenKind = .device, at second: Double = 0) -> RegisteredToken {
        let moment = Date(timeIntervalSince1970: second)
        return RegisteredToken(DeviceToken(name, service: .iOSAPNs), kind: kind, registeredAt: moment)
    }

    /// Which answers are about which tokens: those about another topic are not.
    static let answers: [(TokenKind, TokenKind, Bool)] = [
        (.device, .device, true), (.device, .voip, false), (.device, .complication, false),
        (.device, .liveActivityUpdate(activity: ""), false), (.voip, .voip, true), (.voip, .device, false),
        (.complication, .complication, true), (.widgets, .controls, false),
        (.liveActivityStart(attributesType: "A"), .liveActivityStart(attributesType: "A"), true),
        (.liveActivityUpdate(activity: "a"), .liveActivityUpdate(activity: ""), true),
        (.liveActivityUpdate(activity: "a"), .liveActivityStart(attributesType: "A"), true),
        (.liveActivityUpdate(activity: "a"), .device, false),
    ]

    @Test("A token dies by an answer to a message for tokens of its kind, and by no other", arguments: answers)
    func refusals(kind: TokenKind, other: TokenKind, isMeant: Bool) {
        let (token, moment) = (Self.token("t", kind), Date(timeIntervalSince1970: 9))
        let refusal = TokenRefusal(token.token, kind: other, asOf: moment, at: moment, backend: "ios", reason: "Gone")
        for isQuarantined in [false, true] {
            #expect((token.refused(refusal, isQuarantined: isQuarantined) != nil) == isMeant)
        }
        #expect((token.effect(of: refusal) == RegisteredToken.RefusalEffect.none) != isMeant)
    }

    @Test("Beyond the bound the token that was registered first goes, and never an app's own")
    func bound() {
        var device = Device(id: "a", tokens: [Self.token("own")], createdAt: .distantPast)
        for number in 0...Device.maximumKindTokens {
            // The newest names come first in order, so that age and order differ.
            let kind = TokenKind.liveActivityUpdate(activity: "z-\(100 - number)")
            device.setToken(Self.token("t-\(number)", kind, at: Double(number + 1)))
        }
        #expect(device.tokens.count == Device.maximumKindTokens + 1)
        #expect(device.token(of: .iOSAPNs)?.token.value == "own")
        #expect(!device.tokens.contains { $0.token.value == "t-0" })
        #expect(device.tokens.contains { $0.token.value == "t-1" })
        #expect(device.tokens == device.tokens.sorted { $0.slot < $1.slot })
    }

    @Test("A registration that takes the place of another one keeps its own tokens, then the youngest of the old ones")
    func replaced() {
        func device(_ numbers: Range<Int>, _ name: String) -> Device {
            let tokens = numbers.map { number in
                let kind = TokenKind.liveActivityUpdate(activity: "\(name)-\(number)")
                return Self.token("\(name)-\(number)", kind, at: Double(number))
            }
            return Device(id: "a", tokens: tokens, createdAt: .distantPast)
        }
        let most = Device.maximumKindTokens
        let old = device(0..<most, "a")
        #expect(device(100..<100 + most, "b").replacing(old).tokens == device(100..<100 + most, "b").tokens)
        let mixed = device(100..<102, "b").replacing(old).tokens.map(\.token.value)
        #expect(mixed.count == most)
        #expect(Set(mixed) == Set((2..<most).map { "a-\($0)" } + ["b-100", "b-101"]))
    }

    @Test("A backend gets a token of the kind that it asks for, and no other")
    func choice() {
        let device = Device(
            id: "a",
            tokens: [Self.token("own"), Self.token("call", .voip)],
            createdAt: .distantPast
        )
        let audience = BackendAudience(services: [.iOSAPNs])
        #expect(device.token(for: audience, of: "ios")?.token.value == "own")
        #expect(device.token(for: audience, of: "ios", kind: .voip)?.token.value == "call")
        #expect(device.token(for: audience, of: "ios", kind: .widgets) == nil)
    }
}
