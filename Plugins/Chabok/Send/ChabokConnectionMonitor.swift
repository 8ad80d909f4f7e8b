import ChaparCore
import Synchronization

/// The state machine of the link: a value whose methods take an event of the transport and return the changes.
struct ChabokConnectionMachine: Sendable {
    /// The number of failures in a row that count as a lost connection.
    static let failureThreshold = 3

    private(set) var state = ChabokConnectionState.connectingStart
    /// Whether Chabok can be reached; nil before the first result.
    private(set) var isReachable: Bool?
    private var failures = 0

    mutating func began() -> [ChabokEvent] { state == .connectingStart ? move(to: .connecting) : [] }

    mutating func answered(_ status: Int) -> [ChabokEvent] {
        failures = 0
        return reach(true) + (status < 500 ? move(to: .connected) : [])
    }

    mutating func failed(isTimeout: Bool) -> [ChabokEvent] {
        failures += 1
        if isTimeout, failures < Self.failureThreshold { return move(to: .socketTimeout) }
        guard failures >= Self.failureThreshold else { return [] }
        return reach(false) + move(to: isTimeout ? .socketTimeout : .disconnectedError)
    }

    mutating func ended() -> [ChabokEvent] { move(to: .disconnected) }

    private mutating func move(to new: ChabokConnectionState) -> [ChabokEvent] {
        guard new != state else { return [] }
        defer { state = new }
        return [.connectionStateChanged(old: state, new: new)]
    }

    private mutating func reach(_ isReachable: Bool) -> [ChabokEvent] {
        guard isReachable != self.isReachable else { return [] }
        self.isReachable = isReachable
        return [.reachabilityChanged(isReachable: isReachable, network: isReachable ? .other : .none)]
    }
}

/// The link of one backend, whose changes go to the event stream.
final class ChabokConnectionMonitor: Sendable {
    private let machine = Mutex(ChabokConnectionMachine())
    private let events: ChabokEventStream

    init(_ events: ChabokEventStream) { self.events = events }

    var state: ChabokConnectionState { machine.withLock { $0.state } }
    var isReachable: Bool? { machine.withLock { $0.isReachable } }

    func began() { apply { $0.began() } }
    func answered(_ status: Int) { apply { $0.answered(status) } }
    func ended() { apply { $0.ended() } }

    func failed(_ failure: HTTPFailure) {
        switch failure.cause {
        // These failures say nothing about the link.
        case .cancelled, .invalidCall, .credentials, .credentialsUnavailable, .queueFull: return
        case .deadline: apply { $0.failed(isTimeout: true) }
        default: apply { $0.failed(isTimeout: false) }
        }
    }

    /// Sends the events under the lock, so that changes keep their order; the stream does not block.
    private func apply(_ change: (inout ChabokConnectionMachine) -> [ChabokEvent]) {
        machine.withLock { machine in
            for event in change(&machine) { events.send(event) }
        }
    }
}
