import Foundation
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

/// What is wrong with a model backend: one broken promise each.
enum ModelFault: String, Sendable, CaseIterable {
    case oddKind, noAudience, refusesTopics, checksAgain, noWindow
    case reportsNobody, reportsTwice, reportsOneTooFew, reportsStrangers, dropsBeyondLimit, hasNoID, refusesReplays
    case newIDs, mixesSends, sendsDryRuns
    case blamesMessage, killsForeignTokens, takesAnybody, findsFaults, passesLarge, leaksTokens, leaksSecrets, logsTexts
    case waitsForEver, refusesLost, takesNonsense, doubtsUnsent, callsRepeatsHarmless, seesNoOutage, cannotDiagnose
    case forgetsCancelled, hangsWhenCancelled, goesOnAfterShutdown, cannotShutDownTwice, goesOnInShutdown, watchesOn
    case knowsNobody
    case registersNothing, registersAlways, missesDevices, ignoresStatus, ignoresTags, ignoresEvents, cancelsAnything
    case inventsStates, believesAll, readsNoClicks
    case recallsNothing, joinsNothing, staysInTopics, keepsDeletedChannels, knowsAnyToken

    /// How the promise begins that it breaks.
    var promise: String {
        switch self {
        case .oddKind: "has a kind"
        case .noAudience: "can address its own"
        case .refusesTopics: "takes messages for every form"
        case .checksAgain: "brings a device token"
        case .noWindow: "says how much it bears"
        case .reportsNobody: "returns at once"
        case .reportsTwice, .reportsOneTooFew, .reportsStrangers: "reports every recipient"
        case .dropsBeyondLimit: "takes a large batch"
        case .hasNoID: "gives an id"
        case .refusesReplays: "takes the same message a second time"
        case .newIDs: "gives the platform the same id"
        case .mixesSends: "keeps concurrent sends apart"
        case .sendsDryRuns: "sends nothing in a dry run"
        case .blamesMessage: "refuses a dead recipient alone"
        case .killsForeignTokens: "refuses a recipient that it cannot address"
        case .takesAnybody: "refuses every form and service"
        case .findsFaults: "finds no fault"
        case .passesLarge: "never lets out"
        case .leaksTokens, .leaksSecrets, .logsTexts: "shows no token"
        case .waitsForEver: "ends a send by its deadline"
        case .refusesLost: "calls unknown what was sent"
        case .takesNonsense: "takes an answer that nobody can read"
        case .doubtsUnsent: "asks for another try"
        case .callsRepeatsHarmless: "says of an unknown outcome"
        case .seesNoOutage: "says in its health"
        case .cannotDiagnose: "finds nothing wrong by its diagnosis"
        case .forgetsCancelled: "reports everyone when its task is cancelled"
        case .hangsWhenCancelled: "ends a cancelled send"
        case .goesOnAfterShutdown, .cannotShutDownTwice: "reports everyone after its shutdown"
        case .goesOnInShutdown: "ends a send by its shutdown"
        case .watchesOn: "ends its watch"
        case .knowsNobody: "forgets a device"
        case .registersNothing, .registersAlways, .missesDevices: "adds a device"
        case .ignoresStatus: "brings a subscription"
        case .ignoresTags: "takes tags"
        case .ignoresEvents: "takes events"
        case .cancelsAnything: "cancels what has not gone out"
        case .inventsStates: "tells the state of a message"
        case .believesAll: "reads the platform's callbacks"
        case .readsNoClicks: "reads a click"
        case .recallsNothing: "asks devices to take messages away"
        case .joinsNothing, .staysInTopics: "joins a token to a topic"
        case .keepsDeletedChannels: "makes, reads, lists and deletes a channel"
        case .knowsAnyToken: "looks up a token"
        }
    }
}

/// The kit is worth something only if a backend that breaks a promise does not pass.
@Suite("The conformance kit of backends", .timeLimit(.minutes(1)))
struct BackendKitTests {
    private static func subject(_ fault: ModelFault?) -> BackendConformance.Subject {
        let platform = ModelPlatform()
        let log = RecordedLog()
        let backend = ModelBackend(platform, fault, log)
        var subject = BackendConformance.Subject(
            backend: backend,
            recipient: { .token(DeviceToken("token-\($0)", service: ModelBackend.own)) },
            others: [.topic("news")],
            deadRecipient: .token(DeviceToken("dead-7f3c", service: ModelBackend.own)),
            foreignRecipient: .token(DeviceToken("of-another-service", service: .androidHuawei)),
            taken: { platform.state.withLock { $0.taken.count } },
            requests: { platform.state.withLock { $0.requests } },
            payloadLimit: ModelBackend.limit,
            disturb: { disturbance in platform.state.withLock { $0.disturbance = disturbance } }
        )
        subject.log = log
        subject.takesRepeatsOnce = true
        subject.secrets = [Secret(ModelBackend.secret)]
        subject.deadline = .milliseconds(100)
        // What hangs on purpose is not waited for; a slow machine must not look like it.
        let hanging: [ModelFault?] = [
            .waitsForEver, .hangsWhenCancelled, .goesOnInShutdown, .cannotShutDownTwice, .watchesOn, .seesNoOutage,
            .doubtsUnsent,
        ]
        subject.waitLimit = fault != nil && hanging.contains(fault) ? .milliseconds(400) : .seconds(20)
        subject.means.device = DeviceRecord(id: "d", token: DeviceToken("token-d", service: ModelBackend.own))
        subject.means.reported = { "m" }
        let message: @Sendable () async -> String = {
            let id = MessageID.random()
            let request = PushRequest(
                PushNotification(title: "x"),
                to: [Addressee(.topic("news"), messageID: id)]
            )
            _ = await backend.send([request])
            return id.description
        }
        subject.means.cancellable = message
        subject.means.tracked = message
        subject.means.callback = {
            ReceiptCallback(headers: [HTTPHeader("x-secret", ModelBackend.secret)], body: [], receivedAt: .distantPast)
        }
        subject.means.click = ReportedClick(["id": "m"], action: nil, at: .distantPast)
        subject.means.recallUser = "ali"
        subject.means.member = DeviceToken("token-0", service: ModelBackend.own)
        subject.means.imported = DeviceToken("foreign", service: .iOSFirebase)
        return subject
    }

    @Test("A backend that keeps every promise passes", arguments: BackendConformance.checks)
    func good(check: BackendConformance.Check) async throws {
        try await check.run(Self.subject(nil))
    }

    @Test("A broken promise fails its check, which names promise, finding and source", arguments: ModelFault.allCases)
    func broken(fault: ModelFault) async throws {
        let check = try #require(BackendConformance.checks.first { $0.name.hasPrefix(fault.promise) })
        let failure = await #expect(throws: ConformanceFailure.self) { try await check.run(Self.subject(fault)) }
        let words = failure?.description ?? ""
        #expect(words.contains(check.name) && words.contains("seen: ") && words.contains("source: \(check.source)"))
        #expect(
            !check.why.isEmpty && words.contains("why it matters: \(check.why)") && words.contains("docs/Plugins.md")
        )
        #expect(!check.source.isEmpty && !words.contains(ModelBackend.secret))
    }

    @Test("There is a broken backend for each check")
    func everyCheck() {
        for check in BackendConformance.checks {
            #expect(ModelFault.allCases.contains { check.name.hasPrefix($0.promise) }, "\(check)")
        }
    }

    @Test("An ability that is declared must be given the means to be tried", arguments: BackendConformance.checks)
    func noMeans(check: BackendConformance.Check) async throws {
        guard check.source.hasPrefix("PushBackend."), check.source.contains(", ") else { return }
        var subject = Self.subject(nil)
        subject.means = BackendConformance.Means()
        let failure = await #expect(throws: ConformanceFailure.self) { try await check.run(subject) }
        #expect(failure?.description.contains("the subject gives no means") == true)
    }

    /// All that `PushBackend` asks for: everything else has a default.
    private struct SmallestBackend: PushBackend {
        let kind: BackendKind = "smallest"
        let audience = BackendAudience(forms: [.everyone])
        func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
            for (number, request) in requests.enumerated() {
                let outcome = DeliveryOutcome.accepted(Acceptance(platformID: "x"))
                report(request.recipients.indices.map { .init(request: number, recipient: $0, outcome: outcome) })
            }
        }
    }

    @Test("Three members make a backend")
    func smallest() async {
        let outcome = await SmallestBackend().send(PushNotification(body: "Hello"), to: .everyone)
        if case .accepted = outcome { return }
        Issue.record("\(outcome)")
    }

    @Test("What is not given is skipped by name, with what to give", arguments: BackendConformance.checks)
    func skips(check: BackendConformance.Check) async throws {
        #expect(try await check.run(Self.subject(nil)) == nil)
        let platform = ScriptedBackend(audience: BackendAudience(services: [ModelBackend.own]))
        let bare = BackendConformance.Subject(
            backend: platform,
            recipient: { .token(DeviceToken("token-\($0)", service: ModelBackend.own)) }
        )
        let skip = try await check.run(bare)
        #expect(skip == check.skip(for: bare))
        #expect((skip == nil) == !BackendConformance.skips(bare).contains { $0.promise == check.name })
        guard let skip else { return }
        #expect(!skip.give.isEmpty && "\(skip)".contains(check.name) && "\(skip)".contains("give "))
    }

    @Test("A bare subject leaves out what the most important checks need")
    func bareSubject() {
        var subject = Self.subject(nil)
        #expect(BackendConformance.skips(subject).isEmpty)
        subject.disturb = nil
        #expect(BackendConformance.skips(subject).count { !$0.isPartial } == 7)
        subject.takesRepeatsOnce = nil
        #expect(BackendConformance.skips(subject).contains { $0.promise.hasPrefix("gives the platform the same id") })
    }

    @Test("What is not declared is not asked for", arguments: BackendConformance.checks)
    func undeclared(check: BackendConformance.Check) async throws {
        let platform = ScriptedBackend(audience: BackendAudience(services: [ModelBackend.own]))
        try await check.run(
            BackendConformance.Subject(
                backend: platform,
                recipient: { .token(DeviceToken("token-\($0)", service: ModelBackend.own)) }
            )
        )
    }
}
