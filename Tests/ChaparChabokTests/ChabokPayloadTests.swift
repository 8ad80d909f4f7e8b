import Foundation
import ChaparCore
import Testing

@testable import ChaparChabok

/// Payloads and clicks: specs/chabok.md sections 2 to 4.
@Suite("Chabok: payloads and clicks", .timeLimit(.minutes(1)))
struct ChabokPayloadTests {
    struct Vector: Sendable {
        var userInfo: String
        var source: ChabokNotification.Source
        var data: String?
        var custom: String?
        var isTolerant = false
    }

    static let vectors: [Vector] = [
        .init(
            userInfo: #"{"message":{"id":"m1","content":"Hi","data":{"order":41}}}"#,
            source: .chabokMessage,
            data: #"{"order":41}"#,
            custom: #"{"order":41}"#
        ),
        .init(userInfo: #"{"message":{"id":"m1","content":"Hi"}}"#, source: .chabokMessage),
        .init(
            userInfo: #"{"aps":{"alert":{"title":"T","body":"B"}},"data":{"order":41}}"#,
            source: .apns,
            data: #"{"order":41}"#,
            custom: #"{"order":41}"#
        ),
        .init(userInfo: #"{"aps":{"alert":"B"}}"#, source: .apns),
        .init(
            userInfo: #"{"message":"Hi","data":{"order":41}}"#,
            source: .apns,
            data: #"{"order":41}"#,
            custom: #"{"order":41}"#
        ),
        .init(
            userInfo: #"{"message":{"data":{"a":1}},"data":{"b":2},"aps":{}}"#,
            source: .chabokMessage,
            data: #"{"a":1}"#,
            custom: #"{"a":1}"#
        ),
        .init(userInfo: #"{"message":null,"data":{"b":2}}"#, source: .apns, data: #"{"b":2}"#, custom: #"{"b":2}"#),
        .init(userInfo: #"{"message":[],"data":{"b":2}}"#, source: .apns, data: #"{"b":2}"#, custom: #"{"b":2}"#),
        .init(userInfo: #"{"data":"{\"b\":2}"}"#, source: .apns),
        .init(
            userInfo: #"{"data":"{\"b\":2}"}"#,
            source: .apns,
            data: #"{"b":2}"#,
            custom: #"{"b":2}"#,
            isTolerant: true
        ),
        .init(userInfo: "{}", source: .apns),
        .init(
            userInfo: #"{"data":{"id":"m1","content":"Hi","channel":"default","data":{"order":41}}}"#,
            source: .apns,
            data: #"{"id":"m1","content":"Hi","channel":"default","data":{"order":41}}"#,
            custom: #"{"order":41}"#
        ),
    ]

    @Test("The data is where the documented rule has it", arguments: vectors)
    func extraction(_ vector: Vector) throws {
        let info = try #require(try JSONValue.parsed(vector.userInfo).objectValue)
        let read = ChabokPayloadParser.parse(info, isTolerant: vector.isTolerant)
        #expect(read.source == vector.source)
        #expect(read.messageData == (try vector.data.map { try JSONValue.parsed($0) }))
        #expect(read.customData == (try vector.custom.map { try JSONValue.parsed($0) }))
        #expect(read.isUnrecognised == (vector.userInfo == "{}"))
        #expect(read.isLocalOverride == vector.userInfo.contains(#""data":{"id""#))
        #expect(read.raw == info)
    }

    @Test("Title, text, ids and channel come from either kind")
    func fields() throws {
        let local = ChabokPayloadParser.parse([
            "message": [
                "id": "m1", "content": "C", "channel": "news", "trackId": "t",
                "notification": ["title": "T", "body": "B"],
            ]
        ])
        #expect(
            [local.messageID, local.trackID, local.channel, local.title, local.body] == ["m1", "t", "news", "T", "B"]
        )
        let remote = ChabokPayloadParser.parse(["aps": ["alert": "B"], "messageId": "m2", "id": "m3"])
        #expect([remote.messageID, remote.title, remote.body] == ["m2", nil, "B"])
    }

    static let identifiers: [(String?, ChabokNotification.Action)] = [
        ("com.apple.UNNotificationDefaultActionIdentifier", .opened),
        ("com.apple.UNNotificationDismissActionIdentifier", .dismissed), ("map", .button("map")), (nil, .shown),
    ]

    @Test("An action's identifier has one meaning", arguments: identifiers)
    func actions(identifier: String?, action: ChabokNotification.Action) {
        #expect(ChabokNotification.Action(identifier: identifier) == action)
    }

    static let words: [(String, ChabokNotification.Action?)] = [
        ("opened", .opened), ("OPENED", .opened), ("opend", .opened), ("DISMISSED", .dismissed), ("shown", .shown),
        ("ACTION_TAKEN", .button("x")), ("closed", nil),
    ]

    @Test("Both letter cases of a kind are read, and the misspelt one", arguments: words)
    func kinds(word: String, action: ChabokNotification.Action?) {
        #expect(ChabokNotification.Action(name: word, actionID: "x") == action)
    }

    static let addresses: [(String?, String?)] = [
        ("map", "shop://map"), ("ma", "shop://click"), ("bare", "shop://click"),
        ("com.apple.UNNotificationDefaultActionIdentifier", "shop://click"),
        ("com.apple.UNNotificationDismissActionIdentifier", nil),
    ]

    @Test("The button's own address goes first, then the notification's; none after a dismissal", arguments: addresses)
    func urls(identifier: String?, url: String?) {
        let shown: JSONObject = [
            "clickUrl": "shop://click",
            "actions": [
                ["id": "mapper", "url": "shop://mapper"], ["id": "map", "url": "shop://map"], ["id": "bare"],
            ],
        ]
        let local = ChabokPayloadParser.parse(
            ["message": ["notification": .object(shown)]],
            actionIdentifier: identifier
        )
        #expect(local.url == url)
        var remote = shown
        remote["aps"] = ["alert": "B"]
        #expect(ChabokPayloadParser.parse(remote, actionIdentifier: identifier).url == url)
    }

    @Test("No payload of an app stops the parser")
    func anything() throws {
        let documents = [
            #"{"message":{"notification":7,"data":[]},"aps":[1]}"#, #"{"aps":{"alert":{"title":{}}}}"#,
            #"{"data":{"content":1,"id":{}}}"#,
            #"{"actions":"x","clickUrl":{},"message":{"notification":{"actions":[1]}}}"#,
        ]
        for text in documents {
            let info = try #require(try JSONValue.parsed(text).objectValue)
            let read = ChabokPayloadParser.parse(info, actionIdentifier: "x")
            #expect(read.url == nil && read.raw == info)
        }
    }

    typealias Click = (
        origin: ChabokClickClassifier.Origin, os: Int, state: ChabokClickClassifier.AppState, click: Bool, here: Bool,
        again: Bool
    )

    static let clicks: [Click] = [
        (.local, 9, .foreground, true, true, false), (.local, 9, .background, true, true, false),
        (.local, 8, .terminated, true, true, false), (.remote, 9, .foreground, true, true, false),
        (.remote, 9, .background, true, true, false),
        (.launchOptions(isRemote: true), 9, .terminated, true, false, true),
        (.launchOptions(isRemote: false), 9, .terminated, true, true, false),
        (.local, 10, .foreground, false, false, false), (.remote, 17, .background, false, false, false),
        (.launchOptions(isRemote: true), 10, .terminated, false, false, false),
        (.response, 10, .foreground, true, true, false), (.response, 17, .terminated, true, true, false),
    ]

    @Test("The system's version decides whether an action is a click and where to navigate", arguments: clicks)
    func classify(_ click: Click) {
        let verdict = ChabokClickClassifier.classify(click.origin, osMajor: click.os, appState: click.state)
        #expect(verdict.isClick == click.click)
        #expect(verdict.navigateHere == click.here)
        #expect(verdict.willArriveAgain == click.again)
    }

    @Test("A device shows by the client's order, and not what it must not show")
    func display() {
        let policy = ChabokDisplayPolicy()
        let client = ChabokDisplayPolicy.Client(now: Date(timeIntervalSince1970: 1000))
        let plan = policy.plan(
            ["content": "C", "channel": "ch", "notification": ["title": "T", "text": "X", "actions": [["id": "a"]]]],
            for: client
        )
        #expect([plan?.title, plan?.body, plan?.group] == ["T", "X", "ch"])
        #expect(plan?.rest["actions"] == [["id": "a", "action": "a"]])
        let hidden: [JSONObject] = [
            ["content": "C", "silent": true], ["content": "C", "notification": ["disableLocalNotif": true]],
            ["content": "C", "id": "seen"], ["content": "C", "createdAt": 900_000, "ttl": 50],
        ]
        var knowing = client
        knowing.seen = ["seen"]
        for message in hidden { #expect(policy.plan(message, for: knowing) == nil, "\(message)") }
        knowing.isSilent = true
        #expect(policy.plan(["content": "C"], for: knowing) == nil)
        var wishing = client
        wishing.channels = ["ads": .init(alert: false), "quiet": .init(sound: ""), "news": .init(sound: "bell.caf")]
        func sound(_ channel: String) -> JSONValue? {
            policy.plan(
                ["content": "C", "channel": .string(channel), "notification": ["sound": "own.caf"]],
                for: wishing
            )
            .map { $0.rest["sound"] ?? .null }
        }
        #expect([sound("ads"), sound("quiet"), sound("news"), sound("other")] == [nil, .null, "bell.caf", "own.caf"])
        let override = ChabokDisplayPolicy { $0["content"] == "mine" ? ChabokDisplayPlan(body: "own") : nil }
        #expect(override.plan(["content": "mine", "silent": true], for: client)?.body == "own")
        #expect(override.plan(["content": "other"], for: client) == nil, "nothing falls back to the default")
    }
}
