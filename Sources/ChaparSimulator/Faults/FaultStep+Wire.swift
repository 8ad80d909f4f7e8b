extension SandboxOpening {
    /// Makes the opening of a connection that meets these steps of faults.
    package init(_ steps: [FaultStep]) {
        self.init()
        for step in steps {
            switch step {
            case .delay(let delay): handshakeDelay += delay
            case .delaySettings(let delay): settingsDelay += delay
            default:
                if let wire = step.wireStep { self.steps.append(wire) }
            }
        }
    }
}

extension FaultStep {
    /// Whether the step ends the connection.
    package var endsConnection: Bool {
        if case .end = self { true } else { false }
    }

    /// The step as the connection carries it out; nil for a step that changes the answer or the rules instead.
    package var wireStep: SandboxStep? {
        switch self {
        case .delay(let delay): .delay(delay)
        case .resetStream(let code): .resetStream(code)
        case .goAway(let frame): .goAway(frame)
        case .maximumStreams(let count): .settings([.maximumStreams(count)])
        case .initialWindow(let size): .settings([.initialWindow(size)])
        case .end(let end): .end(end)
        case .blackHole: .blackHole
        case .ignorePings: .ignorePings
        case .throttle(let bytesPerSecond): .throttle(bytesPerSecond)
        case .delaySettings, .answer, .distort, .silence, .wedgeAfterExpiry: nil
        }
    }
}
