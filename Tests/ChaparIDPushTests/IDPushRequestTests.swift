import Foundation
import OneSignalBench
import ChaparCore
import Testing

@testable import ChaparIDPush

/// The pure parts of the client: specs/idpush-onesignal.md sections 4, 6 and 7.
@Suite("IDPush: requests and answers", .timeLimit(.minutes(5)))
struct IDPushRequestTests {
    static let player = "5b1d6c0e-93f4-4c2b-8a7e-2f60d1c4e9ab"

    private func request(_ action: IDPushAction, player: String? = player) throws -> IDPushRequest {
        try IDPushRequest(action, projectID: "7Qm2xV9kLr", playerID: player, facts: .phone)
    }

    static let shared =
        "device_model=iPhone14%2C2&device_os=17.5.1&device_type=0&game_version=3.4.1"
    static let golden: [(IDPushAction, String, String)] = [
        (
            .addDevice(token: apnsToken), "device/add",
            "\(shared)&identifier=\(apnsToken)&notification_types=1&project_id=7Qm2xV9kLr&test_type=1"
        ),
        (
            .subscribe, "device/edit/\(player)",
            "\(shared)&notification_types=1&player_id=\(player)&project_id=7Qm2xV9kLr"
        ),
        (
            .unsubscribe, "device/edit/\(player)",
            "\(shared)&notification_types=-2&player_id=\(player)&project_id=7Qm2xV9kLr"
        ),
        (
            .setTags(tags: ["city": "تهران", "level": 7, "vip": true]), "device/edit/\(player)",
            "\(shared)&notification_types=1&player_id=\(player)&project_id=7Qm2xV9kLr"
                + "&tags=%7B%22city%22%3A%22%D8%AA%D9%87%D8%B1%D8%A7%D9%86%22%2C%22level%22%3A7%2C%22vip%22%3Atrue%7D"
        ),
        (
            .editDevice(parameters: ["language": "fa", "timezone": 12600]), "device/edit/\(player)",
            "\(shared)&language=fa&player_id=\(player)&project_id=7Qm2xV9kLr&timezone=12600"
        ),
        (
            .setTags(tags: [:]), "device/edit/\(player)",
            "\(shared)&notification_types=1&player_id=\(player)&project_id=7Qm2xV9kLr&tags=%7B%7D"
        ),
    ]

    @Test("Each action's request is what the page says, byte for byte", arguments: golden)
    func bytes(action: IDPushAction, path: String, body: String) throws {
        let request = try request(action)
        #expect(request.path == path)
        #expect(String(decoding: request.body, as: UTF8.self) == body)
    }

    @Test("The page's own example has the length it states")
    func length() throws {
        #expect(try request(.addDevice(token: apnsToken)).body.count == 206)
    }

    @Test("Everything but letters, digits and - . _ ~ / ? is encoded", arguments: 0..<128)
    func encoding(code: Int) throws {
        let character = String(UnicodeScalar(UInt8(code)))
        let request = try request(.editDevice(parameters: ["k": .string(character)]))
        let kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/?"
        let hex = String(code, radix: 16, uppercase: true)
        let expected = kept.contains(character) ? character : "%" + (hex.count == 1 ? "0" : "") + hex
        #expect(String(decoding: request.body, as: UTF8.self).contains("&k=\(expected)&"))
    }

    static let keys = [
        "project_id", "device_type", "game_version", "device_model", "device_os", "player_id", "notification_types",
    ]

    @Test("A parameter of an edit takes a shared one's place; the path keeps the known id", arguments: keys)
    func overrides(key: String) throws {
        var parameters = JSONObject()
        parameters[key] = "mine"
        let request = try request(.editDevice(parameters: parameters))
        #expect(request.fields.filter { $0.name == key }.map(\.value) == ["mine"])
        #expect(request.path == "device/edit/\(Self.player)")
    }

    static let values: [(JSONValue, String)] = [
        (12, "12"), (-1, "-1"), (1.5, "1.5"), (2.0, "2"), (true, "1"), (false, "0"), (nil, ""), ("a b", "a b"),
        (["x": [1, "é"]], #"{"x":[1,"é"]}"#), ([1, nil], "[1,null]"),
    ]

    static let oddTags: [(JSONObject, String)] = [
        ([:], "{}"), (["a": nil], #"{"a":null}"#), (["a": ["b": [1, nil]]], #"{"a":{"b":[1,null]}}"#),
        (["a": .double(.infinity)], ""), (["a": [.double(.nan)]], ""),
        (
            ["k": .string(String(repeating: "ش", count: 5000))],
            #"{"k":""# + String(repeating: "ش", count: 5000) + #""}"#
        ),
    ]

    @Test("Tags of any kind are one JSON text, and nothing when they cannot be one", arguments: oddTags)
    func writesOddTags(tags: JSONObject, expected: String) throws {
        let request = try request(.setTags(tags: tags))
        #expect(request.fields.first { $0.name == "tags" }?.value == expected)
    }

    @Test("Values that are no texts have one form", arguments: values)
    func text(value: JSONValue, expected: String) { #expect(IDPushRequest.text(value) == expected) }

    @Test("A hostile player id stays one segment of the path")
    func hostileID() throws {
        let request = try request(.subscribe, player: "../admin?x=1#")
        #expect(request.path == "device/edit/..%2Fadmin%3Fx%3D1%23")
    }

    @Test("A missing parameter of an action is an error before any request", arguments: ["", " ", "\n\t "])
    func lacks(token: String) {
        #expect(throws: IDPushActionError.missingDeviceToken) { try request(.addDevice(token: token)) }
        for action in [IDPushAction.subscribe, .unsubscribe, .setTags(tags: [:]), .editDevice(parameters: [:])] {
            #expect(throws: IDPushActionError.missingPlayerID) { try request(action, player: nil) }
        }
    }

    @Test("A token goes out as it is, and a release build says so")
    func verbatim() throws {
        var facts = DeviceFacts.phone
        facts.isTestBuild = false
        let action = IDPushAction.addDevice(token: " AB cd ")
        let request = try IDPushRequest(action, projectID: "p", playerID: nil, facts: facts)
        #expect(request.fields.contains { $0.name == "identifier" && $0.value == " AB cd " })
        #expect(request.fields.contains { $0.name == "test_type" && $0.value == "2" })
        #expect(!request.fields.contains { $0.name == "player_id" })
    }

    // MARK: Answers

    struct Row: Sendable {
        var status = 200
        var body: String
        var action = IDPushAction.subscribe
        var error: IDPushActionError? = .invalidResponse
        var data: JSONValue?
        var playerID: String?
    }

    static let add = IDPushAction.addDevice(token: "t")
    static let rows: [Row] = [
        Row(status: 500, body: #"{"status":1}"#, data: ["status": 1]),
        Row(status: 201, body: #"{"status":1}"#, data: ["status": 1]),
        Row(status: 502, body: "<html>", data: "<html>"), Row(status: 404, body: "", data: nil),
        Row(body: "", data: nil), Row(body: "<html>", data: "<html>"),
        Row(body: #"{"status":1"#, data: #"{"status":1"#),
        Row(body: "[1]", data: [1]), Row(body: "1", data: 1), Row(body: "{}", data: [:]),
        Row(body: #"{"status":"1"}"#, data: ["status": "1"]), Row(body: #"{"status":true}"#, data: ["status": true]),
        Row(body: #"{"status":0,"message":"no"}"#, data: ["status": 0, "message": "no"]),
        Row(body: #"{"status":2}"#, data: ["status": 2]),
        Row(body: #"{"status":1}"#, action: add, data: ["status": 1]),
        Row(body: #"{"status":1,"player_id":""}"#, action: add, data: ["status": 1, "player_id": ""]),
        Row(body: #"{"status":1,"player_id":7}"#, action: add, data: ["status": 1, "player_id": 7]),
        Row(
            body: #"{"status":1,"player_id":"p"}"#,
            action: add,
            error: nil,
            data: ["status": 1, "player_id": "p"],
            playerID: "p"
        ),
        Row(body: #"{"status":1}"#, error: nil, data: ["status": 1]),
        Row(body: #"{"status":1.0}"#, error: nil, data: ["status": 1.0]),
        Row(body: #"{"status":1,"player_id":"p"}"#, error: nil, data: ["status": 1, "player_id": "p"]),
    ]

    @Test("Every path of an answer ends as the page says", arguments: rows)
    func answer(row: Row) {
        let reply = IDPushReply(status: row.status, body: Array(row.body.utf8), for: row.action)
        #expect(reply.error == row.error)
        #expect(reply.data == row.data)
        #expect(reply.playerID == row.playerID)
    }

    @Test("Bytes that are no text are handed over in base64; any 2xx is an option")
    func oddities() {
        let reply = IDPushReply(status: 200, body: [0xFF, 0xFE], for: .subscribe)
        #expect(reply.data == "//4=")
        let lenient = IDPushReply(status: 204, body: Array(#"{"status":1}"#.utf8), for: .subscribe, acceptsAny2xx: true)
        #expect(lenient.error == nil)
    }
}
