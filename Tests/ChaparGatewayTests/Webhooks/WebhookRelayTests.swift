import Foundation
import HTTPTypes
import ChaparComposition
import ChaparCore
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import Testing

@testable import ChaparDelivery

@Suite("Sending webhooks", .timeLimit(.minutes(2)))
struct WebhookRelayTests {
    private static let failed = "delivery.failed"

    @Test("an endpoint gets the events that it wants, signed, thin and from its beginning on")
    func delivers() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.publish(Self.failed)
            let secret = try await rig.add("hook", receiver.url(), #","types":["delivery.failed","token.*"]"#)
            try await rig.publish("delivery.accepted_by_platform", "backend.parked", "notification.accepted")
            let recipient = Recipient.token(DeviceToken("secret-token-1", service: .iOSAPNs)).storedForm
            try await rig.publish(
                Self.failed,
                more:
                    #","notification":"n1","delivery":3,"recipient":"\#(recipient)","state":"failed","#
                    + #""attempt":{"at":"2027-01-15T08:00:00Z","outcome":"refused","reason":"Unregistered","status":410,"#
                    + #""detail":"the token secret-token-1 is dead"},"title":"Hello","metadata":{"order":42}"#
            )
            try await receiver.wait(for: 1)
            try await rig.settle()
            let requests = receiver.requests
            #expect(requests.count == 1 && requests[0].path == "/hook")
            let request = requests[0]
            #expect(request.fields["content-type"] == "application/json")
            #expect(
                secret.verifies(request.signatures, id: request.id, timestamp: request.timestamp, body: request.body)
            )
            #expect(!request.id.contains("."))
            #expect(request.type == Self.failed && request.numbers == [5])
            let data = request.json["data"]
            #expect(data?["notification"] == "n1" && data?["delivery"] == 3 && data?["app"] == "default")
            #expect(data?["attempt"]?["reason"] == "Unregistered" && data?["attempt"]?["status"] == 410)
            #expect(data?["metadata"]?["order"] == 42)
            let text = String(decoding: request.body, as: UTF8.self)
            #expect(!text.contains("secret-token-1") && !text.contains("Hello"))
            #expect(text.contains("sha256-"))
            let shown = try await rig.show()
            #expect(shown["status"] == "active" && shown["cursor"] == 5)
            #expect(!shown.text.contains("whsec_"), "the key is shown once")
        }
    }

    @Test("a failure is sent again with the same id, a new time and a new signature, after the waits of the table")
    func retries() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { _, repeats in .status(repeats < 3 ? 500 : 200) }
            let secret = try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed)
            let waits = [(5.0, 2), (300.0, 3), (1_800.0, 4)]
            try await receiver.wait(for: 1)
            for (wait, count) in waits {
                try await rig.wait("the failure is stored") {
                    try await rig.attempts().count == receiver.requests.count
                }
                let before = receiver.requests.count
                rig.time.advance(by: .seconds(wait * 0.79))
                try await Task.sleep(for: .milliseconds(50))
                #expect(receiver.requests.count == before, "not before \(wait) s less a fifth")
                rig.time.advance(by: .seconds(wait * 0.42))
                try await receiver.wait(for: count)
            }
            try await rig.settle()
            let requests = receiver.requests
            #expect(Set(requests.map(\.id)).count == 1 && requests.count == 4)
            #expect(Set(requests.map(\.timestamp)).count == 4 && Set(requests.map(\.signatures)).count == 4)
            #expect(requests.allSatisfy { $0.body == requests[0].body })
            #expect(
                requests.allSatisfy {
                    secret.verifies($0.signatures, id: $0.id, timestamp: $0.timestamp, body: $0.body)
                }
            )
            let attempts = try await rig.call(.get, "/v1/webhooks/hook/attempts").json["attempts"]?.arrayValue ?? []
            #expect(attempts.map { $0["outcome"]?.stringValue } == ["delivered", "refused", "refused", "refused"])
            #expect(attempts.map { $0["attempt"]?.integerValue } == [4, 3, 2, 1])
        }
    }

    @Test("a redirect is a failure and is never followed")
    func redirect() async throws {
        try await WebhookRig.run { rig, receiver in
            let target = receiver.url("/elsewhere")
            receiver.answer { request, _ in
                request.path == "/hook" ? .status(301, ["location": target]) : .status(200)
            }
            try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed)
            try await rig.wait("it failed") { try await rig.show()["open"] == 1 }
            #expect(receiver.requests.map(\.path) == ["/hook"])
            let attempt = try await rig.call(.get, "/v1/webhooks/hook/attempts").json["attempts"]?.arrayValue?.first
            #expect(attempt?["outcome"] == "redirected" && attempt?["redirect_host"] == "127.0.0.1")
        }
    }

    @Test("a name that changes after it was added gets no connection, and is disabled after three refusals")
    func rebinding() async throws {
        try await WebhookRig.run(networks: ["127.0.0.1"]) { rig, receiver in
            rig.names.set("hooks.example.com", ["127.0.0.1"])
            try await rig.add("hook", "http://hooks.example.com:\(receiver.port)/")
            try await rig.publish(Self.failed)
            try await receiver.wait(for: 1)
            try await rig.settle()
            let before = receiver.connections
            for addresses in [["169.254.169.254"], ["127.0.0.1", "127.0.0.2"], ["::ffff:127.0.0.3"]] {
                rig.names.set("hooks.example.com", addresses)
                let attempts = try await rig.call(.get, "/v1/webhooks/hook/attempts").json["attempts"]
                let count = attempts?.arrayValue?.count ?? 0
                try await rig.publish(Self.failed)
                try await rig.wait("an attempt was refused") {
                    let now = try await rig.call(.get, "/v1/webhooks/hook/attempts").json["attempts"]
                    return now?.arrayValue?.count ?? 0 > count && now?.arrayValue?.first?["outcome"] == "address"
                }
            }
            try await rig.wait("it is disabled") { try await rig.show()["status"] == "disabled" }
            #expect(try await rig.show()["reason"] == "address")
            #expect(receiver.connections == before)
        }
    }

    @Test("410 disables at once; enabled again it begins with new events, and a recovery sends those in between")
    func gone() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { _, _ in .status(410) }
            try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed)
            try await rig.wait("it is disabled") { try await rig.show()["status"] == "disabled" }
            #expect(try await rig.show()["reason"] == "gone")
            try await rig.wait("the event") {
                try await rig.store.events(after: 1, limit: 9, wait: .zero).contains {
                    String(decoding: $0.json, as: UTF8.self).contains(#""type":"webhook.disabled""#)
                }
            }
            try await rig.publish(Self.failed, Self.failed)
            try await Task.sleep(for: .milliseconds(50))
            #expect(receiver.requests.count == 1, "nothing more is sent")
            receiver.answer { _, _ in .status(200) }
            #expect(try await rig.call(.patch, "/v1/webhooks/hook", #"{"enabled":true}"#).status == 200)
            try await rig.wait("it is active") { try await rig.show()["lag"] == 0 }
            try await rig.publish(Self.failed)
            try await receiver.wait(for: 2)
            #expect(receiver.requests.last?.numbers == [5])
            let since = RFC3339.string(rig.time.now.addingTimeInterval(-60))
            let reply = try await rig.call(.post, "/v1/webhooks/hook/recover", #"{"since":"\#(since)"}"#)
            #expect(reply.status == 202, "\(reply.text)")
            #expect(reply.json["messages"] == 1 && reply.json["spans"] == 1)
            try await receiver.wait(for: 5)
            try await rig.settle()
            #expect(Set(receiver.requests.flatMap(\.numbers)) == [1, 3, 4, 5])
            #expect(receiver.requests.filter { $0.numbers == [1] }.map(\.id).count == 2)
            #expect(Set(receiver.requests.filter { $0.numbers == [1] }.map(\.id)).count == 1, "the same id")
        }
    }

    @Test("a recovery of the later part of an outage leaves the earlier part to another one")
    func parts() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.add("hook", receiver.url())
            #expect(try await rig.call(.patch, "/v1/webhooks/hook", #"{"enabled":false}"#).status == 200)
            try await rig.wait("it is disabled") { try await rig.show()["disabled_at"]?.stringValue != nil }
            let start = rig.time.now
            try await rig.publish(Self.failed)
            rig.time.advance(by: .seconds(600))
            try await rig.publish(Self.failed)
            #expect(try await rig.call(.patch, "/v1/webhooks/hook", #"{"enabled":true}"#).status == 200)
            try await rig.wait("it is active") { try await rig.show()["lag"] == 0 }
            let recoveries: [(Double, [Int64])] = [(300, [2]), (-60, [2, 1])]
            for (seconds, numbers) in recoveries {
                let since = RFC3339.string(start.addingTimeInterval(seconds))
                let reply = try await rig.call(.post, "/v1/webhooks/hook/recover", #"{"since":"\#(since)"}"#)
                #expect(reply.status == 202 && reply.json["spans"] == 1, "\(reply.text)")
                try await rig.wait("it comes", moving: .milliseconds(50)) { receiver.requests.count >= numbers.count }
                try await rig.settle()
                #expect(receiver.requests.flatMap(\.numbers) == numbers)
            }
            #expect(try await rig.show()["failed"] == 0)
        }
    }

    @Test("429 with a time pauses the endpoint until then, and no other one")
    func throttled() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { request, repeats in
                request.path == "/slow" && repeats == 0 ? .status(429, ["retry-after": "120"]) : .status(200)
            }
            try await rig.add("slow", receiver.url("/slow"))
            try await rig.add("other", receiver.url("/other"))
            try await rig.publish(Self.failed)
            try await receiver.wait(for: 2)
            try await rig.wait("it is paused") { try await rig.show("slow")["paused_until"] != nil }
            try await rig.publish(Self.failed)
            try await receiver.wait(for: 3)
            rig.time.advance(by: .seconds(118))
            try await Task.sleep(for: .milliseconds(50))
            #expect(receiver.requests.filter { $0.path == "/slow" }.count == 1)
            rig.time.advance(by: .seconds(3))
            try await receiver.wait(for: 5)
            #expect(receiver.requests.filter { $0.path == "/other" }.count == 2)
        }
    }

    @Test("an endpoint that is down for an hour delays no other, keeps few messages, and loses none")
    func outage() async throws {
        try await WebhookRig.run { rig, receiver in
            let start = rig.time.now
            receiver.answer { [time = rig.time] request, _ in
                request.path == "/down" && time.now.timeIntervalSince(start) < 3_600 ? .reset : .status(200)
            }
            try await rig.add("down", receiver.url("/down"))
            try await rig.add("well", receiver.url("/well"))
            for round in 0..<60 {
                for _ in 0..<5 { try await rig.publish(Self.failed) }
                try await rig.wait("the healthy one has all of minute \(round)") {
                    receiver.requests.count { $0.path == "/well" } == (round + 1) * 5
                }
                rig.time.advance(by: .seconds(60))
            }
            let open = try await rig.show("down")["open"]?.integerValue ?? .max
            #expect(open < 100, "an outage keeps the first messages and one a minute: \(open)")
            try await rig.wait("all have come", moving: .seconds(5)) {
                Set(receiver.requests.filter { $0.path == "/down" && $0.numbers.first ?? 0 > 0 }.flatMap(\.numbers))
                    .count
                    == 300
            }
            try await rig.settle("down")
            // Every number was taken in the end: what failed was sent again until nothing was open.
            #expect(try await rig.show("down")["failed"] == 0)
        }
    }

    /// Returns the numbers of the events that messages of several ids have.
    private static func inSeveral(_ requests: [WebhookReceiver.Request]) -> [Int64] {
        var ids: [Int64: Set<String>] = [:]
        for request in requests {
            for number in request.numbers { ids[number, default: []].insert(request.id) }
        }
        return ids.filter { $0.value.count > 1 }.map(\.key)
    }

    @Test("a process that dies between the request and the commit sends again with the same id, and loses nothing")
    func killed() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "webhooks-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (round, more) in ["", #","batch":true"#, #","ordered":true"#].enumerated() {
            let (before, after) = (folder.appending(path: "a\(round)"), folder.appending(path: "b\(round)"))
            try FileManager.default.createDirectory(at: before, withIntermediateDirectories: true)
            try await WebhookReceiver.run { receiver in
                receiver.answer { _, _ in .hold }
                let rig = try WebhookRig(path: before.appending(path: "test.db").path)
                try await rig.run {
                    try await rig.add("hook", receiver.url(), more)
                    for _ in 0..<3 { try await rig.publish(Self.failed) }
                    try await rig.wait("requests are open", moving: .milliseconds(20)) { !receiver.requests.isEmpty }
                    // The file as a killed process would leave it: the receiver has the message, and no commit says so.
                    try FileManager.default.copyItem(at: before, to: after)
                    receiver.release()
                }
                let first = receiver.requests
                receiver.answer { _, _ in .status(200) }
                let next = try WebhookRig(
                    path: after.appending(path: "test.db").path,
                    time: ManualTime(rig.time.now.addingTimeInterval(1))
                )
                try await next.publish(Self.failed)
                try await next.run {
                    try await next.wait("everything has come", moving: .milliseconds(200)) {
                        Set(receiver.requests.dropFirst(first.count).flatMap(\.numbers)) == [1, 2, 3, 4]
                    }
                    try await next.settle()
                    let repeated = receiver.requests.dropFirst(first.count)
                    for request in first {
                        let again = repeated.filter { $0.id == request.id }
                        #expect(!again.isEmpty, "\(more): \(request.id) was not sent again")
                        #expect(again.allSatisfy { $0.body == request.body }, "\(more): a repeat has the same body")
                    }
                    #expect(Self.inSeveral(receiver.requests).isEmpty, "\(more): each event is in one message only")
                }
            }
        }
    }

    @Test("an ordered endpoint gets one request at a time, in order, also over failures")
    func ordered() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { request, repeats in
                (request.numbers.first ?? 0) % 4 == 0 && repeats == 0 ? .status(500) : .status(200)
            }
            try await rig.add("hook", receiver.url(), #","ordered":true"#)
            for _ in 0..<12 { try await rig.publish(Self.failed) }
            try await rig.wait("all have come", moving: .milliseconds(500)) { receiver.requests.count >= 15 }
            try await rig.settle()
            #expect(receiver.mostAtOnce == 1)
            var taken: [Int64] = []
            for request in receiver.requests where taken.last != request.numbers.first { taken += request.numbers }
            #expect(taken == Array(1...12), "repeats follow each other")
        }
    }

    @Test("a batch has up to 100 events, and a repeat of it is the same")
    func batches() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { _, repeats in .status(repeats == 0 ? 503 : 200) }
            let secret = try await rig.add("hook", receiver.url(), #","batch":true"#)
            try await rig.store.publish(
                (0..<250).map { _ in Array(#"{"type":"delivery.failed","at":"2027-01-15T08:00:00Z"}"#.utf8) }
            )
            try await rig.wait("all have come twice", moving: .milliseconds(200)) {
                Set(receiver.requests.map(\.id)).allSatisfy { id in receiver.requests.count { $0.id == id } > 1 }
                    && Set(receiver.requests.flatMap(\.numbers)).count == 250
            }
            try await rig.settle()
            let requests = receiver.requests
            #expect(requests.allSatisfy { $0.type == "events.batch" && $0.numbers.count <= 100 })
            #expect(requests.contains { $0.numbers.count == 100 })
            for id in Set(requests.map(\.id)) {
                #expect(Set(requests.filter { $0.id == id }.map(\.body)).count == 1, "fixed once formed")
            }
            #expect(
                requests.allSatisfy {
                    secret.verifies($0.signatures, id: $0.id, timestamp: $0.timestamp, body: $0.body)
                }
            )
        }
    }

    @Test("open messages hold nothing of a user who is erased: a retry sends what the log has then")
    func erased() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { _, repeats in .status(repeats == 0 ? 500 : 200) }
            try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed, more: #","recipient":"user:ada-lovelace","notification":"n""#)
            try await rig.wait("it failed") { try await rig.show()["open"] == 1 }
            let message = try #require(try await rig.store.firstOpenWebhookMessage(of: "hook"))
            #expect(!String(decoding: message.record, as: UTF8.self).contains("ada"))
            let progress = try #require(try await rig.store.webhookProgress("hook"))
            #expect(!String(decoding: progress.memory, as: UTF8.self).contains("ada"))
            _ = try await rig.store.redactEvents { _, json in
                Array(String(decoding: json, as: UTF8.self).replacing("user:ada-lovelace", with: "erased:").utf8)
            }
            rig.time.advance(by: .seconds(7))
            try await receiver.wait(for: 2)
            let (first, second) = (receiver.requests[0], receiver.requests[1])
            #expect(String(decoding: first.body, as: UTF8.self).contains("ada-lovelace"))
            #expect(!String(decoding: second.body, as: UTF8.self).contains("ada"))
            #expect(first.id == second.id && second.json["data"]?["notification"] == "n")
        }
    }

    @Test("an endpoint of an app gets the events of its backends only")
    func apps() async throws {
        try await WebhookRig.run(apps: ["ios": AppName(rawValue: "shop"), "crm": AppName(rawValue: "bank")]) {
            rig,
            receiver in
            try await rig.add("shop", receiver.url("/shop"), #","app":"shop""#)
            try await rig.add("all", receiver.url("/all"))
            try await rig.publish(Self.failed, backend: "crm")
            try await rig.publish(Self.failed, backend: "ios")
            try await rig.publish(Self.failed, backend: "gone")
            try await receiver.wait(for: 4)
            try await rig.settle("shop")
            #expect(receiver.requests.filter { $0.path == "/shop" }.map(\.numbers) == [[2]])
            #expect(Set(receiver.requests.filter { $0.path == "/all" }.flatMap(\.numbers)) == [1, 2, 3])
        }
    }

    @Test("without an endpoint nothing is sent, and the sender ends when it is told")
    func idle() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.publish(Self.failed)
            try await Task.sleep(for: .milliseconds(50))
            #expect(receiver.connections == 0)
        }
    }

    @Test("the configuration's endpoint is added at a reload, and takes no place of an app's")
    func feedback() async throws {
        try await WebhookRig.run { rig, receiver in
            func reload(_ path: String) {
                var configuration = rig.state.snapshot.configuration
                configuration.webhooks.feedbackURL = receiver.url(path)
                rig.state.replace(GatewaySnapshot(configuration: configuration, backends: rig.state.snapshot.backends))
                rig.relay.reload()
            }
            reload("/first")
            try await rig.wait("it is added") { try await rig.show("feedback")["status"] == "active" }
            try await rig.publish(Self.failed)
            try await receiver.wait(for: 1)
            reload("/second")
            let second = JSONValue.string(receiver.url("/second"))
            try await rig.wait("it is changed") { try await rig.show("feedback")["url"] == second }

            #expect(try await rig.call(.delete, "/v1/webhooks/feedback").status == 204)
            try await rig.add("feedback", receiver.url("/app"), #","app":"default""#)
            reload("/third")
            try await Task.sleep(for: .milliseconds(100))
            let shown = try await rig.show("feedback")
            #expect(shown["url"] == .string(receiver.url("/app")) && shown["app"] == "default", "it is that app's")
        }
    }

    @Test("an endpoint that does not answer in time fails, and the attempt says so")
    func timeout() async throws {
        try await WebhookRig.run(deadline: .milliseconds(300)) { rig, receiver in
            receiver.answer { _, _ in .hold }
            try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed)
            try await rig.wait("it failed") { try await rig.show()["open"] == 1 }
            let attempt = try await rig.call(.get, "/v1/webhooks/hook/attempts").json["attempts"]?.arrayValue?.first
            #expect(attempt?["outcome"] == "timeout")
        }
    }

    @Test("the status of an answer counts, also when its body never ends")
    func unfinished() async throws {
        try await WebhookRig.run(deadline: .seconds(6)) { rig, receiver in
            receiver.answer { request, _ in .unfinished(request.numbers == [1] ? 200 : 410) }
            try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed)
            try await rig.wait("the first attempt") { try await !rig.attempts().isEmpty }
            #expect(try await rig.attempts().first?["outcome"] == "delivered")
            try await rig.publish(Self.failed)
            try await rig.wait("it is disabled") { try await rig.show()["status"] == "disabled" }
            #expect(receiver.requests.count == 2)
        }
    }

    @Test("a receiver may ask for a wait of any length: a day at most is waited")
    func longWait() async throws {
        try await WebhookRig.run { rig, receiver in
            receiver.answer { _, _ in .status(503, ["retry-after": "99999999999999999999"]) }
            try await rig.add("hook", receiver.url())
            try await rig.publish(Self.failed)
            try await rig.wait("it failed") { try await rig.show()["open"] == 1 }
            let until = try #require(try await rig.show()["paused_until"]?.stringValue.flatMap { RFC3339.parse($0) })
            #expect(abs(until.timeIntervalSince(rig.time.now) - 86_400) < 60)
        }
    }

    @Test("a notification that has ended is told once all its deliveries have")
    func finished() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.add("hook", receiver.url(), #","types":["notification.finished"]"#)
            let body =
                #"{"to":{"tokens":[{"token":"ab12","service":"ios-apns"},{"token":"cd34","service":"ios-apns"}]},"#
                + #""content":{"title":"x"},"backend":"ios","metadata":{"order":7}}"#
            let sent = try await rig.call(.post, "/v1/notifications", body)
            #expect(sent.status == 202, "\(sent.text)")
            for _ in 0..<2 {
                let claims = try await rig.store.claim(backend: "ios", limit: 1, wait: .zero)
                try await rig.store.record(
                    claims.map { claim in
                        let event = EventJSON.delivery(claim, state: .failed, at: rig.time.now)
                        return Resolution(of: claim, .end(.failed), event: event)
                    }
                ) { claim, state, _ in EventJSON.delivery(claim, state: state, at: rig.time.now) }
            }
            try await receiver.wait(for: 1)
            try await rig.settle()
            #expect(receiver.requests.count == 1)
            let data = receiver.requests[0].json["data"]
            #expect(data?["notification"] == sent.json["id"] && data?["counts"]?["failed"] == 2)
            #expect(data?["metadata"]?["order"] == 7)
        }
    }

    @Test(
        "a notification whose last delivery ends with a report is told, and a later report tells nothing again",
        arguments: [1, 2]
    )
    func finishedByReport(recipients: Int) async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.add("hook", receiver.url(), #","types":["notification.finished"]"#)
            let ids = try await [Self.accept(rig, recipients, waits: true), Self.accept(rig, recipients, waits: false)]
            try await rig.settle()
            #expect(receiver.requests.count == 1, "the first one waits for reports")
            for id in ids {
                for state in [DeliveryState.delivered, .opened] {
                    for place in 0..<recipients { try await Self.report(state, of: id, place, rig) }
                    try await rig.settle()
                }
            }
            let told = receiver.requests.map { $0.json["data"]?["notification"]?.stringValue ?? "" }
            #expect(Set(told) == Set(ids.map(\.description)) && told.count == 2, "\(told)")
        }
    }

    /// Accepts a notification whose deliveries `ios` takes; `crm` takes over where those wait for a report.
    private static func accept(_ rig: WebhookRig, _ recipients: Int, waits: Bool) async throws -> NotificationID {
        let store = rig.store
        var plan = DeliveryPlan(["ios", "crm"])
        if waits { plan.escalation = Escalation(step: 1, after: .seconds(600)) }
        let now = store.time.steady
        let new = NewNotification(
            id: store.makeID(recipients: recipients),
            notification: PushNotification(title: "x"),
            record: NotificationRecord(
                content: Array(#"{"content":{"title":"x"}}"#.utf8),
                plans: [plan],
                acceptedAt: now
            ),
            recipients: (0..<recipients).map { .token(DeviceToken("ab1\($0)", service: .iOSAPNs)) },
            caller: "",
            expiresAt: now.addingTimeInterval(3_600),
            event: Array("{}".utf8)
        )
        _ = try await store.enqueue(EnqueueBatch([new]))
        let claims = try await store.claim(backend: "ios", limit: recipients, wait: .zero)
        #expect(claims.count == recipients)
        let resolutions = claims.map { claim in
            let attempt = Array(#"{"at":"1","backend":"ios","outcome":"accepted","platform_id":"\#(claim.id)"}"#.utf8)
            return Resolution(
                of: claim,
                waits ? .retry(at: now.addingTimeInterval(600), step: 1) : .end(.acceptedByPlatform),
                attempt: attempt,
                mayHaveBeenSent: true,
                event: EventJSON.delivery(claim, state: waits ? .retrying : .acceptedByPlatform, at: rig.time.now),
                receipt: ReceiptAddress(backend: "ios", platformID: "\(claim.id)", token: "")
            )
        }
        try await store.record(resolutions) { claim, state, _ in
            EventJSON.delivery(claim, state: state, at: rig.time.now)
        }
        return new.id
    }

    private static func report(
        _ state: DeliveryState,
        of id: NotificationID,
        _ place: Int,
        _ rig: WebhookRig
    ) async throws {
        let logEntry = Array(#"{"at":"2","reason":"\#(state.rawValue)","outcome":"receipt"}"#.utf8)
        let address = ReceiptAddress(delivery: id.rawValue + Int64(place))
        let entry = ReceiptEntry(address, state: state, logEntry: logEntry) { delivery in
            EventJSON.received(delivery, changesState: true, backend: "ios", logEntry: logEntry, at: rig.time.now)
        }
        #expect(try await rig.store.record([entry]) != [.unknown])
    }

    @Test("a campaign that has ended is told at its end, and not by a delivery before")
    func campaigns() async throws {
        try await WebhookRig.run { rig, receiver in
            try await rig.add("hook", receiver.url(), #","types":["notification.finished"],"app":"default""#)
            let body = #"{"to":{"tags":{"any":["news"]}},"content":{"title":"x"},"metadata":{"order":7}}"#
            let sent = try await rig.call(.post, "/v1/notifications", body)
            #expect(sent.status == 202, "\(sent.text)")
            let text = try #require(sent.json["id"]?.stringValue)
            let id = try #require(NotificationID(text))
            try await rig.publish(Self.failed, more: #","notification":"\#(text)""#)
            try await rig.settle()
            #expect(receiver.requests.isEmpty)
            let campaign = try #require(try await rig.store.campaign(id))
            try await rig.store.publish([EventJSON.campaign(campaign, .ended, at: rig.time.now)])
            try await receiver.wait(for: 1)
            try await rig.settle()
            #expect(receiver.requests.count == 1)
            let data = receiver.requests[0].json["data"]
            #expect(data?["notification"] == sent.json["id"] && data?["app"] == "default")
            #expect(data?["metadata"]?["order"] == 7)
        }
    }
}
