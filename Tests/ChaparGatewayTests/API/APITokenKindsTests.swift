import Foundation
import HTTPTypes
import HummingbirdCore
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("Tokens of several kinds over HTTP", .timeLimit(.minutes(1)))
struct APITokenKindsTests {
    @Test("are registered by name or by their members, shown alike, and taken back again")
    func forms() async throws {
        let harness = APIHarness()
        let named = #"{"tokens":{"ios-apns":"4F1C","ios-apns/live_activity_update/order-42":"C3D9"}}"#
        let put = try await harness.send(.put, "/v1/devices/a", named)
        #expect(put.status == 201, "\(put.text)")
        let told = #"{"tokens":{"ios-apns":{"token":"C3D9","kind":"live_activity_update","activity":"order-42"}}}"#
        let other = try await harness.send(.put, "/v1/devices/b", told)
        #expect(other.status == 201, "\(other.text)")
        let name = "ios-apns/live_activity_update/order-42"
        let token = try #require(other.json["tokens"]?[name])
        #expect(token["kind"] == "live_activity_update")
        #expect(token["activity"] == "order-42")
        #expect(token["attributes_type"] == nil)
        let start = #"{"tokens":{"ios-apns":{"token":"80A1","kind":"live_activity_start","attributes_type":"Order"}}}"#
        let patched = try await harness.send(.patch, "/v1/devices/b", start)
        #expect(patched.json["tokens"]?["ios-apns/live_activity_start/Order"]?["attributes_type"] == "Order")
        #expect(patched.json["tokens"]?[name] == token)
        let again = try await APIHarness().send(.put, "/v1/devices/b", patched.text)
        #expect(again.json["tokens"] == patched.json["tokens"], "\(again.text)")
        // The first device has lost it: a token is of one.
        let first = try await harness.send(.get, "/v1/devices/a")
        #expect(first.json["tokens"]?.objectValue?.members.map(\.name) == ["ios-apns"])
    }

    @Test("stay when the device is registered anew, and go with null")
    func registrations() async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/a", #"{"tokens":{"ios-apns":"4F1C","ios-apns/voip":"AA"}}"#)
        harness.time.advance(by: .seconds(60))
        let anew = try await harness.send(.put, "/v1/devices/a", #"{"tokens":{"ios-apns":"4F1D"}}"#)
        #expect(anew.json["tokens"]?["ios-apns/voip"]?["token"] == "AA")
        #expect(anew.json["tokens"]?["ios-apns"]?["token"] == "4F1D")
        let without = try await harness.send(.patch, "/v1/devices/a", #"{"tokens":{"ios-apns/voip":null}}"#)
        #expect(without.json["tokens"]?.objectValue?.count == 1)
    }

    @Test("are not removed by a registration, which says so")
    func nullInRegistration() async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/a", #"{"tokens":{"ios-apns":"4F1C","ios-apns/voip":"AA"}}"#)
        let put = try await harness.send(.put, "/v1/devices/a", #"{"tokens":{"ios-apns/voip":null}}"#)
        #expect(put.status == 422)
        #expect(put.errors == ["#/tokens/ios-apns~1voip null_in_registration"])
        let batch = #"{"devices":[{"id":"a","tokens":{"ios-apns/voip":null}}]}"#
        let refused = try await harness.send(.post, "/v1/devices/batch", batch)
        #expect(refused.text.contains("null_in_registration"), "\(refused.text)")
        let device = try await harness.send(.get, "/v1/devices/a")
        #expect(device.json["tokens"]?.objectValue?.count == 2)
    }

    private static let wrong: [(body: String, pointer: String, code: String)] = [
        (#"{"tokens":{"ios-apns/call":"AA"}}"#, "#/tokens/ios-apns~1call", "unknown_kind"),
        (
            #"{"tokens":{"ios-apns/live_activity_update":"AA"}}"#, "#/tokens/ios-apns~1live_activity_update",
            "unknown_kind"
        ),
        (#"{"tokens":{"apple/voip":"AA"}}"#, "#/tokens/apple~1voip", "unknown_service"),
        (#"{"tokens":{"ios-apns":{"token":"AA","kind":"call"}}}"#, "#/tokens/ios-apns/kind", "unknown_kind"),
        (
            #"{"tokens":{"ios-apns":{"token":"AA","kind":"live_activity_update"}}}"#, "#/tokens/ios-apns/kind",
            "unknown_kind"
        ),
        (
            #"{"tokens":{"ios-apns":{"token":"AA","kind":"voip","activity":"x"}}}"#, "#/tokens/ios-apns/kind",
            "unknown_kind"
        ),
        (
            #"{"tokens":{"ios-apns/voip":{"token":"AA","kind":"widgets"}}}"#, "#/tokens/ios-apns~1voip/kind",
            "other_kind"
        ),
        (
            #"{"tokens":{"ios-apns/voip":"AA","ios-apns":{"token":"AB","kind":"voip"}}}"#, "#/tokens/ios-apns",
            "repeated_field"
        ),
    ]

    @Test("are refused by field when they are none", arguments: wrong)
    func refused(body: String, pointer: String, code: String) async throws {
        let harness = APIHarness()
        let reply = try await harness.send(.put, "/v1/devices/a", body)
        #expect(reply.status == 422)
        let error = try #require(reply.json["errors"]?.arrayValue?.first)
        #expect(error["pointer"] == .string(pointer), "\(reply.text)")
        #expect(error["code"] == .string(code), "\(reply.text)")
        #expect(try await harness.send(.get, "/v1/devices/a").status == 404)
    }

    @Test("and too many of them are refused") func tooMany() async throws {
        let harness = APIHarness()
        let list = (0..<65).map { #""ios-apns/live_activity_update/a\#($0)":"AA\#($0 + 10)""# }
        let reply = try await harness.send(.put, "/v1/devices/a", "{\"tokens\":{\(list.joined(separator: ","))}}")
        #expect(reply.status == 422)
        #expect(reply.json["errors"]?.arrayValue?.first?["code"] == "too_many_tokens", "\(reply.text)")
    }

    @Test("An activity that is none, or that no device shows, is refused by field")
    func activities() async throws {
        let harness = APIHarness()
        for (to, code) in [(#"{"activity":"a b"}"#, "bad_activity"), (#"{"activity":"a"}"#, "audience_empty")] {
            let body = #"{"to":\#(to),"content":{"title":"x"}}"#
            let reply = try await harness.send(.post, "/v1/notifications", body)
            #expect(reply.status == 422)
            let error = try #require(reply.json["errors"]?.arrayValue?.first)
            #expect(error["pointer"] == "#/to/activity")
            #expect(error["code"] == .string(code), "\(reply.text)")
        }
    }
}
