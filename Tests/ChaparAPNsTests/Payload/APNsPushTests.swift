import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("Apple's own values", .timeLimit(.minutes(1)))
struct APNsPushTests {
    static let moment = Date(timeIntervalSince1970: 1_767_225_600)

    private struct Ride: Codable {
        var stopsLeft: Int
        var eta: Date?
    }

    struct Twin: Sendable, CustomTestStringConvertible {
        var name: String
        var notification = PushNotification()
        var push: APNsPush
        /// The JSON that a caller of the API would write under `overrides.apns`.
        var json: String
        var testDescription: String { name }
    }

    /// Source of the hand-written side: specs, APNs sections 3, 4 and 11.
    static let twins: [Twin] = {
        func ride(_ activity: () throws -> APNsLiveActivity) -> APNsPush {
            guard let activity = try? activity() else { return APNsPush(.mdm(pushMagic: "cannot be encoded")) }
            return APNsPush(.liveActivity(activity))
        }
        var late = APNsLiveActivity(.update, state: ["stopsLeft": 3], at: moment)
        late.staleDate = moment.addingTimeInterval(600)
        late.relevanceScore = 75
        late.alert = .init(title: .key("NEAR", arguments: ["Ada"]), body: .key("HURRY"), sound: "bell.caf")
        return [
            Twin(
                name: "an alert with everything",
                push: APNsPush(
                    .alert(
                        APNsAlert(
                            title: .key("T", arguments: ["a", "b"]),
                            subtitle: .key("S"),
                            body: .key("B", arguments: ["c"]),
                            launchImage: "launch.png",
                            badge: 3,
                            sound: .critical(name: "alarm.caf", volume: 0.5),
                            threadID: "order-42",
                            category: "order",
                            isContentAvailable: true,
                            isMutable: true,
                            targetContentID: "window",
                            interruptionLevel: .timeSensitive,
                            relevanceScore: 0.25,
                            filterCriteria: "work"
                        )
                    ),
                    priority: .powerSaving,
                    expiration: .at(1_767_229_200),
                    collapseID: "order-42",
                    topic: bundleID,
                    payload: ["order": 42, "aps": ["new-key": true]]
                ),
                json: """
                    {"headers": {"apns-push-type": "alert", "apns-priority": "1", "apns-expiration": "1767229200",
                                 "apns-collapse-id": "order-42", "apns-topic": "\(bundleID)"},
                     "payload": {"aps": {
                         "alert": {"title-loc-key": "T", "title-loc-args": ["a", "b"], "subtitle-loc-key": "S",
                                   "loc-key": "B", "loc-args": ["c"], "launch-image": "launch.png"},
                         "badge": 3, "sound": {"critical": 1, "name": "alarm.caf", "volume": 0.5},
                         "thread-id": "order-42", "category": "order", "content-available": 1, "mutable-content": 1,
                         "target-content-id": "window", "interruption-level": "time-sensitive",
                         "relevance-score": 0.25, "filter-criteria": "work", "new-key": true}, "order": 42}}
                    """
            ),
            Twin(
                name: "plain texts and a named sound",
                push: APNsPush(.alert(APNsAlert(title: "t", subtitle: "s", body: "b", sound: .standard))),
                json: """
                    {"headers": {"apns-push-type": "alert"},
                     "payload": {"aps": {"alert": {"title": "t", "subtitle": "s", "body": "b"}, "sound": "default"}}}
                    """
            ),
            Twin(
                name: "the start of a Live Activity",
                push: ride {
                    try .start(
                        ["line": "42"],
                        type: "RideAttributes",
                        state: Ride(stopsLeft: 3, eta: Date(timeIntervalSinceReferenceDate: 90)),
                        at: moment,
                        alert: .init(title: "On the way", body: "3 stops"),
                        updates: .token
                    )
                },
                json: """
                    {"headers": {"apns-push-type": "liveactivity"},
                     "payload": {"aps": {"timestamp": 1767225600, "event": "start", "attributes-type": "RideAttributes",
                                         "attributes": {"line": "42"}, "input-push-token": 1,
                                         "content-state": {"eta": 90, "stopsLeft": 3},
                                         "alert": {"title": "On the way", "body": "3 stops"}}}}
                    """
            ),
            Twin(
                name: "the start of a Live Activity that a channel updates, with the notification's own texts",
                notification: PushNotification(title: "On the way"),
                push: ride {
                    try .start(
                        [String: String](),
                        type: "R",
                        state: Ride(stopsLeft: 1),
                        at: moment,
                        updates: .channel("dGVzdA==")
                    )
                },
                json: """
                    {"headers": {"apns-push-type": "liveactivity"},
                     "payload": {"aps": {"timestamp": 1767225600, "event": "start", "attributes-type": "R",
                                         "attributes": {}, "input-push-channel": "dGVzdA==",
                                         "content-state": {"stopsLeft": 1}}}}
                    """
            ),
            Twin(
                name: "an update of a Live Activity with everything",
                push: APNsPush(.liveActivity(late), priority: .considerate, expiration: .immediately),
                json: """
                    {"headers": {"apns-push-type": "liveactivity", "apns-priority": "5", "apns-expiration": "0"},
                     "payload": {"aps": {"timestamp": 1767225600, "event": "update", "content-state": {"stopsLeft": 3},
                                         "stale-date": 1767226200, "relevance-score": 75,
                                         "alert": {"title": {"loc-key": "NEAR", "loc-args": ["Ada"]},
                                                   "body": {"loc-key": "HURRY"}, "sound": "bell.caf"}}}}
                    """
            ),
            Twin(
                name: "the end of a Live Activity, at once",
                push: ride { .end(at: moment, dismissal: Date(timeIntervalSince1970: 0)) },
                json: """
                    {"headers": {"apns-push-type": "liveactivity"},
                     "payload": {"aps": {"timestamp": 1767225600, "event": "end", "dismissal-date": 0}}}
                    """
            ),
            Twin(
                name: "the end of a Live Activity with a last state",
                push: ride { try .end(Ride(stopsLeft: 0), at: moment) },
                json: """
                    {"headers": {"apns-push-type": "liveactivity"},
                     "payload": {"aps": {"timestamp": 1767225600, "event": "end", "content-state": {"stopsLeft": 0}}}}
                    """
            ),
            Twin(
                name: "a changed folder",
                push: APNsPush(
                    .fileProvider(container: "NSFileProviderWorkingSetContainerItemIdentifier", domain: "d")
                ),
                json: """
                    {"headers": {"apns-push-type": "fileprovider"},
                     "payload": {"container-identifier": "NSFileProviderWorkingSetContainerItemIdentifier", "domain": "d"}}
                    """
            ),
            Twin(
                name: "a managed device",
                push: APNsPush(.mdm(pushMagic: "magic")),
                json: """
                    {"headers": {"apns-push-type": "mdm"}, "payload": {"mdm": "magic"}}
                    """
            ),
            Twin(name: "a wake-up", push: APNsPush(.background), json: headers("background")),
            Twin(name: "a control", push: APNsPush(.controls), json: headers("controls")),
            Twin(name: "a complication", push: APNsPush(.complication), json: headers("complication")),
            Twin(name: "a location query", push: APNsPush(.location), json: headers("location")),
            Twin(name: "Push-to-Talk", push: APNsPush(.pushToTalk), json: headers("pushtotalk")),
            Twin(name: "a call", push: APNsPush(.voip), json: headers("voip")),
            Twin(name: "widgets", push: APNsPush(.widgets), json: headers("widgets")),
        ]
    }()

    private static func headers(_ type: String) -> String { #"{"headers": {"apns-push-type": "\#(type)"}}"# }

    @Test("A value is what a caller of the API writes by hand, and becomes the same request", arguments: twins)
    func twin(twin: Twin) async throws {
        let byHand = try #require(JSONValue(parsing: Array(twin.json.utf8)).objectValue)
        #expect(twin.push.overrides == byHand, "\(JSONValue.object(twin.push.overrides).text)")
        let typed = try twin.notification.with(twin.push)
        var written = twin.notification
        written.overrides["apns"] = byHand
        #expect(typed == written)
        let (first, second) = (try await Self.sent(typed), try await Self.sent(written))
        #expect(first == second)
        #expect(first["apns-push-type"] == byHand["headers"]?["apns-push-type"]?.stringValue)
    }

    /// The headers and the body of the one call that a notification becomes.
    private static func sent(_ notification: PushNotification) async throws -> [String: String] {
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        let addressee = Addressee(recipient(), messageID: MessageID(high: 1, low: 2))
        let outcome = await backend.send([PushRequest(notification, to: [addressee])])[0][0]
        #expect(outcome.acceptance != nil, "\(outcome)")
        let call = try #require(transport.calls.first)
        var parts = ["body": call.text]
        for name in ["apns-push-type", "apns-topic", "apns-priority", "apns-expiration", "apns-collapse-id"] {
            parts[name] = call.header(name)
        }
        return parts
    }

    @Test("A key of a text takes the place of the text, in which other platforms are told the same")
    func keys() async throws {
        let notification = PushNotification(title: "Parcel", subtitle: "Tehran", body: "is near")
        let alert = APNsAlert(title: .key("PARCEL"), body: .key("NEAR", arguments: ["3"]))
        let sent = try await Self.sent(notification.with(APNsPush(.alert(alert))))
        #expect(
            sent["body"]
                == #"{"aps":{"alert":{"subtitle":"Tehran","title-loc-key":"PARCEL","loc-key":"NEAR","loc-args":["3"]}}}"#
        )
    }

    @Test("A notification's texts and sound are the alert of a Live Activity, and nothing else of it")
    func activityAlert() async throws {
        let notification = PushNotification(
            title: "Near",
            subtitle: "Tehran",
            body: "3 stops",
            sound: "default",
            badge: 1,
            category: "order"
        )
        let update = try APNsLiveActivity.update(["stopsLeft": 3], at: Self.moment)
        let sent = try await Self.sent(notification.with(APNsPush(.liveActivity(update))))
        #expect(
            sent["body"]
                == #"{"aps":{"alert":{"title":"Near","body":"3 stops","sound":"default"},"timestamp":1767225600,"#
                + #""event":"update","content-state":{"stopsLeft":3}}}"#
        )
        #expect(sent["apns-topic"] == "\(bundleID).push-type.liveactivity")
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        var name: String
        var notification = PushNotification()
        var push: APNsPush
        var pointer: String
        var code: String
        var testDescription: String { name }
    }

    static let mistakes: [Mistake] = {
        let aps = "#/overrides/apns/payload/aps"
        func alert(_ change: (inout APNsAlert) -> Void) -> APNsPush {
            var alert = APNsAlert(title: "x")
            change(&alert)
            return APNsPush(.alert(alert))
        }
        func activity(_ event: APNsLiveActivity.Event, _ state: JSONValue? = [:]) -> APNsPush {
            APNsPush(.liveActivity(APNsLiveActivity(event, state: state, at: moment)))
        }
        let both: JSONObject = ["aps": ["input-push-channel": "dGVzdA=="]]
        var twice = activity(.start(attributesType: "R", attributes: [:], updates: .token))
        twice.payload = both
        var late = activity(.update)
        late.payload = both
        var score = APNsLiveActivity(.update, state: [:], at: moment)
        score.relevanceScore = .infinity
        return [
            Mistake(
                name: "a relevance above 1",
                push: alert { $0.relevanceScore = 1.5 },
                pointer: "\(aps)/relevance-score",
                code: "wrong_value"
            ),
            Mistake(
                name: "an infinite relevance",
                push: APNsPush(.liveActivity(score)),
                pointer: "\(aps)/relevance-score",
                code: "wrong_value"
            ),
            Mistake(
                name: "a volume above 1",
                push: alert { $0.sound = .critical(volume: 2) },
                pointer: "\(aps)/sound/volume",
                code: "wrong_value"
            ),
            Mistake(
                name: "a badge below 0",
                push: alert { $0.badge = -1 },
                pointer: "\(aps)/badge",
                code: "wrong_value"
            ),
            Mistake(
                name: "an alert that shows nothing",
                push: APNsPush(.alert(APNsAlert(threadID: "x"))),
                pointer: "#/content",
                code: "nothing_to_show"
            ),
            Mistake(
                name: "a start without an alert",
                push: activity(.start(attributesType: "R", attributes: [:])),
                pointer: "\(aps)/alert",
                code: "missing"
            ),
            Mistake(
                name: "a start without a state",
                notification: PushNotification(title: "x"),
                push: activity(.start(attributesType: "R", attributes: [:]), nil),
                pointer: "\(aps)/content-state",
                code: "missing"
            ),
            Mistake(
                name: "attributes that are no object",
                notification: PushNotification(title: "x"),
                push: activity(.start(attributesType: "R", attributes: "x")),
                pointer: "\(aps)/attributes",
                code: "wrong_type"
            ),
            Mistake(
                name: "attributes without a type",
                notification: PushNotification(title: "x"),
                push: activity(.start(attributesType: "", attributes: [:])),
                pointer: "\(aps)/attributes-type",
                code: "wrong_type"
            ),
            Mistake(
                name: "updates in two ways",
                notification: PushNotification(title: "x"),
                push: twice,
                pointer: "\(aps)/input-push-channel",
                code: "wrong_combination"
            ),
            Mistake(
                name: "a channel with an update",
                push: late,
                pointer: "\(aps)/input-push-channel",
                code: "wrong_combination"
            ),
            Mistake(
                name: "an update without a state",
                push: activity(.update, nil),
                pointer: "\(aps)/content-state",
                code: "missing"
            ),
            Mistake(
                name: "a state that is no object",
                push: activity(.end(), 3),
                pointer: "\(aps)/content-state",
                code: "wrong_type"
            ),
            Mistake(
                name: "a collapse id of 65 bytes",
                push: APNsPush(.voip, collapseID: String(repeating: "x", count: 65)),
                pointer: "#/overrides/apns/headers/apns-collapse-id",
                code: "bad_collapse_id"
            ),
            Mistake(
                name: "a topic with the suffix of another push type",
                push: APNsPush(.voip, topic: "com.example.app.complication"),
                pointer: "#/overrides/apns/headers/apns-topic",
                code: "wrong_topic_suffix"
            ),
            Mistake(
                name: "Push-to-Talk that waits",
                push: APNsPush(.pushToTalk, expiration: .at(1)),
                pointer: "#/overrides/apns/headers/apns-priority",
                code: "bad_priority"
            ),
            Mistake(
                name: "an update larger than a channel takes",
                push: activity(.update, ["x": .string(String(repeating: "x", count: 5120))]),
                pointer: "#/content",
                code: "payload_too_large"
            ),
        ]
    }()

    @Test("A value that Apple would refuse is an error that names the field; its JSON is not sent", arguments: mistakes)
    func mistake(mistake: Mistake) async throws {
        let error = #expect(throws: PayloadError.self) { try mistake.notification.with(mistake.push) }
        let found = error?.faults ?? []
        #expect(found.contains { $0.pointer == mistake.pointer && $0.code == mistake.code }, "\(found)")
        let transport = ScriptedTransport()
        let backend = try APNsBackend.scripted(transport)
        var written = mistake.notification
        written.overrides["apns"] = mistake.push.overrides
        let refusal = await backend.send(written, to: recipient()).refusal
        #expect(found.map(\.code).contains(refusal?.reason ?? ""))
        #expect(transport.calls.isEmpty)
    }

    /// Mistakes that only JSON can contain.
    static let jsonMistakes: [(JSONObject, String)] = [
        (["interruption-level": "urgent"], "interruption-level"), (["sound": 1], "sound"),
        (["sound": ["critical": true]], "sound/critical"), (["alert": 1], "alert"), (["thread-id": 1], "thread-id"),
        (["relevance-score": "1"], "relevance-score"), (["stale-date": "now"], "stale-date"),
        (["content-state": [:]], "content-state"), (["event": "update"], "event"),
    ]

    @Test("The same rules hold for JSON overrides", arguments: jsonMistakes)
    func json(aps: JSONObject, place: String) throws {
        let backend = try APNsBackend.scripted(ScriptedTransport())
        var notification = PushNotification(title: "x")
        notification.overrides["apns"] = ["payload": ["aps": .object(aps)]]
        let faults = backend.check(notification, for: .token).faults
        #expect(faults.map(\.pointer) == ["#/overrides/apns/payload/aps/\(place)"])
    }

    @Test("A null takes away what the notification says, and is no mistake")
    func null() throws {
        let backend = try APNsBackend.scripted(ScriptedTransport())
        var notification = PushNotification(title: "x", sound: "default", badge: 1)
        notification.overrides["apns"] = ["payload": ["aps": ["sound": nil, "badge": nil]]]
        #expect(backend.check(notification, for: .token).faults.isEmpty)
    }

    @Test("The alert of a Live Activity is an object")
    func plainAlert() throws {
        let aps: JSONObject = ["timestamp": 1, "event": "update", "content-state": [:], "alert": "x"]
        var notification = PushNotification()
        notification.overrides["apns"] = [
            "headers": ["apns-push-type": "liveactivity"], "payload": ["aps": .object(aps)],
        ]
        #expect(APNsPush.faults(in: notification).map(\.pointer) == ["#/overrides/apns/payload/aps/alert"])
    }

    private struct Unspeakable: Encodable { var secret = [1, Double.infinity] }

    @Test("A state that cannot be written as JSON is an error that says where, and not what it holds")
    func notEncodable() {
        let error = #expect(throws: PayloadError.self) {
            try APNsLiveActivity.update(Unspeakable(), at: Self.moment)
        }
        #expect(error?.faults.first?.pointer == "#/overrides/apns/payload/aps/content-state")
        #expect(error?.faults.first?.code == "not_encodable")
        #expect(error?.description.contains("secret") == true)
        #expect(error?.description.contains("inf") == false)
    }
}
