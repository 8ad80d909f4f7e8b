internal import Foundation
internal import ChaparCore

/// Checks that each declared ability has an effect on the platform, and that its answers fit.
///
/// The check of an ability that is nil is shown as not declared. A declared one fails its check when the subject gives
/// no means to try it.
extension BackendConformance {
    static let abilities: [Check] = [
        Check(
            "adds a device, says nothing when nothing has changed, and removes it twice without a word",
            source: "PushBackend.devices, DeviceRegistrar",
            why: "Every app start registers again: without a comparison each is a request to the platform.",
            needs: [],
            declared: .init("devices") { $0.backend.devices != nil },
            run: registers
        ),
        Check(
            "brings a subscription where it is told, and tells where it stands",
            source: "PushBackend.subscriptions, SubscriptionManager",
            why: "A user who unsubscribed must not get a message.",
            needs: [],
            declared: .init("subscriptions") { $0.backend.subscriptions != nil },
            run: subscribes
        ),
        Check(
            "takes tags to the platform",
            source: "PushBackend.tags, TagEditor",
            why: "Messages to tags reach those that the platform knows of.",
            needs: [],
            declared: .init("tags") { $0.backend.tags != nil },
            run: tags
        ),
        Check(
            "takes events to the platform",
            source: "PushBackend.events, EventReporter",
            why: "Opens that are not reported are missing in the platform's figures.",
            needs: [],
            declared: .init("events") { $0.backend.events != nil },
            run: reports
        ),
        Check(
            "takes events of the app's own to the platform",
            source: "PushBackend.customEvents, CustomEventReporter",
            why: "Campaigns that such an event starts do not begin otherwise.",
            needs: [],
            declared: .init("customEvents") { $0.backend.customEvents != nil },
            run: reportsCustomEvents
        ),
        Check(
            "cancels what has not gone out, and tells when it was too late",
            source: "PushBackend.cancellation, MessageCanceller",
            why: "The caller decides by the answer whether to send a correction.",
            needs: [],
            declared: .init("cancellation") { $0.backend.cancellation != nil },
            run: cancels
        ),
        Check(
            "tells the state of a message, and nil of one that the platform does not know",
            source: "PushBackend.tracking, MessageTracker",
            why: "An invented state ends a delivery that never was.",
            needs: [],
            declared: .init("tracking") { $0.backend.tracking != nil },
            run: tracks
        ),
        Check(
            "reads the platform's callbacks, and believes no others",
            source: "PushBackend.receipts, ReceiptReader",
            why: "Whoever can reach the address could report deliveries that never were, or delete devices.",
            needs: [],
            declared: .init("receipts") { $0.backend.receipts != nil },
            run: readsReceipts
        ),
        Check(
            "reads a click",
            source: "PushBackend.clicks, ClickReader",
            why: "The app reports what it was shown; the answer says what to do.",
            needs: [],
            declared: .init("clicks") { $0.backend.clicks != nil },
            run: readsClicks
        ),
        Check(
            "asks devices to take messages away",
            source: "PushBackend.recall, MessageRecaller",
            why: "A message that was sent by mistake stays on screens otherwise.",
            needs: [],
            declared: .init("recall") { $0.backend.recall != nil },
            run: recalls
        ),
        Check(
            "takes a message back from the devices that got it",
            source: "PushBackend.revocation, MessageRevoker",
            why: "A message that was sent by mistake stays on screens otherwise.",
            needs: [],
            declared: .init("revocation") { $0.backend.revocation != nil },
            run: revokes
        ),
        Check(
            "joins a token to a topic and takes it off again",
            source: "PushBackend.topics, TopicManager",
            why: "Who left a topic must not get its messages.",
            needs: [],
            declared: .init("topics") { $0.backend.topics != nil },
            run: joinsTopics
        ),
        Check(
            "makes, reads, lists and deletes a channel",
            source: "ChannelManager",
            why: "A deleted channel that stays is sent to for ever.",
            needs: [],
            declared: .init("channels") { $0.backend.channels != nil },
            run: keepsChannels
        ),
        Check(
            "looks up a token, knows none that does not exist, and imports those of another platform",
            source: "PushBackend.tokenDirectory, TokenDirectory",
            why: "An unknown token that counts as known keeps a dead device.",
            needs: [],
            declared: .init("tokenDirectory") { $0.backend.tokenDirectory != nil },
            run: looksUpTokens
        ),
    ]

    // MARK: Devices

    private static func registers(_ subject: Subject) async throws {
        guard let devices = subject.backend.devices else { return }
        let device = try means(subject.means.device, "devices", "device")
        try expect(devices.accepts(device), "it does not accept a device that it is tested with")
        let id = try await saying("registering a device") { () async throws(PushError) in
            try await devices.register(device)
        }
        try expect(!id.isEmpty, "the platform's id of the device is empty")
        let again = try await subject.rise(subject.requests) {
            let same = try await saying("registering it again") { () async throws(PushError) in
                try await devices.register(device)
            }
            try expect(same == id, "the device has another id when it is registered again")
        }
        try expect((again ?? 0) == 0, "registering it again without a change took \(again ?? 0) requests")
        var other = device
        other.attributes["app_version"] = "99.1"
        other.language = "de-DE"
        let changed = other
        let renewed = try await subject.rise(subject.requests) {
            _ = try await saying("registering a changed device") { () async throws(PushError) in
                try await devices.register(changed)
            }
            try await saying("removing a device") { () async throws(PushError) in try await devices.remove(changed) }
        }
        try expect(renewed != 0, "changing and removing a device took no request")
        try await saying("removing a device that is gone") { () async throws(PushError) in
            try await devices.remove(changed)
        }
    }

    private static func subscribes(_ subject: Subject) async throws {
        guard let subscriptions = subject.backend.subscriptions else { return }
        let device = try await known(subject, "subscriptions")
        for status in subject.means.statuses {
            let reached = try await subject.rise(subject.requests) {
                try await saying("the change to \(status.rawValue)") { () async throws(PushError) in
                    try await subscriptions.setStatus(status, of: device)
                }
            }
            try expect(reached != 0, "the change to \(status.rawValue) took no request")
            let found = try await saying("the question for a status") { () async throws(PushError) in
                try await subscriptions.status(of: device)
            }
            try expect(found == status, "brought to \(status.rawValue), it stands at \(found?.rawValue ?? "nothing")")
        }
        var change = SubscriptionChange(.subscribed)
        change.options["no_such_option"] = true
        let issues = subscriptions.issues(in: change, of: device)
        try expect(!issues.isEmpty, "an option that does not exist passes unseen")
    }

    private static func tags(_ subject: Subject) async throws {
        guard let tags = subject.backend.tags else { return }
        let device = try await known(subject, "tags")
        let wanted = subject.means.tags
        let issues = tags.issues(in: wanted, of: device)
        try expect(issues.isEmpty, "tags that the platform takes have faults: \(issues.map(\.detail))")
        let reached = try await subject.rise(subject.requests) {
            try await saying("setting tags") { () async throws(PushError) in try await tags.setTags(wanted, of: device)
            }
        }
        try expect(reached != 0, "setting tags took no request")
        let removed = wanted.reduce(into: JSONObject()) { $0[$1.name] = .null }
        try await saying("removing tags") { () async throws(PushError) in try await tags.setTags(removed, of: device) }
    }

    private static func reports(_ subject: Subject) async throws {
        guard let events = subject.backend.events else { return }
        let device = try await known(subject, "events")
        let id = try await means(subject.means.reported, "events", "reported")()
        for event in PushEvent.allCases {
            let reached = try await subject.rise(subject.requests) {
                try await saying("the event \(event.rawValue)") { () async throws(PushError) in
                    try await events.report(event, platformID: id, device: device)
                }
            }
            try expect(reached != 0, "the event \(event.rawValue) took no request")
        }
        let foreign = try await saying("the payload of another platform") { () async throws(PushError) in
            try events.platformID(in: ["aps": ["alert": "Hello"]])
        }
        try expect(foreign == nil, "the payload of another platform has the id \(foreign ?? "")")
    }

    private static func reportsCustomEvents(_ subject: Subject) async throws {
        guard let reporter = subject.backend.customEvents else { return }
        let event = try means(subject.means.customEvent, "customEvents", "customEvent")
        let device = try await known(subject, "customEvents")
        let issues = reporter.issues(in: event, of: device)
        try expect(issues.isEmpty, "it does not accept the event that it is tested with: \(issues)")
        let attempt = OutboxAttempt(at: Date(timeIntervalSince1970: 1_760_000_000))
        let reached = try await subject.rise(subject.requests) {
            try await saying("the event \(event.name)") { () async throws(PushError) in
                _ = try await reporter.report(event, of: device, as: attempt)
            }
        }
        try expect(reached != 0, "the event \(event.name) took no request")
    }

    // MARK: Messages

    private static func cancels(_ subject: Subject) async throws {
        guard let cancellation = subject.backend.cancellation else { return }
        let id = try await means(subject.means.cancellable, "cancellation", "cancellable")()
        let first = try await saying("cancelling") { () async throws(PushError) in
            try await cancellation.cancel(platformID: id)
        }
        try expect(first, "a message that has not gone out could not be cancelled")
        // An error about an unknown message is as good as "too late".
        let late = (try? await cancellation.cancel(platformID: subject.means.unknownID)) ?? false
        try expect(!late, "a message that does not exist was cancelled")
    }

    private static func tracks(_ subject: Subject) async throws {
        guard let tracking = subject.backend.tracking else { return }
        let id = try await means(subject.means.tracked, "tracking", "tracked")()
        let state = try await saying("asking for a message") { () async throws(PushError) in
            try await tracking.state(of: id)
        }
        try expect(state != nil, "a message that the platform has taken has no state")
        let unknown = try await saying("asking for an unknown message") { () async throws(PushError) in
            try await tracking.state(of: subject.means.unknownID)
        }
        try expect(unknown == nil, "a message that does not exist is \(unknown?.rawValue ?? "")")
    }

    private static func readsReceipts(_ subject: Subject) async throws {
        guard let reader = subject.backend.receipts else { return }
        let callback = try await means(subject.means.callback, "receipts", "callback")()
        let receipts: [DeliveryReceipt]
        do throws(ReceiptRefusal) {
            receipts = try reader.receipts(in: callback)
        } catch {
            throw ConformanceFailure("a callback of the platform's own was refused: \(error)")
        }
        try expect(!receipts.isEmpty, "a callback with a receipt holds none")
        for receipt in receipts {
            try expect(receipt.platformID != nil || receipt.token != nil, "a receipt says nothing of its message")
            try expect(!receipt.reason.isEmpty && receipt.reason.utf8.count <= 64, "a reason is unfit for a label")
        }
        var forged = callback
        forged.headers = forged.headers.filter { $0.name == "content-type" }
        forged.pathSecret = nil
        do throws(ReceiptRefusal) {
            _ = try reader.receipts(in: forged)
        } catch {
            guard case .notAuthentic = error else {
                throw ConformanceFailure("a callback without its credential is refused as \(error)")
            }
            let answer = reader.acknowledgement
            try expect(
                answer.isEmpty || (try? JSONValue(parsing: answer)) != nil,
                "the acknowledgement is no JSON: \(String(decoding: answer, as: UTF8.self))"
            )
            return
        }
        throw ConformanceFailure("a callback without its credential was believed")
    }

    private static func readsClicks(_ subject: Subject) async throws {
        guard let clicks = subject.backend.clicks else { return }
        let click = try means(subject.means.click, "clicks", "click")
        let taken = try await saying("a click") { () async throws(PushError) in try await clicks.read(click) }
        let isRead = taken.receipt != nil || !taken.notification.isEmpty
        try expect(isRead, "it finds nothing in a click on its own notification")
        if case .failure(let error)? = taken.forwarding {
            throw ConformanceFailure("the platform could not be told of a click: \(error)")
        }
    }

    private static func recalls(_ subject: Subject) async throws {
        guard let recall = subject.backend.recall else { return }
        let user = try means(subject.means.recallUser, "recall", "recallUser")
        for ids in [["m-1", "m-2"], nil] {
            let reached = try await subject.rise(subject.requests) {
                let isTaken = try await saying("a recall") { () async throws(PushError) in
                    try await recall.recall(ids, from: user)
                }
                try expect(isTaken, "the platform knows no device of the user that it is tested with")
            }
            try expect(reached != 0, "a recall took no request")
        }
    }

    private static func revokes(_ subject: Subject) async throws {
        guard let revocation = subject.backend.revocation else { return }
        let token = try means(subject.means.revocable, "revocation", "revocable")
        try expect(revocation.revocationLimit > 0, "it takes messages back from no device")
        let notification = PushNotification(title: "Conformance", body: "Taken back")
        guard let id = await subject.backend.send(notification, to: .token(token)).acceptance?.trackingID else {
            throw ConformanceFailure("a message that was accepted has no tracking id, by which it can be taken back")
        }
        for attempt in ["once", "again"] {
            let reached = try await subject.rise(subject.requests) {
                let isTaken = try await saying("taking a message back \(attempt)") { () async throws(PushError) in
                    try await revocation.revoke(id, from: [token])
                }
                try expect(isTaken, "the platform does not know the device that it is tested with")
            }
            try expect(reached != 0, "taking a message back took no request")
        }
    }

    // MARK: Topics, channels, tokens

    private static func joinsTopics(_ subject: Subject) async throws {
        guard let topics = subject.backend.topics else { return }
        let token = try means(subject.means.member, "topics", "member")
        try expect(topics.services.contains(token.service), "it takes no token of the service it is tested with")
        func change(_ what: String, _ body: () async throws(PushError) -> [TokenOutcome]) async throws {
            let outcomes = try await saying(what, body)
            guard outcomes.count == 1, case .done = outcomes[0] else {
                throw ConformanceFailure("\(what) came to \(outcomes)")
            }
        }
        func names() async throws -> [String] {
            try await saying("the question for a token's topics") { () async throws(PushError) in
                try await topics.topics(of: token)?.map(\.name) ?? []
            }
        }
        try await change("joining a topic") { () async throws(PushError) in
            try await topics.subscribe([token], to: "conformance")
        }
        let joined = try await names()
        try expect(joined.contains("conformance"), "a token that joined a topic is not in it")
        try await change("leaving a topic") { () async throws(PushError) in
            try await topics.unsubscribe([token], from: "conformance")
        }
        let left = try await names()
        try expect(!left.contains("conformance"), "a token that left a topic is still in it")
        do throws(PushError) {
            _ = try await topics.subscribe([token], to: "no name")
        } catch {
            return
        }
        throw ConformanceFailure("a text that names no topic was taken as one")
    }

    private static func keepsChannels(_ subject: Subject) async throws {
        guard let channels = subject.backend.channels else { return }
        for storage in ChannelStorage.allCases {
            let id = try await saying("making a channel") { () async throws(PushError) in
                try await channels.create(storage: storage)
            }
            try expect(!id.isEmpty, "a channel was made without an id")
            let found = try await saying("reading it") { () async throws(PushError) in try await channels.read(id) }
            try expect(found == storage, "a channel was not made as it was asked for")
            let all = try await saying("listing channels") { () async throws(PushError) in try await channels.list() }
            try expect(all.contains(id), "a channel that was made is not in the list")
            for expected in [true, false] {
                let wasThere = try await saying("deleting a channel") { () async throws(PushError) in
                    try await channels.delete(id)
                }
                try expect(wasThere == expected, "deleting a channel says that it was \(wasThere ? "" : "not ")there")
            }
            let gone = try await saying("reading a deleted channel") { () async throws(PushError) in
                try await channels.read(id)
            }
            try expect(gone == nil, "a deleted channel is still there")
        }
    }

    private static func looksUpTokens(_ subject: Subject) async throws {
        guard let directory = subject.backend.tokenDirectory else { return }
        let token = try means(subject.means.member, "tokenDirectory", "member")
        let known = try await saying("a look-up") { () async throws(PushError) in
            try await directory.details(of: token)
        }
        try expect(known?.application.isEmpty == false, "a token that the platform knows has no application")
        let unknown = try await saying("the look-up of no token") { () async throws(PushError) in
            try await directory.details(of: DeviceToken(subject.means.unknownID, service: token.service))
        }
        try expect(unknown == nil, "a token that does not exist is of \(unknown?.application ?? "")")
        let imported = try means(subject.means.imported, "tokenDirectory", "imported")
        let outcomes = await directory.importTokens(
            [imported],
            application: "com.example.app",
            environment: .production
        )
        guard outcomes.count == 1, case .imported(let made) = outcomes[0], !made.value.isEmpty else {
            throw ConformanceFailure("an import came to \(outcomes)")
        }
    }

    // MARK: Tools

    /// Returns the means to try an ability; throws without them, since then nothing shows that it has an effect.
    private static func means<Value>(_ value: Value?, _ ability: String, _ name: String) throws -> Value {
        guard let value else {
            throw ConformanceFailure("it declares \(ability), and the subject gives no means.\(name) to try it with")
        }
        return value
    }

    /// Returns the device of the subject, registered where the backend registers devices.
    private static func known(_ subject: Subject, _ ability: String) async throws -> DeviceRecord {
        let device = try means(subject.means.device, ability, "device")
        if let devices = subject.backend.devices, devices.accepts(device) {
            _ = try await saying("registering a device") { () async throws(PushError) in
                try await devices.register(device)
            }
        }
        return device
    }
}
