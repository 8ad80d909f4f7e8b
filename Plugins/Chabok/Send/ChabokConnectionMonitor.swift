import ChaparCore
import Synchronization

/// Where the link to Chabok stands, in the words of the vendor's clients.
@nonexhaustive
public enum ChabokConnectionState: Hashable, Sendable {
    /// The backend is made; nothing was sent yet.
    case connectingStart
    /// The first request is on its way.
    case connecting
    /// An answer below 500 came.
    case connected
    /// Shut down.
    case disconnected
    /// Three requests in a row failed on the way.
    case disconnectedError
    /// A request met its deadline.
    case socketTimeout
    /// A value that no client of ours knows.
    case unknown(Int)

    /// The number that Chabok's clients report.
    public var rawValue: Int {
        switch self {
        case .connectingStart: -2
        case .connecting: -1
        case .connected: 0
        case .disconnected: 1
        case .disconnectedError: 2
        case .socketTimeout: 3
        case .unknown(let value): value
        }
    }

    /// Reads a number that a client reports.
    public init(rawValue: Int) {
        self =
            switch rawValue {
            case -2: .connectingStart
            case -1: .connecting
            case 0: .connected
            case 1: .disconnected
            case 2: .disconnectedError
            case 3: .socketTimeout
            default: .unknown(rawValue)
            }
    }

    /// The word of the vendor's bridges.
    public var name: String {
        switch self {
        case .connectingStart, .connecting: "CONNECTING"
        case .connected: "CONNECTED"
        case .disconnected, .disconnectedError: "DISCONNECTED"
        case .socketTimeout: "SocketTimeout"
        case .unknown: "NOT_INITIALIZED"
        }
    }
}

/// By what kind of network something is reachable.
@nonexhaustive
public enum ChabokNetworkType: Hashable, Sendable {
    /// By none.
    case none
    /// A client's cellular network.
    case cellular
    /// A client's Wi-Fi.
    case wifi
    /// Any other, such as a server's.
    case other

    /// The number that Chabok's clients report; 3 for networks that they do not know.
    public var rawValue: Int {
        switch self {
        case .none: 0
        case .cellular: 1
        case .wifi: 2
        case .other: 3
        }
    }

    /// Reads a number that a client reports.
    public init(rawValue: Int) {
        self =
            switch rawValue {
            case 0: .none
            case 1: .cellular
            case 2: .wifi
            default: .other
            }
    }
}

/// The state machine of the link: a value that is told what happened and says what changed.
struct ChabokConnectionMachine: Sendable {
    /// The number of failures in a row that count as a lost connection.
    static let failureThreshold = 3

    private(set) var state = ChabokConnectionState.connectingStart
    /// Nil before anything is known.
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

/// The link of one backend: tells its changes to the event stream.
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
        case .cancelled, .invalidCall, .credentials, .queueFull: return  // They say nothing about the link.
        case .deadline: apply { $0.failed(isTimeout: true) }
        default: apply { $0.failed(isTimeout: false) }
        }
    }

    /// Told under the lock, so that two changes never change places; the stream does not block.
    private func apply(_ change: (inout ChabokConnectionMachine) -> [ChabokEvent]) {
        machine.withLock { machine in
            for event in change(&machine) { events.send(event) }
        }
    }
}
