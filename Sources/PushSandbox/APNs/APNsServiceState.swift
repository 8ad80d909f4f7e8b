internal import Foundation
internal import NIOSSL
internal import PushCore
internal import Synchronization
internal import SwiftASN1
internal import X509

/// What the listeners of one simulator share: the world behind a lock, the clock, the configuration.
final class APNsServiceState: Sendable {
    let configuration: APNsSimulatorConfiguration
    let time: any TimeSource
    let seed: UInt64
    private let world: Mutex<APNsWorld>
    private let offset: Mutex<Duration>
    private let nextConnection = Atomic<Int>(1)

    init(configuration: APNsSimulatorConfiguration, time: any TimeSource) {
        self.configuration = configuration
        self.time = time
        seed = configuration.seed ?? .random(in: .min ... .max)
        var world = APNsWorld(seed: seed, inboxLimit: configuration.inboxLimit)
        for key in configuration.keys { world.register(key.registration) }
        self.world = Mutex(world)
        offset = Mutex(configuration.clockOffset)
    }

    /// The server's clock.
    var now: Date {
        let offset = offset.withLock { $0 }
        return offset == .zero ? time.now : time.now.addingTimeInterval(offset.inSeconds)
    }

    var clockOffset: Duration {
        get { offset.withLock { $0 } }
        set { offset.withLock { $0 = newValue } }
    }

    func withWorld<Value: Sendable>(_ body: (inout sending APNsWorld) throws -> sending Value) rethrows -> Value {
        try world.withLock(body)
    }

    func takeConnectionNumber() -> Int { nextConnection.add(1, ordering: .relaxed).oldValue }
}

/// One listener's view of the shared state.
struct APNsService: SandboxHTTP2Service {
    let listener: APNsListener
    let state: APNsServiceState

    func accepted() -> (number: Int, opening: SandboxOpening) {
        let number = state.takeConnectionNumber()
        let now = state.now
        let steps = state.withWorld { world in
            world.counters.connectionAttempts += 1
            world.counters.connectionsOpen += 1
            let subject = FaultEngine.Subject(listener: listener.name, connection: number)
            let steps = world.faults.steps(at: .connect, for: subject, now: now, random: &world.random)
            if !steps.isEmpty { world.counters.faultsInjected += 1 }
            if steps.contains(where: \.endsConnection) { world.counters.connectionsTurnedAway += 1 }
            return steps
        }
        return (number, SandboxOpening(steps))
    }

    func makePeer(number: Int, certificate: NIOSSLCertificate?) -> any SandboxHTTP2Peer {
        state.withWorld { $0.counters.connectionsOpened += 1 }
        var connection = APNsConnectionState()
        if let certificate {
            // TLS has checked the chain; what cannot be read as a provider certificate is a foreign one.
            let parsed = (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }
            connection.certificate = parsed.flatMap(APNsProviderCertificate.init)
            connection.hasForeignCertificate = connection.certificate == nil
        }
        return APNsPeer(number: number, listener: listener, state: state, connection: connection)
    }

    func closed(number: Int) {
        state.withWorld { $0.counters.connectionsOpen -= 1 }
    }
}

extension SandboxOpening {
    init(_ steps: [FaultStep]) {
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
    var endsConnection: Bool {
        if case .end = self { true } else { false }
    }

    /// The step as the connection carries it out; nil for one that changes the answer or the rules instead.
    var wireStep: SandboxStep? {
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
