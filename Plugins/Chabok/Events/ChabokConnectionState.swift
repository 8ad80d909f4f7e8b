/// The state of the link to Chabok, in the words of the vendor's clients.
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
    /// A number that is not known.
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

/// The kind of network over which Chabok is reachable.
@nonexhaustive
public enum ChabokNetworkType: Hashable, Sendable {
    /// No network.
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
