import HTTPTypes
import ChaparCore
import ChaparComposition
import ChaparQueue
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// Lists of recipients as exports give them: with repeats, and tokens in several spellings.
@Suite("A list of recipients", .timeLimit(.minutes(1)))
struct APIRecipientListTests {
    private static func body(_ tokens: [String], _ more: String = "") -> String {
        let list = tokens.map { #"{"token":"\#($0)","service":"ios-apns"}"# }.joined(separator: ",")
        return #"{"to":{"tokens":[\#(list)]},"content":{"title":"x"}\#(more)}"#
    }

    private static func warnings(_ reply: APIHarness.Reply) -> [String] {
        (reply.json["warnings"]?.arrayValue ?? []).map {
            "\($0["pointer"]?.stringValue ?? "") \($0["code"]?.stringValue ?? "")"
        }
    }

    @Test("with repeats sends to each once, and a warning counts them")
    func repeats() async throws {
        let harness = APIHarness(backends: [.strict])
        let reply = try await harness.post(Self.body(["aa", "bb", "AA", "cc", "bb"]))
        #expect(reply.status == 202, "\(reply.text)")
        #expect(reply.json["recipients"]?["count"] == 3)
        #expect(Self.warnings(reply) == ["#/to/tokens/2 repeated_recipient"])
        let detail = reply.json["warnings"]?.arrayValue?.first?["detail"]?.stringValue ?? ""
        #expect(detail.contains("2 recipients"), "\(detail)")
        let recipients = harness.store.accepted.first?.recipients
        #expect(recipients == ["aa", "bb", "cc"].map { Recipient.token(DeviceToken($0, service: .iOSAPNs)) })
    }

    @Test("of one recipient twice is a list of one")
    func pair() async throws {
        let harness = APIHarness(backends: [.strict])
        let reply = try await harness.post(Self.body(["aa", "aa"]))
        #expect(reply.status == 202 && reply.json["recipients"]?["count"] == 1, "\(reply.text)")
        #expect(Self.warnings(reply) == ["#/to/tokens/1 repeated_recipient"])
    }

    @Test("names a wrong recipient by its place in the request, also after repeats")
    func places() async throws {
        let harness = APIHarness(backends: [.ios])
        let tokens = ["ios-apns", "ios-apns", "android-huawei"].map { #"{"token":"a","service":"\#($0)"}"# }
        let body = #"{"to":{"tokens":[\#(tokens.joined(separator: ","))]},"content":{"title":"x"}}"#
        #expect(try await harness.post(body).errors == ["#/to/tokens/2 audience_not_supported"])
        let devices = #"{"to":{"devices":["d","d","e"]},"content":{"title":"x"}}"#
        let reply = try await harness.post(devices)
        #expect(reply.errors == ["#/to/devices/0 unknown_device", "#/to/devices/2 unknown_device"], "\(reply.text)")
    }

    @Test("names a user without devices by the place in the request, also after repeats")
    func users() async throws {
        let harness = APIHarness(backends: [.ios])
        _ = try await harness.send(.put, "/v1/devices/phone", #"{"user":"ali","tokens":{"ios-apns":"a"}}"#)
        let reply = try await harness.post(#"{"to":{"users":["ali","ali","sara"]},"content":{"title":"x"}}"#)
        #expect(reply.status == 202, "\(reply.text)")
        #expect(Self.warnings(reply) == ["#/to/users/1 repeated_recipient", "#/to/users/2 no_device"])
    }

    @Test("holds tokens in the form of their platform, and a text that is none is refused")
    func forms() async throws {
        let harness = APIHarness(backends: [.strict])
        #expect(try await harness.post(Self.body(["4F1C"])).status == 202)
        #expect(harness.store.accepted.first?.recipients == [.token(DeviceToken("4f1c", service: .iOSAPNs))])
        let wrong = try await harness.post(Self.body(["aa", "malformed"]))
        #expect(wrong.errors == ["#/to/tokens/1/token malformed_token"], "\(wrong.text)")
        #expect(harness.store.accepted.count == 1)
    }

    @Test("may be a topic only if the first backend's platform can have it")
    func topics() async throws {
        var android = StubBackend.android
        android.malformed = "my news"
        let harness = APIHarness(backends: [android])
        let body = #"{"to":{"topic":"my news"},"content":{"title":"x"}}"#
        #expect(try await harness.post(body).errors == ["#/to/topic malformed_topic"])
        #expect(harness.store.accepted.isEmpty)
        let fallback = APIHarness(backends: [.crm, android]) { configuration in
            configuration.routes = [GatewayConfiguration.Route(plan: DeliveryPlan(["crm", "android"]))]
        }
        #expect(try await fallback.post(body).status == 202)
    }
}
