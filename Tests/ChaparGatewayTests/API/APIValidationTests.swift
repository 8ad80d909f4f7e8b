import ChaparTesting
import HTTPTypes
import Foundation
import ChaparCore
import Testing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// A body, and every mistake it must be told of: pointer and code.
struct WrongNotification: Sendable, CustomTestStringConvertible {
    let body: String
    let errors: [String]
    var testDescription: String { "\(body.prefix(80)) → \(errors.joined(separator: ", "))" }

    init(_ body: String, _ errors: String...) {
        self.body = body
        self.errors = errors
    }

    static func content(_ content: String, _ errors: String...) -> WrongNotification {
        WrongNotification(APIHarness.sample(content: content), list: errors)
    }

    static func options(_ options: String, _ errors: String...) -> WrongNotification {
        WrongNotification(APIHarness.sample(#","options":\#(options)"#), list: errors)
    }

    static func to(_ to: String, _ errors: String...) -> WrongNotification {
        WrongNotification(#"{"to":\#(to),"content":{"title":"x"}}"#, list: errors)
    }

    private init(_ body: String, list: [String]) {
        self.body = body
        errors = list
    }
}

@Suite("A wrong notification", .timeLimit(.minutes(1)))
struct APIValidationTests {
    static let audiences: [WrongNotification] = [
        WrongNotification("[]", "# wrong_type"),
        WrongNotification("{}", "#/to audience_missing", "#/content content_empty"),
        WrongNotification(#"{"content":{"title":"x"}}"#, "#/to audience_missing"),
        .to("{}", "#/to audience_missing"),
        .to("[]", "#/to wrong_type"),
        .to("null", "#/to wrong_type"),
        .to(#"{"topic":"a","everyone":true}"#, "#/to audience_ambiguous"),
        .to(#"{"everyone":false}"#, "#/to/everyone audience_empty"),
        .to(#"{"token":[]}"#, "#/to/token unknown_field"),
        .to(#"{"tokens":[]}"#, "#/to/tokens audience_empty"),
        .to(#"{"tokens":{}}"#, "#/to/tokens wrong_type"),
        .to(#"{"tokens":["4f1c"]}"#, "#/to/tokens/0 wrong_type"),
        .to(#"{"tokens":[{}]}"#, "#/to/tokens/0/token missing", "#/to/tokens/0/service missing"),
        .to(#"{"tokens":[{"token":"","service":"ios-apns"}]}"#, "#/to/tokens/0/token empty"),
        .to(#"{"tokens":[{"token":7,"service":"ios-apns"}]}"#, "#/to/tokens/0/token wrong_type"),
        .to(#"{"tokens":[{"token":"a\nb","service":"ios-apns"}]}"#, "#/to/tokens/0/token control_character"),
        .to(#"{"tokens":[{"token":"x","service":"ios-apn"}]}"#, "#/to/tokens/0/service unknown_service"),
        .to(#"{"tokens":[{"token":"x","service":"web-pull"}]}"#, "#/to/tokens/0/service unknown_service"),
        .to(#"{"tokens":[{"token":"x","service":"ios-apns","app":1}]}"#, "#/to/tokens/0/app unknown_field"),
        .to(#"{"topic":""}"#, "#/to/topic empty"),
        .to(#"{"tags":{}}"#, "#/to/tags audience_empty"),
        .to(#"{"tags":{"every":["a"]}}"#, "#/to/tags/every unknown_field"),
        .to(#"{"tags":{"all":[""]}}"#, "#/to/tags/all/0 empty"),
        .to(#"{"users":["u","u"]}"#, "#/to/users audience_empty"),
        .to(#"{"platform_ids":["p"]}"#, "#/backend backend_missing"),
        .to(#"{"devices":["d"]}"#, "#/to/devices/0 unknown_device"),
        .to(#"{"users":["u"]}"#, "#/to/users audience_empty"),
        .to(#"{"tokens":[{"token":"x","service":"ios-huawei"}]}"#, "#/to/tokens/0 audience_not_supported"),
        WrongNotification(APIHarness.sample(#","extra":1"#), "#/extra unknown_field"),
        WrongNotification(APIHarness.sample(#","route":"default","backend":"ios""#), "#/backend route_and_backend"),
        WrongNotification(APIHarness.sample(#","route":"marketing""#), "#/route unknown_route"),
        WrongNotification(APIHarness.sample(#","route":7"#), "#/route wrong_type"),
        WrongNotification(APIHarness.sample(#","backend":"oss""#), "#/backend unknown_backend"),
        WrongNotification(APIHarness.sample(#","backend":"android""#), "#/to/tokens/0 audience_not_supported"),
        WrongNotification(
            #"{"to":{"tokens":[]},"content":{"title":"x"},"backend":"oss"}"#,
            "#/to/tokens audience_empty",
            "#/backend unknown_backend"
        ),
    ]

    static let contents: [WrongNotification] = [
        .content("{}", "#/content content_empty"),
        .content("[]", "#/content wrong_type"),
        .content(#"{"titel":"x","body":"y"}"#, "#/content/titel unknown_field"),
        .content(#"{"title":"x","title":"y"}"#, "#/content/title repeated_field"),
        .content(#"{"title":7}"#, "#/content/title wrong_type"),
        .content(#"{"title":null,"body":"y"}"#, "#/content/title wrong_type"),
        .content(#"{"title":{"en":"x"}}"#, "#/content/title/default missing"),
        .content(#"{"title":{"default":"x","fa":1}}"#, "#/content/title/fa wrong_type"),
        .content(#"{"title":{"default":"x","":"y"}}"#, "#/content/title/ invalid_language"),
        .content(#"{"title":"x","image":"http://example.com/a.png"}"#, "#/content/image invalid_url"),
        .content(#"{"title":"x","image":"https://"}"#, "#/content/image invalid_url"),
        .content(#"{"title":"x","click_url":"orders/42"}"#, "#/content/click_url invalid_url"),
        .content(#"{"title":"x","click_url":"app: x"}"#, "#/content/click_url invalid_url"),
        .content(#"{"title":"x","badge":-1}"#, "#/content/badge out_of_range"),
        .content(#"{"title":"x","badge":1.5}"#, "#/content/badge not_whole"),
        .content(#"{"title":"x","badge":99999999999}"#, "#/content/badge out_of_range"),
        .content(#"{"title":"x","sound":""}"#, "#/content/sound empty"),
        .content(#"{"title":"a\u0000b"}"#, "#/content/title control_character"),
        .content(#"{"title":"x","body":{"default":"y","fa":"\u0000"}}"#, "#/content/body/fa control_character"),
        .content(#"{"title":"x","data":{"a":{"b":["y","\u0000"]}}}"#, "#/content/data/a/b/1 control_character"),
        .content(#"{"title":"x","data":{"a\u0000":1}}"#, "#/content/data/a\u{0} control_character"),
        WrongNotification(
            APIHarness.sample(#","overrides":{"apns":{"aps":{"alert":"\u0000"}}}"#),
            "#/overrides/apns/aps/alert control_character"
        ),
        .content(#"{"title":"x","data":[1]}"#, "#/content/data wrong_type"),
        .content(#"{"title":"x","actions":[{"id":"a"}]}"#, "#/content/actions/0/title missing"),
        .content(
            #"{"title":"x","actions":[{"id":"a","title":"A"},{"id":"a","title":"B"}]}"#,
            "#/content/actions/1/id repeated_id"
        ),
        .content(
            #"{"title":"x","actions":[{"id":"a","title":"A","url":"x"}]}"#,
            "#/content/actions/0/url invalid_url"
        ),
        WrongNotification(APIHarness.sample(#","overrides":{"apn":{}}"#), "#/overrides/apn unknown_kind"),
        WrongNotification(APIHarness.sample(#","overrides":{"apns":1}"#), "#/overrides/apns wrong_type"),
        WrongNotification(APIHarness.sample(#","overrides":[]"#), "#/overrides wrong_type"),
    ]

    static let options: [WrongNotification] = [
        .options(#"{"ttl":"PT2H"}"#, "#/options/ttl wrong_type"),
        .options(#"{"ttl":1.5}"#, "#/options/ttl not_whole"),
        .options(#"{"ttl":-1}"#, "#/options/ttl out_of_range"),
        .options(#"{"ttl":2419201}"#, "#/options/ttl out_of_range"),
        .options(#"{"priority":"hihg"}"#, "#/options/priority unknown_word"),
        .options(#"{"collapse_id":"\#(String(repeating: "c", count: 65))"}"#, "#/options/collapse_id too_long"),
        .options(#"{"send_at":"tomorrow"}"#, "#/options/send_at invalid_time"),
        .options(#"{"send_at":"2027-02-30T00:00:00Z"}"#, "#/options/send_at invalid_time"),
        .options(#"{"send_at":"2031-01-01T00:00:00Z"}"#, "#/options/send_at send_at_too_far"),
        .options(#"{"ttl":3600,"send_at":"2027-01-15T10:00:00Z"}"#, "#/options/send_at send_at_after_ttl"),
        .options(#"{"silent":"yes"}"#, "#/options/silent wrong_type"),
        .options(#"{"dry_run":1}"#, "#/options/dry_run wrong_type"),
        .options(#"{"time_to_live":1}"#, "#/options/time_to_live unknown_field"),
    ]

    @Test("is told of its mistake in the audience", arguments: audiences)
    func inAudience(_ wrong: WrongNotification) async throws { try await expect(wrong) }

    @Test("is told of its mistake in the content", arguments: contents)
    func inContent(_ wrong: WrongNotification) async throws { try await expect(wrong) }

    @Test("is told of its mistake in the options", arguments: options)
    func inOptions(_ wrong: WrongNotification) async throws { try await expect(wrong) }

    private func expect(_ wrong: WrongNotification) async throws {
        let harness = APIHarness()
        let reply = try await harness.post(wrong.body)
        #expect(reply.status == 422)
        #expect(reply.errors.sorted() == wrong.errors.sorted())
        #expect(harness.store.accepted.isEmpty, "a refused request stores nothing")
    }

    @Test("is told of all its mistakes at once")
    func everything() async throws {
        let reply = try await APIHarness().post(
            #"""
            {"to":{"tokens":[{"token":"","service":"ios-apns"},{"token":"x","service":"ios-apn"}]},
             "content":{"title":7,"badge":-1,"colour":"red"},"options":{"ttl":-1,"priority":"fast"},"route":"nowhere"}
            """#
        )
        #expect(reply.status == 422)
        #expect(reply.errors.count == 8)
        #expect(reply.json["title"] == "8 fields are wrong")
    }

    @Test("gets a problem document with every member that is promised")
    func shape() async throws {
        let reply = try await APIHarness().post(APIHarness.sample(#","options":{"ttl":-1}"#))
        #expect(reply.headers[.contentType] == "application/problem+json")
        let members = try #require(reply.json.objectValue).map(\.name)
        #expect(
            members == ["type", "title", "status", "code", "instance", "request_id", "retryable", "errors"]
        )
        #expect(reply.json["type"] == "urn:chapar:problem:invalid-request")
        #expect(reply.json["title"] == "One field is wrong")
        #expect(reply.json["status"] == 422)
        #expect(reply.json["instance"] == "/v1/notifications")
        #expect(reply.json["retryable"] == false)
        #expect(reply.json["request_id"]?.stringValue?.count == 13)
        let detail = reply.json["errors"]?.arrayValue?.first?["detail"]?.stringValue
        #expect(detail == "Must be from 0 to 2419200 seconds.")
    }

    @Test(
        "is told what was probably meant",
        arguments: [
            (APIHarness.sample(#","optoins":{}"#), "options"),
            (APIHarness.sample(#","options":{"prioritty":"high"}"#), "priority"),
            (APIHarness.sample(#","options":{"priority":"hihg"}"#), "high"),
            (APIHarness.sample(#","overrides":{"apn":{}}"#), "apns"),
            (APIHarness.sample(#","backend":"andriod""#), "android"),
            (#"{"to":{"tokens":[{"token":"x","service":"ios-apn"}]},"content":{"title":"x"}}"#, "ios-apns"),
            (#"{"to":{"tokens":[{"token":"x","service":"apns"}]},"content":{"title":"x"}}"#, "ios-apns"),
            (#"{"to":{"tokens":[{"token":"x","service":"FCM"}]},"content":{"title":"x"}}"#, "android-firebase"),
            (APIHarness.sample(#","message":{"title":"x"}"#), "content"),
            (APIHarness.sample(content: #"{"title":"x","text":"y"}"#), "body"),
        ]
    )
    func suggestion(body: String, meant: String) async throws {
        let reply = try await APIHarness().post(body)
        let detail = reply.json["errors"]?.arrayValue?.first?["detail"]?.stringValue
        #expect(detail == "Did you mean \"\(meant)\"?")
    }

    @Test(
        "that is not JSON is answered with 400 and the place",
        arguments: ["", "{", "{\"to\":}", "{} {}", "{\"a\":1,}", "nul", "{\"content\":{\"data\":{\"a\":1,\"a\":2}}}"]
    )
    func notJSON(body: String) async throws {
        let reply = try await APIHarness().post(body)
        #expect(reply.status == 400)
        #expect(reply.code == "not_json")
        #expect(reply.json["detail"]?.stringValue?.contains("byte") == true)
    }

    @Test("names at most 10,000 recipients, and lists at most 100 mistakes")
    func limits() async throws {
        func body(_ count: Int, _ token: (Int) -> String) -> String {
            let tokens = (0..<count).map { #"{"token":"\#(token($0))","service":"ios-apns"}"# }
            return #"{"to":{"tokens":[\#(tokens.joined(separator: ","))]},"content":{"title":"x"}}"#
        }
        let harness = APIHarness()
        let most = try await harness.post(body(10_000) { "t\($0)" })
        #expect(most.status == 202)
        #expect(most.json["recipients"]?["count"] == 10_000)
        let tooMany = try await harness.post(body(10_001) { "t\($0)" })
        #expect(tooMany.errors == ["#/to/tokens too_many_recipients"])
        let empty = try await harness.post(body(500) { _ in "" })
        #expect(empty.json["title"] == "500 fields are wrong")
        #expect(empty.errors.count == 100)
        #expect(harness.store.accepted.count == 1)
    }

    @Test("of another type than JSON is answered with 415", arguments: ["text/plain", "application/xml", nil])
    func mediaType(type: String?) async throws {
        let harness = APIHarness()
        var headers: HTTPFields = [:]
        headers[.contentType] = type ?? ""
        let reply = try await harness.post(APIHarness.sample(), headers: headers)
        #expect(reply.status == 415)
        let right = try await harness.post(
            APIHarness.sample(),
            headers: [.contentType: "Application/JSON ; charset=utf-8"]
        )
        #expect(right.status == 202)
    }

    @Test("that is too large is answered with 413, with and without its length")
    func tooLarge() async throws {
        let harness = APIHarness { $0.server.maximumBodyBytes = 100 }
        let long = APIHarness.sample(content: #"{"title":"\#(String(repeating: "x", count: 100))"}"#)
        let reply = try await harness.post(long)
        #expect(reply.status == 413)
        #expect(reply.code == "body_too_large")
        #expect(try await harness.post(APIHarness.sample()).status == 202)
    }
}
