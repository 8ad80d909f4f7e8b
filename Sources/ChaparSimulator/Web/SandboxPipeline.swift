internal import Foundation
internal import ChaparCore

/// The request pipeline of one listener: passes requests to the handler, applies fault rules to its answers, and
/// counts.
///
/// Both versions of HTTP use it, so that a rule means the same on each of them.
struct SandboxPipeline: Sendable {
    /// The faults that hit one request before it is processed.
    struct Early: Sendable {
        var steps: [SandboxStep] = []
        fileprivate var faults = Faults()
    }

    fileprivate struct Faults: Sendable {
        var steps: [SandboxStep] = []
        var answer: FaultAnswer?
        var distortions: [FaultDistortion] = []
        var isSilent = false
    }

    let listener: SandboxListener
    let handler: any SandboxHandler
    let state: SandboxWebState
    /// The most open streams of an HTTP/2 connection.
    let maximumStreams: Int

    func accepted() -> (number: Int, opening: SandboxOpening) {
        let number = state.takeConnectionNumber()
        let now = state.now
        let steps = state.withValues { values in
            values.counters.connectionAttempts += 1
            values.counters.connectionsOpen += 1
            let subject = FaultEngine.Subject(listener: listener, connection: number)
            return values.steps(at: .connect, for: subject, now: now)
        }
        return (number, SandboxOpening(steps))
    }

    func opened(_ connection: Int) -> [SandboxStep] {
        let now = state.now
        return state.withValues { values in
            values.counters.connectionsOpened += 1
            let subject = FaultEngine.Subject(listener: listener, connection: connection)
            return values.steps(at: .opened, for: subject, now: now).compactMap(\.wireStep)
        }
    }

    func closed() { state.withValues { $0.counters.connectionsOpen -= 1 } }

    func began(_ request: SandboxRequest) -> [SandboxStep] {
        guard isArmed(at: .requestHeaders) else { return [] }
        return steps(at: .requestHeaders, for: request).compactMap(\.wireStep)
    }

    func received(_ request: SandboxRequest) -> Early {
        let isArmed = state.withValues { values in
            values.counters.requests += 1
            if !request.isHTTP2 { values.counters.requestsOverHTTP1 += 1 }
            return values.faults.isArmed(at: .request)
        }
        guard isArmed else { return Early() }
        let faults = Faults(steps(at: .request, for: request))
        return Early(steps: faults.steps, faults: faults)
    }

    func reply(to request: SandboxRequest, after early: Early) -> SandboxReply {
        let now = state.now
        var reply: SandboxReply
        if early.faults.isSilent {
            reply = SandboxReply()
        } else if let answer = early.faults.answer {
            reply = SandboxReply(answer: handler.answer(answer, to: request, at: now).with(answer.headers))
        } else {
            reply = handler.answer(request, at: now)
        }
        let late = isArmed(at: .processed) ? Faults(steps(at: .processed, for: request)) : Faults()
        if let answer = late.answer {
            reply.answer = handler.answer(answer, to: request, at: now).with(answer.headers)
        }
        if late.isSilent { reply.answer = nil }
        reply.before += late.steps
        for distortion in early.faults.distortions + late.distortions { reply.answer?.distort(distortion) }
        if isArmed(at: .answerHeaders) {
            reply.afterHeaders += steps(at: .answerHeaders, for: request).compactMap(\.wireStep)
        }
        if isArmed(at: .answered) { reply.after += steps(at: .answered, for: request).compactMap(\.wireStep) }
        return reply
    }

    private func isArmed(at point: FaultRule.Point) -> Bool {
        state.withValues { $0.faults.isArmed(at: point) }
    }

    private func steps(at point: FaultRule.Point, for request: SandboxRequest) -> [FaultStep] {
        let now = state.now
        let seen = handler.subject(of: request)
        let subject = FaultEngine.Subject(
            listener: listener,
            token: seen.token,
            topic: seen.topic,
            path: request.path,
            connection: request.connection
        )
        return state.withValues { $0.steps(at: point, for: subject, now: now) }
    }
}

extension SandboxPipeline.Faults {
    fileprivate init(_ steps: [FaultStep]) {
        for step in steps {
            switch step {
            case .answer(let answer): self.answer = answer
            case .distort(let distortion): distortions.append(distortion)
            case .silence: isSilent = true
            default:
                if let wire = step.wireStep { self.steps.append(wire) }
            }
        }
    }
}

extension SandboxAnswer {
    fileprivate mutating func distort(_ distortion: FaultDistortion) {
        switch distortion {
        case .withoutID, .upperCaseID: break
        case .emptyBody: body = []
        case .truncatedBody: body.removeLast(body.count / 2)
        }
    }
}
