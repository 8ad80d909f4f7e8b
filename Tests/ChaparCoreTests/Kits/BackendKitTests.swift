import Foundation
import ChaparCore
import ChaparTesting
import Synchronization
import Testing

/// The faults of a model backend: one broken promise each.
enum ModelFault: String, Sendable, CaseIterable {
    case oddKind, noAudience, refusesTopics, checksAgain, noWindow
    case reportsNobody, reportsTwice, reportsOneTooFew, reportsStrangers, dropsBeyondLimit, hasNoID, refusesReplays
    case newIDs, mixesSends, sendsDryRuns
    case blamesMessage, killsForeignTokens, takesAnybody, findsFaults, miscounts, showsToken, passesLarge
    case leaksTokens, leaksSecrets, logsTexts
    case waitsForEver, refusesLost, takesNonsense, doubtsUnsent, callsRepeatsHarmless, seesNoOutage, cannotDiagnose
    case forgetsCancelled, hangsWhenCancelled, goesOnAfterShutdown, cannotShutDownTwice, goesOnInShutdown, watchesOn
    case knowsNobody
    case registersNothing, registersAlways, missesDevices, ignoresStatus, ignoresTags, ignoresEvents, cancelsAnything
    case inventsStates, believesAll, readsNoClicks
    case forgetsTime, sendsEnded, speaksOneLanguage, breaksTexts, changesRepeats, sendsAnywhere
    case retriesRefused, showsRefusedKey, keepsEndedToken, ignoresPause, believesSuccess, acceptsFirstLoss
    case recallsNothing, revokesNothing, ignoresCustomEvents, joinsNothing, staysInTopics, keepsDeletedChannels,
        knowsAnyToken

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
        case .miscounts: "counts the bytes"
        case .showsToken: "shows a message without its recipient"
        case .passesLarge: "never lets out"
        case .leaksTokens, .leaksSecrets, .logsTexts: "shows no token"
        case .waitsForEver: "ends a send by its deadline"
        case .refusesLost: "calls unknown what was sent"
        case .takesNonsense: "counts an unreadable answer neither as accepted"
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
        case .forgetsTime: "sends the time to live"
        case .sendsEnded: "refuses a message whose time to live"
        case .speaksOneLanguage: "speaks to each recipient"
        case .breaksTexts: "brings any text"
        case .changesRepeats: "sends the same request"
        case .sendsAnywhere: "sends nothing to an address"
        case .retriesRefused, .showsRefusedKey: "parks when its credential"
        case .keepsEndedToken: "replaces a credential"
        case .ignoresPause: "waits as long"
        case .believesSuccess: "takes a refusal under"
        case .acceptsFirstLoss: "counts nothing as accepted"
        case .recallsNothing: "asks devices to take messages away"
        case .ignoresCustomEvents: "takes events of the app's own"
        case .revokesNothing: "takes a message back"
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
        subject.sent = { platform.state.withLock { $0.sent } }
        subject.refuseCredential = { platform.state.withLock { $0.isRefusing = true } }
        subject.expireCredential = { platform.state.withLock { $0.hasEnded = true } }
        subject.throttle = { pause in platform.state.withLock { $0.pause = pause } }
        subject.refusedUnderSuccess = .token(DeviceToken("dropped-1", service: ModelBackend.own))
        subject.hostileRecipients = [.token(DeviceToken("https://elsewhere.example/x", service: ModelBackend.own))]
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
        subject.means.customEvent = CustomEvent("purchase", data: ["price": 990])
        subject.means.recallUser = "ali"
        subject.means.revocable = DeviceToken("token-0", service: ModelBackend.own)
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

    @Test("A check without its input is skipped by name, with the missing input", arguments: BackendConformance.checks)
    func skips(check: BackendConformance.Check) async throws {
        #expect(try await check.run(Self.subject(nil)) == nil)
        let platform = ScriptedBackend(audience: BackendAudience(services: [ModelBackend.own]))
        var bare = BackendConformance.Subject(
            backend: platform,
            recipient: { .token(DeviceToken("token-\($0)", service: ModelBackend.own)) }
        )
        // It has no clock.
        bare.lacks = [.timeToLive]
        let skip = try await check.run(bare)
        #expect(skip == check.skip(for: bare))
        let isUndeclared = skip?.isUndeclared == true
        #expect((skip != nil && !isUndeclared) == BackendConformance.skips(bare).contains { $0.promise == check.name })
        #expect(isUndeclared == BackendConformance.undeclared(bare).contains { $0.promise == check.name })
        guard let skip else { return }
        guard !isUndeclared else {
            #expect("\(skip)" == "not declared: it \(check.name)")
            return
        }
        #expect(!skip.give.isEmpty && "\(skip)".contains(check.name) && "\(skip)".contains("give "))
    }

    @Test("A bare subject leaves out what the most important checks need")
    func bareSubject() {
        var subject = Self.subject(nil)
        #expect(BackendConformance.skips(subject).isEmpty)
        subject.disturb = nil
        #expect(BackendConformance.skips(subject).count { !$0.isPartial } == 8)
        subject.takesRepeatsOnce = nil
        #expect(BackendConformance.skips(subject).contains { $0.promise.hasPrefix("gives the platform the same id") })
    }

    @Test("An undeclared ability is not checked", arguments: BackendConformance.checks)
    func undeclared(check: BackendConformance.Check) async throws {
        let platform = ScriptedBackend(audience: BackendAudience(services: [ModelBackend.own]))
        var subject = BackendConformance.Subject(
            backend: platform,
            recipient: { .token(DeviceToken("token-\($0)", service: ModelBackend.own)) }
        )
        subject.lacks = [.timeToLive]
        let skip = try await check.run(subject)
        // A check of an ability must not look as if it had passed.
        let isAbility = check.source.hasPrefix("PushBackend.") && check.source.contains(", ")
        if isAbility { #expect(skip?.isUndeclared == true) }
    }
}
