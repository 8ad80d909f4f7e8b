internal import Foundation
internal import NIOSSL
internal import ChaparCore
internal import ChaparSimulator
internal import Synchronization
internal import SwiftASN1
internal import X509

/// The state that the listeners of one simulator share: behind a lock, with the clock and the configuration.
final class APNsServiceState: Sendable {
    let configuration: APNsSimulatorConfiguration
    let time: any TimeSource
    let seed: UInt64
    private let state: Mutex<APNsState>
    private let offset: Mutex<Duration>
    private let nextConnection = Atomic<Int>(1)

    init(configuration: APNsSimulatorConfiguration, time: any TimeSource) {
        self.configuration = configuration
        self.time = time
        seed = configuration.seed ?? .random(in: .min ... .max)
        var state = APNsState(seed: seed, inboxLimit: configuration.inboxLimit)
        for key in configuration.keys { state.register(key.registration) }
        self.state = Mutex(state)
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

    func withState<Value: Sendable>(_ body: (inout sending APNsState) throws -> sending Value) rethrows -> Value {
        try state.withLock(body)
    }

    func takeConnectionNumber() -> Int { nextConnection.add(1, ordering: .relaxed).oldValue }
}

/// One listener's part of the service, over the shared state.
struct APNsService: SandboxHTTP2Service {
    let listener: APNsListener
    let service: APNsServiceState

    func accepted() -> (number: Int, opening: SandboxOpening) {
        let number = service.takeConnectionNumber()
        let now = service.now
        let steps = service.withState { state in
            state.counters.connectionAttempts += 1
            state.counters.connectionsOpen += 1
            let subject = FaultEngine.Subject(listener: listener.name, connection: number)
            let steps = state.faults.steps(at: .connect, for: subject, now: now, random: &state.random)
            if !steps.isEmpty { state.counters.faultsInjected += 1 }
            if steps.contains(where: \.endsConnection) { state.counters.connectionsTurnedAway += 1 }
            return steps
        }
        return (number, SandboxOpening(steps))
    }

    func makePeer(number: Int, certificate: NIOSSLCertificate?) -> any SandboxHTTP2Peer {
        service.withState { $0.counters.connectionsOpened += 1 }
        var connection = APNsConnectionState()
        if let certificate {
            // TLS has checked the chain; a certificate that cannot be read as a provider's is a foreign one.
            let parsed = (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }
            connection.certificate = parsed.flatMap(APNsProviderCertificate.init)
            connection.hasForeignCertificate = connection.certificate == nil
        }
        return APNsPeer(number: number, listener: listener, service: service, connection: connection)
    }

    func closed(number: Int) {
        service.withState { $0.counters.connectionsOpen -= 1 }
    }
}
