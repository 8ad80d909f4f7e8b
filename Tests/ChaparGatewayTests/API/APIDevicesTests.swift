import Foundation
import HTTPTypes
import HummingbirdCore
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

@Suite("The device registry over HTTP", .timeLimit(.minutes(1)))
struct APIDevicesTests {
    private static let ali = #"{"user":"ali","tokens":{"ios-apns":"4F1C"},"tags":["plan:pro","city:tehran"]}"#

    @Test("registers, shows, replaces and deletes a device")
    func life() async throws {
        let harness = APIHarness(backends: [.ios, .crm])
        let new = try await harness.send(.put, "/v1/devices/phone-1", Self.ali)
        #expect(new.status == 201)
        #expect(new.headers[.location] == "/v1/devices/phone-1")
        #expect(new.json["id"] == "phone-1")
        #expect(new.json["user"] == "ali")
        #expect(new.json["tags"] == ["city:tehran", "plan:pro"])
        #expect(new.json["tokens"]?["ios-apns"]?["token"] == "4F1C")
        #expect(new.json["tokens"]?["ios-apns"]?["alive"] == true)
        #expect(new.json["tokens"]?["ios-apns"]?["registered_at"]?.stringValue == RFC3339.string(harness.time.now))
        let shown = try await harness.send(.get, "/v1/devices/phone-1")
        #expect(shown.status == 200)
        #expect(shown.json == new.json)

        harness.time.advance(by: .seconds(60))
        let replaced = try await harness.send(.put, "/v1/devices/phone-1", #"{"locale":"fa"}"#)
        #expect(replaced.status == 200)
        #expect(replaced.headers[.location] == nil)
        #expect(replaced.json["user"] == nil)
        #expect(replaced.json["tokens"]?.objectValue?.isEmpty == true)
        #expect(replaced.json["created_at"] == new.json["created_at"])
        #expect(replaced.json["updated_at"] != new.json["updated_at"])

        let gone = try await harness.send(.delete, "/v1/devices/phone-1")
        #expect(gone.status == 204)
        #expect(gone.bytes.isEmpty)
        for method in [HTTPRequest.Method.get, .delete] {
            let missing = try await harness.send(method, "/v1/devices/phone-1")
            #expect(missing.status == 404)
            #expect(missing.code == "not_found")
        }
        #expect(try await harness.send(.patch, "/v1/devices/phone-1", "{}").status == 404)
    }

    @Test("takes a platform of one's own, and finds its devices")
    func ownPlatform() async throws {
        let harness = APIHarness()
        let device = #"{"platform":"x-windows","tokens":{"x-wns":"4F1C"}}"#
        let new = try await harness.send(.put, "/v1/devices/pc-1", device)
        #expect(new.status == 201 && new.json["platform"] == "x-windows")
        _ = try await harness.send(.put, "/v1/devices/phone-1", Self.ali)
        let found = try await harness.send(.get, "/v1/devices?platform=x-windows")
        #expect(found.json["items"]?.arrayValue?.compactMap { $0["id"]?.stringValue } == ["pc-1"])
        #expect(try await harness.send(.get, "/v1/devices?platform=windows").status == 400)
    }

    @Test("takes what it shows back again, unchanged")
    func roundTrip() async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/a", Self.ali)
        let token = DeviceToken("4F1C", service: .iOSAPNs)
        let now = harness.time.now
        _ = try await harness.devices.invalidate([
            TokenRefusal(token, asOf: now, at: now, backend: "ios", reason: "Gone")
        ])
        harness.time.advance(by: .seconds(9))
        let shown = try await harness.send(.get, "/v1/devices/a")
        let tombstone = shown.json["tokens"]?["ios-apns"]?["tombstone"]
        #expect(tombstone?["reason"] == "Gone")
        #expect(tombstone?["quarantined"] == false)
        #expect(tombstone?["held"] == false, "the old name")
        let put = try await harness.send(.put, "/v1/devices/a", shown.text)
        var wanted = try #require(shown.json.objectValue)
        wanted["updated_at"] = .string(RFC3339.string(harness.time.now))
        #expect(put.json == .object(wanted))
        let other = APIHarness()
        other.time.advance(by: .seconds(9))
        let restored = try await other.send(.put, "/v1/devices/a", shown.text)
        #expect(restored.json == .object(wanted), "a new registry gets the tombstone and the times")
    }

    @Test(
        "takes a quarantined tombstone under the present name, the old one and both",
        arguments: [#""quarantined":true"#, #""held":true"#, #""quarantined":true,"held":true"#]
    )
    func quarantined(members: String) async throws {
        let harness = APIHarness()
        let reply = try await harness.send(.put, "/v1/devices/a", Self.dead(members))
        #expect(reply.status == 201)
        let tombstone = reply.json["tokens"]?["ios-apns"]?["tombstone"]
        #expect(tombstone?["quarantined"] == true)
        #expect(tombstone?["held"] == true)
        #expect(reply.json["tokens"]?["ios-apns"]?["alive"] == true)
    }

    private static func dead(_ members: String) -> String {
        #"{"tokens":{"ios-apns":{"token":"4f1c","registered_at":"2026-01-01T00:00:00Z","tombstone":"#
            + #"{"as_of":"2026-01-01T00:00:01Z","backend":"ios","reason":"Gone",\#(members)}}}}"#
    }

    @Test(
        "patches by JSON merge patch: null removes, what is left out stays",
        arguments: [
            "application/json", "application/merge-patch+json; charset=utf-8",
        ]
    )
    func patch(type: String) async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/a", Self.ali)
        harness.time.advance(by: .seconds(60))
        let patched = try await harness.send(
            .patch,
            "/v1/devices/a",
            #"{"user":null,"tags":["x"],"tokens":{"ios-firebase":{"token":"f"}},"time_zone":"Asia/Tehran"}"#,
            headers: [.contentType: type]
        )
        #expect(patched.status == 200)
        #expect(patched.json["user"] == nil)
        #expect(patched.json["tags"] == ["x"])
        #expect(patched.json["time_zone"] == "Asia/Tehran")
        #expect(patched.json["tokens"]?["ios-apns"]?["token"] == "4F1C")
        #expect(patched.json["tokens"]?["ios-firebase"]?["token"] == "f")
        let removed = try await harness.send(.patch, "/v1/devices/a", #"{"tokens":{"ios-apns":null},"tags":null}"#)
        #expect(removed.json["tokens"]?.objectValue?.members.map(\.name) == ["ios-firebase"])
        #expect(removed.json["tags"] == [])
        let none = try await harness.send(.patch, "/v1/devices/a", #"{"tokens":null}"#)
        #expect(none.json["tokens"]?.objectValue?.isEmpty == true)
    }

    @Test("revives a dead token when the device registers it again, and by nothing else")
    func revive() async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/a", Self.ali)
        harness.time.advance(by: .seconds(10))
        let token = DeviceToken("4F1C", service: .iOSAPNs)
        let now = harness.time.now
        _ = try await harness.devices.invalidate([
            TokenRefusal(token, asOf: now, at: now, backend: "ios", reason: "Gone")
        ])
        harness.time.advance(by: .seconds(10))
        func alive(_ body: String) async throws -> JSONValue? {
            try await harness.send(.patch, "/v1/devices/a", body).json["tokens"]?["ios-apns"]?["alive"]
        }
        #expect(try await alive(#"{"tags":["y"]}"#) == false)
        #expect(
            try await alive(#"{"tokens":{"ios-apns":{"token":"4F1C","registered_at":"2020-01-01T00:00:00Z"}}}"#)
                == false
        )
        #expect(try await alive(#"{"tokens":{"ios-apns":"4F1C"}}"#) == true)
    }

    static let mistakes: [(String, [String])] = [
        (#"{"usr":"a"}"#, ["#/usr unknown_field"]),
        (#"{"user":""}"#, ["#/user empty"]), (#"{"user":5}"#, ["#/user wrong_type"]),
        (#"{"user":"\#(String(repeating: "x", count: 257))"}"#, ["#/user too_long"]),
        (#"{"id":"b"}"#, ["#/id other_id"]), (#"{"id":"b c"}"#, ["#/id bad_id"]),
        (#"{"platform":"windows"}"#, ["#/platform unknown_platform"]),
        (#"{"platform":"x-"}"#, ["#/platform unknown_platform"]),
        (#"{"platform":"x-Windows"}"#, ["#/platform unknown_platform"]),
        (#"{"locale":"persian!"}"#, ["#/locale unknown_locale"]), (#"{"locale":"f"}"#, ["#/locale unknown_locale"]),
        (#"{"time_zone":"Asia/Teheran"}"#, ["#/time_zone unknown_time_zone"]),
        (#"{"last_seen":"yesterday"}"#, ["#/last_seen bad_time"]),
        (#"{"last_seen":"2099-01-01T00:00:00Z"}"#, ["#/last_seen time_in_the_future"]),
        (#"{"tags":"x"}"#, ["#/tags wrong_type"]), (#"{"tags":["x",""]}"#, ["#/tags/1 empty"]),
        (#"{"tags":["a\nb"]}"#, ["#/tags/0 control_character"]),
        (#"{"tags":[\#((0...100).map { "\"t\($0)\"" }.joined(separator: ","))]}"#, ["#/tags too_many_tags"]),
        (#"{"attributes":{"n":18446744073709551615}}"#, ["#/attributes/n number_rounded"]),
        (#"{"attributes":{"n":-9223372036854775809}}"#, ["#/attributes/n number_rounded"]),
        (#"{"tokens":["x"]}"#, ["#/tokens wrong_type"]),
        (#"{"tokens":{"ios-apnz":"x"}}"#, ["#/tokens/ios-apnz unknown_service"]),
        (#"{"tokens":{"ios-apns":""}}"#, ["#/tokens/ios-apns empty"]),
        (#"{"tokens":{"ios-apns":{}}}"#, ["#/tokens/ios-apns/token missing"]),
        (#"{"tokens":{"ios-apns":{"token":"x","tokn":1}}}"#, ["#/tokens/ios-apns/tokn unknown_field"]),
        (#"{"tokens":{"ios-apns":{"token":"x","registered_at":"now"}}}"#, ["#/tokens/ios-apns/registered_at bad_time"]),
        (#"{"tokens":{"ios-apns":"malformed"}}"#, ["#/tokens/ios-apns malformed_token"]),
        (
            #"{"tokens":{"ios-apns":{"token":"x","tombstone":{"backend":"ios"}}}}"#,
            ["#/tokens/ios-apns/tombstone incomplete"]
        ),
        (
            #"{"tokens":{"ios-apns":{"token":"x","tombstone":{"as_of":"2026-01-01T00:00:00Z","backend":"b","reason":"r"}}}}"#,
            ["#/tokens/ios-apns/registered_at missing"]
        ),
        (dead(#""quarantined":true,"held":false"#), ["#/tokens/ios-apns/tombstone/held contradiction"]),
        (dead(#""quarantined":1"#), ["#/tokens/ios-apns/tombstone/quarantined wrong_type"]),
        (
            #"{"platform":"x","tags":[1],"app_version":""}"#,
            [
                "#/platform unknown_platform", "#/tags/0 wrong_type", "#/app_version empty",
            ]
        ),
    ]

    @Test("names every wrong field, and stores nothing", arguments: mistakes)
    func mistake(body: String, errors: [String]) async throws {
        let harness = APIHarness(backends: [.strict])
        let reply = try await harness.send(.put, "/v1/devices/a", body)
        #expect(reply.status == 422)
        #expect(reply.errors == errors)
        #expect(try await harness.devices.device("a") == nil)
    }

    @Test("suggests the present name for a member that is near the old one", arguments: ["Held", "hold"])
    func nearFormerName(member: String) async throws {
        let reply = try await APIHarness().send(.put, "/v1/devices/a", Self.dead(#""\#(member)":true"#))
        #expect(reply.status == 422)
        let detail = reply.json["errors"]?.arrayValue?.first?["detail"]?.stringValue
        #expect(detail == "Did you mean \"quarantined\"?")
    }

    @Test("lists the known members without the old name of one")
    func knownMembers() async throws {
        let reply = try await APIHarness().send(.put, "/v1/devices/a", Self.dead(#""zzz":true"#))
        let detail = reply.json["errors"]?.arrayValue?.first?["detail"]?.stringValue ?? ""
        #expect(detail.hasSuffix("Known: as_of, at, backend, reason, quarantined."), "\(detail)")
    }

    @Test("suggests the nearest word")
    func suggestions() async throws {
        let harness = APIHarness()
        let reply = try await harness.send(
            .put,
            "/v1/devices/a",
            #"{"tokens":{"ios-apn":"x"},"platform":"andriod","time_zone":"Asia/Tehrann","tag":[]}"#
        )
        for hint in ["ios-apns", "android", "Asia/Tehran", "tags"] { #expect(reply.text.contains(#"\"\#(hint)\""#)) }
    }

    @Test("stores a token in the form its platform wants, if any of the service's backends takes it")
    func normalised() async throws {
        let harness = APIHarness(backends: [.strict, .crm])
        let reply = try await harness.send(.put, "/v1/devices/a", #"{"tokens":{"ios-apns":"ABC","ios-huawei":"ABC"}}"#)
        #expect(reply.json["tokens"]?["ios-apns"]?["token"] == "abc")
        #expect(reply.json["tokens"]?["ios-huawei"]?["token"] == "ABC")
        let other = try await harness.send(.put, "/v1/devices/b", #"{"tokens":{"ios-apns":"malformed"}}"#)
        #expect(other.status == 201, "crm takes it")
    }

    @Test(
        "refuses ids, bodies and types that are none",
        arguments: [
            (HTTPRequest.Method.put, "/v1/devices/a%20b", "{}", 400, "bad_device_id"),
            (.put, "/v1/devices/batch", "{}", 405, "method_not_allowed"),
            (.put, "/v1/devices/\(String(repeating: "x", count: 129))", "{}", 400, "bad_device_id"),
            (.put, "/v1/devices/a", "{", 400, "not_json"), (.put, "/v1/devices/a", "[]", 422, "invalid_request"),
            (.post, "/v1/devices/a", "{}", 405, "method_not_allowed"),
            (.post, "/v1/devices", "{}", 405, "method_not_allowed"),
            (.put, "/v1/devices/a/b", "{}", 404, "not_found"),
            (.put, "/v1/devices/a?x=1", "{}", 400, "invalid_parameter"),
        ]
    )
    func refused(method: HTTPRequest.Method, path: String, body: String, status: Int, code: String) async throws {
        let reply = try await APIHarness().send(method, path, body)
        #expect(reply.status == status)
        #expect(reply.code == code)
    }

    @Test("decodes an id in the path")
    func encoded() async throws {
        let harness = APIHarness()
        #expect(try await harness.send(.put, "/v1/devices/user%3A5", "{}").json["id"] == "user:5")
        #expect(try await harness.send(.get, "/v1/devices/user:5").status == 200)
    }

    @Test("lists by user, tag, platform and service, page by page")
    func list() async throws {
        let harness = APIHarness()
        for number in 0..<7 {
            let service = number % 2 == 0 ? "ios-apns" : "android-firebase"
            let body = #"{"user":"u\#(number % 3)","tags":["t t"],"tokens":{"\#(service)":"x\#(number)"}}"#
            _ = try await harness.send(.put, "/v1/devices/d\(number)", body)
        }
        func ids(_ query: String) async throws -> [String] {
            var ids: [String] = []
            var cursor = ""
            repeat {
                let page = try await harness.send(.get, "/v1/devices?limit=2&\(query)\(cursor)")
                #expect(page.status == 200, "\(page.text)")
                ids += (page.json["items"]?.arrayValue ?? []).compactMap { $0["id"]?.stringValue }
                cursor = page.json["next"]?.stringValue.map { "&cursor=\($0)" } ?? ""
            } while !cursor.isEmpty
            return ids
        }
        #expect(try await ids("tag=t+t") == (0..<7).map { "d\($0)" })
        #expect(try await ids("user=u1") == ["d1", "d4"])
        #expect(try await ids("platform=android") == ["d1", "d3", "d5"])
        #expect(try await ids("service=ios-apns&user=u0") == ["d0", "d6"])
        #expect(try await ids("user=nobody").isEmpty)
        let wrong = ["usr=a", "platform=windows", "service=ios-apn", "limit=0", "limit=1001", "cursor=x"]
        for query in wrong {
            let reply = try await harness.send(.get, "/v1/devices?\(query)")
            #expect(reply.status == 400)
            #expect(reply.code == "invalid_parameter")
        }
    }

    @Test("takes many at once, and answers each")
    func batch() async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/b", "{}")
        let reply = try await harness.send(
            .post,
            "/v1/devices/batch",
            """
            {"devices":[{"id":"a","tokens":{"ios-apns":"x"}},{"id":"b","user":"u"},{"user":"nobody"},{"id":"c d"},
            {"id":"e","platform":"x"},{"id":"batch"}]}
            """
        )
        #expect(reply.status == 200)
        #expect(reply.json["created"] == 1)
        #expect(reply.json["replaced"] == 1)
        #expect(reply.json["refused"] == 4)
        let items = reply.json["devices"]?.arrayValue ?? []
        #expect(items.map { $0["status"]?.integerValue } == [201, 200, 422, 422, 422, 422])
        #expect(items.map { $0["id"]?.stringValue } == ["a", "b", nil, nil, "e", "batch"])
        let errors = items.flatMap { APIHarness.errors(of: $0["problem"]) }
        #expect(
            errors == [
                "#/devices/2/id missing", "#/devices/3/id bad_id", "#/devices/4/platform unknown_platform",
                "#/devices/5/id bad_id",
            ]
        )
        #expect(try await harness.devices.device("b")?.user == "u")
    }

    @Test(
        "refuses a batch that is none",
        arguments: [
            ("{}", ["#/devices missing"]), (#"{"devices":[]}"#, ["#/devices empty"]),
            (#"{"device":[]}"#, ["#/device unknown_field"]), (#"{"devices":{}}"#, ["#/devices wrong_type"]),
            (
                #"{"devices":[\#(Array(repeating: "{}", count: 1001).joined(separator: ","))]}"#,
                ["#/devices too_many_devices"]
            ),
        ]
    )
    func badBatch(body: String, errors: [String]) async throws {
        let reply = try await APIHarness().send(.post, "/v1/devices/batch", body)
        #expect(reply.status == 422)
        #expect(reply.errors == errors)
    }

    @Test("says that the store failed or is full, with when to try again")
    func storeFails() async throws {
        let harness = APIHarness()
        for (error, code) in [(StoreError.failed("x"), "store_failed"), (.closed, "draining")] {
            harness.devices.fail(error)
            for (method, body) in [(HTTPRequest.Method.put, "{}"), (.patch, "{}"), (.get, nil), (.delete, nil)] {
                let reply = try await harness.send(method, "/v1/devices/a", body)
                #expect(reply.status == 503)
                #expect(reply.code == code)
                #expect(reply.headers[.retryAfter] != nil)
                #expect(!reply.text.contains("Idempotency-Key"))
            }
        }
        harness.devices.fail(nil)
        harness.state.beginDraining()
        #expect(try await harness.send(.put, "/v1/devices/a", "{}").code == "draining")
        #expect(try await harness.send(.get, "/v1/devices").status == 200)
    }

    @Test("gives a device's live token to a provider chain")
    func provider() async throws {
        let harness = APIHarness()
        _ = try await harness.send(.put, "/v1/devices/a", #"{"tokens":{"ios-apns":"x"}}"#)
        let provider = RegisteredTokenProvider(.iOSAPNs, of: "a", in: harness.devices, backends: [StubBackend.strict])
        #expect(try await provider.token() == DeviceToken("x", service: .iOSAPNs))
        let other = RegisteredTokenProvider(.iOSFirebase, of: "a", in: harness.devices)
        #expect(try await other.token() == nil)
        #expect(try provider.validate("ABC").value == "abc")
        #expect(throws: InvalidToken.self) { try provider.validate("malformed") }
        #expect(throws: InvalidToken.self) { try other.validate("") }
        let now = harness.time.now
        let token = DeviceToken("x", service: .iOSAPNs)
        _ = try await harness.devices.invalidate([
            TokenRefusal(token, asOf: now, at: now, backend: "ios", reason: "Gone")
        ])
        #expect(try await provider.token() == nil)
        harness.devices.fail(.closed)
        await #expect(throws: PushError.self) { try await provider.token() }
    }
}

extension StubBackend {
    /// Knows what its tokens look like.
    static let strict = StubBackend(
        name: "ios",
        kind: "apns",
        audience: BackendAudience(services: [.iOSAPNs]),
        malformed: "malformed"
    )
}
