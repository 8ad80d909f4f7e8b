internal import Foundation
internal import NIOCore
internal import ChaparCore
internal import ChaparSimulator

/// One connection to the APNs simulator: asks the rules, applies faults to their verdict, keeps the connection's
/// limits.
///
/// It lives on the connection's event loop.
final class APNsPeer: SandboxHTTP2Peer {
    private let number: Int
    private let listener: APNsListener
    private let service: APNsServiceState
    private let rules: APNsRules
    private var connection: APNsConnectionState
    private var streamLimit: Int
    private var badDeviceTokens: [Date] = []
    private var lastPing: NIODeadline?

    init(number: Int, listener: APNsListener, service: APNsServiceState, connection: APNsConnectionState) {
        self.number = number
        self.listener = listener
        self.service = service
        self.connection = connection
        rules = APNsRules(environment: listener.environment, options: service.configuration.rules)
        let streams = service.configuration.streams
        // APNs allows one stream until a provider token is proven; a certificate is proven by the handshake.
        let isProven = connection.certificate != nil || listener.isManagement
        streamLimit = isProven ? streams.afterFirstPush : streams.beforeFirstPush
    }

    /// The settings with which APNs has been seen to open.
    var openingSettings: [HTTP2Setting] {
        [
            .init(id: 1, value: 4096), .maximumStreams(streamLimit), .initialWindow(65535), .init(id: 5, value: 16384),
            .init(id: 6, value: UInt32(clamping: APNsAnswers.maximumHeaderList)),
        ]
    }

    func opened() -> [SandboxStep] {
        let now = service.now
        return service.withState { state in
            let subject = FaultEngine.Subject(listener: listener.name, connection: number)
            let steps = state.faults.steps(at: .opened, for: subject, now: now, random: &state.random)
            if !steps.isEmpty { state.counters.faultsInjected += 1 }
            return steps.compactMap(\.wireStep)
        }
    }

    func began(_ stream: HTTP2Stream) -> [SandboxStep] {
        let now = service.now
        return service.withState { state in
            guard state.faults.isArmed(at: .requestHeaders) else { return [] }
            let subject = subject(of: APNsRequest(stream))
            let steps = state.faults.steps(at: .requestHeaders, for: subject, now: now, random: &state.random)
            if !steps.isEmpty { state.counters.faultsInjected += 1 }
            return steps.compactMap(\.wireStep)
        }
    }

    func received(_ stream: HTTP2Stream) -> [SandboxStep] {
        let now = service.now
        // The simulator's event loop may wait for this lock: each holder keeps it for a short computation only.
        return service.withState { state in
            state.counters.requests += 1
            guard state.faults.isArmed(at: .request) else { return [] }
            let faults = collectFaults(at: [.request], for: APNsRequest(stream), now: now, state: &state)
            stream.attachment = faults
            return faults.steps
        }
    }

    func process(_ stream: HTTP2Stream) -> SandboxReply {
        let request = APNsRequest(stream)
        let early = stream.attachment as? RequestFaults
        let now = service.now
        var draft = Draft()
        service.withState { state in
            if early?.isSilent == true { return }
            if let answer = early?.answer {
                draft = Draft(fault: answer, apnsID: request.apnsID ?? state.random.uuid(), now: now)
            } else if stream.headerListSize > APNsAnswers.maximumHeaderList {
                draft.refusal = APNsRefusal(431, "")
            } else {
                draft = decide(request, stream: stream.id, now: now, state: &state)
            }
            draft.faults = collectFaults(
                at: [.processed, .answerHeaders, .answered],
                for: request,
                now: now,
                state: &state
            )
            if let answer = draft.faults.answer { draft = draft.replaced(by: answer, now: now) }
            if let refusal = draft.refusal { state.counters.refused[refusal.reason, default: 0] += 1 }
        }
        draft.faults.distortions += early?.distortions ?? []
        draft.faults.isSilent = draft.faults.isSilent || early?.isSilent == true
        return reply(draft, now: now)
    }

    func pinged() -> [SandboxStep] {
        service.withState { $0.counters.pings += 1 }
        let now = NIODeadline.now()
        defer { lastPing = now }
        guard let interval = service.configuration.minimumPingInterval, let lastPing else { return [] }
        guard now - lastPing < TimeAmount(interval) else { return [] }
        return [.goAway(SandboxGoAway(code: 11, debugData: Array("too_many_pings".utf8)))]  // ENHANCE_YOUR_CALM
    }

    func refusedStream() { service.withState { $0.counters.streamsRefused += 1 } }

    func idled() -> [SandboxStep] { [.goAway(SandboxGoAway(reason: "IdleTimeout"))] }

    func sentGoAway() { service.withState { $0.counters.goAways += 1 } }

    // MARK: One request

    /// An answer under construction.
    struct Draft {
        var refusal: APNsRefusal?
        var apnsID: String?
        var management: APNsManagementAnswer?
        var requestID: String?
        var uniqueID: String?
        var delay: Duration = .zero
        var fault: FaultAnswer?
        var faults = RequestFaults()

        init() {}

        init(fault: FaultAnswer, apnsID: String, now: Date) {
            self.fault = fault
            self.apnsID = apnsID
            refusal = fault.refusal(now: now)
        }

        /// Returns the draft with another answer: the request was processed, but its sender gets this one.
        func replaced(by answer: FaultAnswer, now: Date) -> Draft {
            var draft = self
            draft.fault = answer
            draft.refusal = answer.refusal(now: now)
            return draft
        }
    }

    /// The faults of one request, by the moment at which they act.
    struct RequestFaults: Sendable {
        /// The steps before the answer, before or after the request is processed.
        var steps: [SandboxStep] = []
        var answer: FaultAnswer?
        var distortions: [FaultDistortion] = []
        var isSilent = false
        var afterHeaders: [SandboxStep] = []
        var after: [SandboxStep] = []
    }

    private func decide(_ request: APNsRequest, stream: Int32, now: Date, state: inout APNsState) -> Draft {
        let isBroadcast = request.path.hasPrefix("/4/broadcasts/")
        let isAboutChannels = listener.isManagement || isBroadcast
        var draft = Draft()
        let wanted = isAboutChannels ? request.requestID : request.apnsID
        let id = wanted.flatMap { UUIDText.isValid($0) ? $0 : nil } ?? state.random.uuid()
        // Answers to calls about channels carry the request's id, answers to device sends the message's.
        if isAboutChannels { draft.requestID = id } else { draft.apnsID = id }
        do throws(APNsRefusal) {
            if listener.isManagement {
                draft.management = try rules.manage(request, now: now, connection: &connection, state: &state)
                return draft
            }
            let push =
                isBroadcast
                ? try rules.checkBroadcast(request, now: now, connection: &connection, state: &state)
                : try rules.check(request, now: now, connection: &connection, state: &state)
            draft.delay = push.delay
            if listener.environment == .development { draft.uniqueID = state.random.uuid() }
            let arrival = APNsInbox.Arrival(
                environment: listener.environment,
                apnsID: request.apnsID ?? id,
                push: push,
                request: request,
                connection: number,
                stream: stream,
                isOnline: state.devices[listener.environment]?[push.token]?.isOnline ?? true,
                isBroadcast: isBroadcast
            )
            state.record(arrival, at: now)
        } catch {
            draft.refusal = error
        }
        return draft
    }

    private func collectFaults(
        at points: [FaultRule.Point],
        for request: APNsRequest,
        now: Date,
        state: inout APNsState
    ) -> RequestFaults {
        var faults = RequestFaults()
        for point in points where state.faults.isArmed(at: point) {
            let steps = state.faults.steps(at: point, for: subject(of: request), now: now, random: &state.random)
            if !steps.isEmpty { state.counters.faultsInjected += 1 }
            switch point {
            case .answerHeaders: faults.afterHeaders = steps.compactMap(\.wireStep)
            case .answered: faults.after = steps.compactMap(\.wireStep)
            case .connect, .opened, .requestHeaders, .request, .processed: add(steps, to: &faults)
            }
        }
        return faults
    }

    private func add(_ steps: [FaultStep], to faults: inout RequestFaults) {
        for step in steps {
            switch step {
            case .answer(let answer): faults.answer = answer
            case .distort(let distortion): faults.distortions.append(distortion)
            case .silence: faults.isSilent = true
            case .wedgeAfterExpiry: connection.wedgesAfterExpiry = true
            default:
                if let wire = step.wireStep { faults.steps.append(wire) }
            }
        }
    }

    private func subject(of request: APNsRequest) -> FaultEngine.Subject {
        FaultEngine.Subject(
            listener: listener.name,
            token: request.deviceToken.map { $0.lowercased() },
            topic: request.topic,
            path: request.path,
            connection: number
        )
    }

    // MARK: The reply and the connection's limits

    private func reply(_ draft: Draft, now: Date) -> SandboxReply {
        var reply = SandboxReply(before: draft.faults.steps, afterHeaders: draft.faults.afterHeaders)
        if draft.delay > .zero { reply.before.append(.delay(draft.delay)) }
        if !draft.faults.isSilent { reply.answer = APNsAnswers.make(draft, rules: rules.options) }
        reply.after = limits(after: draft, now: now) + draft.faults.after
        return reply
    }

    /// Raises the stream limit after an accepted push, lowers it after refusals under `isStrictFlow`, and ends the
    /// connection after too many bad tokens.
    private func limits(after draft: Draft, now: Date) -> [SandboxStep] {
        guard draft.fault == nil, !draft.faults.isSilent, !listener.isManagement else { return [] }
        let streams = service.configuration.streams
        guard let refusal = draft.refusal else {
            return streamLimit == streams.afterFirstPush ? [] : changeLimit(to: streams.afterFirstPush)
        }
        var steps: [SandboxStep] = []
        if streams.isStrictFlow, (400..<500).contains(refusal.status), refusal.status != 410,
            streamLimit != streams.beforeFirstPush
        {
            steps = changeLimit(to: streams.beforeFirstPush)
        }
        if refusal == .badDeviceToken, let limit = service.configuration.badDeviceTokenLimit {
            badDeviceTokens.removeAll { now.timeIntervalSince($0) >= 60 }
            badDeviceTokens.append(now)
            if badDeviceTokens.count >= limit {
                badDeviceTokens.removeAll()
                steps.append(.goAway(SandboxGoAway(reason: refusal.reason)))
            }
        }
        return steps
    }

    private func changeLimit(to limit: Int) -> [SandboxStep] {
        streamLimit = limit
        return [.settings([.maximumStreams(limit)])]
    }
}

extension APNsState {
    /// Puts an accepted push into the inbox and counts it.
    mutating func record(_ arrival: APNsInbox.Arrival, at now: Date) {
        let findings = inbox.add(arrival, at: now)
        counters.accepted += 1
        if arrival.isBroadcast { counters.broadcasts += 1 }
        if findings.isDuplicateID { counters.duplicateIDs += 1 }
        if findings.hasCollapsed { counters.collapsed += 1 }
        if findings.isDuplicateContent {
            counters.duplicateContents += 1
            if arrival.request.collapseID == nil { counters.doubledOnDevice += 1 }
        }
    }
}
