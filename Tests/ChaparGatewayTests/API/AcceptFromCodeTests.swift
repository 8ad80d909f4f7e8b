import Foundation
import InMemoryTracing
import ChaparCore
import ChaparComposition
import ChaparQueue
import ChaparStoreSQLite
import ChaparTesting
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import Testing
import Tracing

@testable import ChaparAPI
@testable import ChaparDelivery
@testable import ChaparGateway
@testable import ChaparServer

/// `gateway.accept`: a durable send from code, which takes the way of a request.
@Suite("A notification that code sends", .timeLimit(.minutes(1)))
struct AcceptFromCodeTests {
    private static let phone = Recipient.token("4f1c", service: .iOSAPNs)

    /// Every field there is.
    private static let full = PushNotification(
        title: .localized(default: "Hello", languages: ["fa": "سلام", "de": "Hallo"]),
        subtitle: "s\u{1F600}\n",
        body: "b",
        image: "https://example.com/a.png",
        sound: "default",
        badge: 0,
        category: "order",
        clickURL: "app://orders/42",
        actions: [.init(id: "t", title: "Track", url: "app://t"), .init(id: "u", title: "Undo")],
        data: ["order": "42", "deep": ["a": [1, 2.5, nil, true]]],
        timeToLive: .seconds(60),
        priority: .normal,
        collapseID: "c",
        sendAt: Date(timeIntervalSince1970: 1_900_000_000.25),
        isSilent: true,
        isDryRun: true,
        overrides: ["apns": ["headers": ["apns-push-type": "alert"]], "fcm": ["android": ["ttl": "5s"]]]
    )

    private static func read(
        _ notification: PushNotification,
        _ recipients: [Recipient]
    ) throws -> (draft: NotificationDraft, issues: [Finding]) {
        let snapshot = GatewaySnapshot(configuration: .keyless, backends: [])
        let settings = APISnapshot(snapshot, knownKinds: ["apns", "fcm"], uses: KeyUses(), at: .distantPast)
        var draft = NotificationDraft()
        var issues = RequestIssues()
        try NotificationReader(settings).read(
            NotificationWriter.body(notification, to: recipients),
            into: &draft,
            &issues
        )
        return (draft, issues.list)
    }

    @Test("is read as it was written, whatever it holds")
    func roundTrip() throws {
        for notification in [Self.full, PushNotification(body: "b"), PushNotification(isSilent: true)] {
            let (draft, issues) = try Self.read(notification, [Self.phone])
            #expect(issues.isEmpty, "\(issues)")
            #expect(draft.notification == notification)
            #expect(draft.recipients == [Self.phone])
        }
    }

    private static let everyAudience: [[Recipient]] = [
        [.token("4f1c", service: .iOSAPNs), .token("F:1", service: .androidFirebase)],
        [.device("phone-1"), .device("b")],
        [.user("ada")], [.platformID("0f"), .platformID("1f")], [.topic("news")], [.everyone],
        [.tags(TagFilter(all: ["a", "b"], any: ["c"], none: ["d"]))],
    ]

    @Test("goes to whom it names, in every form", arguments: everyAudience)
    func audiences(_ recipients: [Recipient]) throws {
        let (draft, issues) = try Self.read(PushNotification(body: "b"), recipients)
        switch recipients[0] {
        case .everyone, .tags: #expect(draft.recipients.isEmpty && draft.audienceRequest != nil, "of the own registry")
        default: #expect(draft.recipients == recipients)
        }
        #expect(issues.filter { $0.pointer.hasPrefix("#/to") }.isEmpty)
    }

    @Test("goes to the devices of its Live Activity when it names one")
    func activity() throws {
        let (draft, issues) = try Self.read(PushNotification(body: "b", activity: "order-42"), [])
        #expect(draft.notification.activity == "order-42" && issues.isEmpty)
        let both = try Self.read(PushNotification(body: "b", activity: "order-42"), [Self.phone])
        #expect(both.issues.map(\.code) == ["audience_ambiguous"])
    }

    @Test("is written the same each time, in every process, so that its key knows it again")
    func sameBytes() throws {
        let languages = Dictionary(uniqueKeysWithValues: (0..<50).map { ("l\($0)", "t\($0)") })
        let notification = PushNotification(title: .localized(default: "d", languages: languages))
        let written = try JSONValue(parsing: NotificationWriter.body(notification, to: []))
        let names = written["content"]?["title"]?.objectValue?.map(\.name)
        #expect(names == languages.keys.sorted() + ["default"])
    }

    @Test("is stored as the same request is")
    func same() async throws {
        let harness = APIHarness()
        var notification = Self.full
        notification.sendAt = harness.time.now.addingTimeInterval(10)
        let body = NotificationWriter.body(notification, to: [Self.phone])
        let posted = try await harness.post(String(decoding: body, as: UTF8.self))
        #expect(posted.status == 202, "\(posted.text)")
        let reply = try await harness.api.responder.accept(body, idempotencyKey: nil)
        let stored = harness.store.accepted
        try #require(stored.count == 2)
        #expect(try AcceptedNotification(reply).id == stored[1].id)
        #expect(stored[0].content == stored[1].content)
        #expect(stored[0].plan == stored[1].plan)
        #expect(stored[0].dueAt == stored[1].dueAt)
        #expect(stored[0].expiresAt == stored[1].expiresAt)
        #expect(stored[0].collapseID == stored[1].collapseID)
        #expect(stored[0].recipients == stored[1].recipients)
        #expect(stored[0].caller == stored[1].caller)
    }

    @Test("is refused while the gateway shuts down, when the store is full, and where it is wrong")
    func problems() async throws {
        try await Self.running { gateway, _ in
            let wrong = await #expect(throws: GatewayProblem.self) {
                try await gateway.accept(PushNotification(timeToLive: .milliseconds(1500)), to: [])
            }
            #expect(wrong?.code == "invalid_request" && wrong?.retryAfter == nil)
            #expect(
                wrong?.errors.map { "\($0.pointer) \($0.code)" } == [
                    "#/to audience_missing", "#/options/ttl not_whole",
                ]
            )
            #expect(
                wrong?.description.contains("#/options/ttl: Must be a whole number seconds") ?? false,
                "\(wrong as Any)"
            )
            let unknown = await #expect(throws: GatewayProblem.self) {
                try await gateway.accept(PushNotification(body: "b"), to: [Self.phone], backend: "iso")
            }
            #expect(unknown?.errors.map(\.pointer) == ["#/backend"])
            let key = await #expect(throws: GatewayProblem.self) {
                try await gateway.accept(PushNotification(body: "b"), to: [Self.phone], idempotencyKey: "سلام")
            }
            #expect(key?.code == "idempotency_key_invalid")
            gateway.state.beginDraining()
            let late = await #expect(throws: GatewayProblem.self) {
                try await gateway.accept(PushNotification(body: "b"), to: [Self.phone])
            }
            #expect(late?.code == "draining" && late?.retryAfter == .seconds(5))
        }
        let harness = APIHarness()
        harness.store.fail(.full(reason: "no room", retryAfter: .seconds(9)))
        let body = NotificationWriter.body(PushNotification(body: "b"), to: [Self.phone])
        let full = await #expect(throws: Problem.self) {
            try await harness.api.responder.accept(body, idempotencyKey: nil)
        }
        #expect(full.map { GatewayProblem($0).retryAfter } == .seconds(9))
    }

    @Test("is delivered by a gateway without a server, which tells what became of it and makes a span of its send")
    func delivered() async throws {
        let tracer = InMemoryTracer()
        try await withTracer(tracer) {
            try await Self.running { gateway, backend in
                let first = try await gateway.accept(
                    PushNotification(body: "b"),
                    to: [Self.phone, .token("dead", service: .iOSAPNs)],
                    idempotencyKey: "order-42"
                )
                #expect(!first.isReplay && first.warnings.isEmpty)
                let second = try await gateway.accept(
                    PushNotification(body: "b"),
                    to: [Self.phone, .token("dead", service: .iOSAPNs)],
                    idempotencyKey: "order-42"
                )
                #expect(second.isReplay && second.id == first.id)
                let reused = await #expect(throws: GatewayProblem.self) {
                    try await gateway.accept(PushNotification(body: "c"), to: [Self.phone], idempotencyKey: "order-42")
                }
                #expect(reused?.code == "idempotency_key_reused")
                var states = try await gateway.states(of: first.id)
                try await eventually("both have ended") {
                    states = try await gateway.states(of: first.id)
                    return states.allSatisfy(\.state.isFinal)
                }
                #expect(states.map(\.recipient) == [Self.phone, .token("dead", service: .iOSAPNs)])
                #expect(states.map(\.state) == [.acceptedByPlatform, .failed])
                #expect(states.map(\.platformID) == ["p-4f1c", nil])
                #expect(states.map(\.reason) == [nil, "Unregistered"])
                #expect(states.map(\.backend) == ["a", "a"])
                #expect(backend.sent == 2)
                #expect(try await gateway.states(of: NotificationID(rawValue: 1)).isEmpty)
            }
        }
        let spans = tracer.finishedSpans.filter { $0.operationName == "send a" }
        #expect(!spans.isEmpty && spans.allSatisfy { $0.attributes["messaging.system"]?.toSpanAttribute() == "a" })
    }

    /// Runs a gateway that serves no API: its address is one that cannot be listened on.
    private static func running(_ body: @Sendable (Gateway, SilentPlatform) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chapar-code-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var configuration = GatewayConfiguration.keyless
        configuration.server.host = "203.0.113.1"
        configuration.queue.drain = .seconds(1)
        let backend = SilentPlatform()
        let gateway = try await Gateway.assemble(
            GatewaySnapshot(configuration: configuration, backends: [.init(name: "a", backend: backend)]),
            store: SQLiteStore(SQLiteStoreOptions(path: folder.appending(path: "test.db").path)),
            servesAPI: false,
            logger: quiet
        )
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await gateway.run() }
                let result: Result<Void, any Error>
                do {
                    result = .success(try await body(gateway, backend))
                } catch {
                    result = .failure(error)
                }
                trigger.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try result.get()
            }
        }
    }
}

/// Takes every token but one.
private final class SilentPlatform: PushBackend {
    let kind: BackendKind = "a"
    let audience = BackendAudience(services: [.iOSAPNs])
    private let count = Mutex(0)

    var sent: Int { count.withLock { $0 } }

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        for (row, request) in requests.enumerated() {
            for (place, addressee) in request.recipients.enumerated() {
                guard case .token(let token) = addressee.recipient else { continue }
                count.withLock { $0 += 1 }
                let outcome: DeliveryOutcome =
                    token.value == "dead"
                    ? .refused(Refusal(.token, reason: "Unregistered", status: 410, advice: .never))
                    : .accepted(Acceptance(platformID: "p-\(token.value)", status: 200))
                report([DeliveryReport(request: row, recipient: place, outcome: outcome)])
            }
        }
    }
}
