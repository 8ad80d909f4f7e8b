internal import NIOCore

extension SandboxOpening {
    /// Carries out the steps before the TLS handshake; on the connection's event loop.
    func begin(on channel: any Channel, _ gate: TransportGate) {
        gate.holdInput(for: handshakeDelay)
        for step in steps {
            switch step {
            case .end(.reset): channel.eventLoop.assumeIsolated().execute { gate.reset() }
            case .end: channel.eventLoop.assumeIsolated().execute { gate.finish(keepsReading: false) }
            case .blackHole: gate.becomeBlackHole()
            case .throttle(let bytesPerSecond): gate.throttle(to: bytesPerSecond)
            case .delay, .settings, .goAway, .resetStream, .ignorePings: break
            }
        }
    }
}
