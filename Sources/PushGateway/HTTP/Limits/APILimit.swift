internal import PushCore

/// The limits of the API, by their labels in metrics.
enum APILimit: String, CaseIterable, Sendable {
    /// Requests in progress, of all callers.
    case requests
    /// Requests in progress of one API key.
    case requestsPerKey = "requests_per_key"
    /// Requests a second of one API key.
    case requestsPerSecond = "requests_per_second"
    /// Connections of one peer, or requests in progress of one behind a trusted proxy.
    case connectionsPerPeer = "connections_per_peer"
    /// Attempts without the right key a second, of one peer.
    case refusedAttempts = "refused_attempts_per_second"
    /// The memory of the bodies of all requests in progress.
    case bodyBytes = "body_bytes"
    /// The memory of the large bodies in progress of one API key.
    case bodyBytesPerKey = "body_bytes_per_key"
    /// The memory of the bodies in progress of one peer.
    case bodyBytesPerPeer = "body_bytes_per_peer"
    /// Event streams, of all callers.
    case streams
    /// Event streams of one API key.
    case streamsPerKey = "streams_per_key"
    /// Deliveries of one API key that wait.
    case waitingPerKey = "waiting_per_key"
}

extension APISnapshot {
    /// The limit that is in force; 0 is none.
    func value(of limit: APILimit) -> Int {
        switch limit {
        case .requests: server.maximumRequests
        case .requestsPerKey: server.maximumRequests / 2
        case .requestsPerSecond: limits.requestsPerSecond
        case .connectionsPerPeer: connectionsPerPeer
        case .refusedAttempts: Int(clamping: Peers.refusals.perSecond)
        case .bodyBytes: Admission.budget(largest: server.maximumBodyBytes)
        case .bodyBytesPerKey: Admission.budget(largest: server.maximumBodyBytes) / 2
        case .bodyBytesPerPeer: Admission.budget(largest: server.maximumBodyBytes) / 4 * 3
        case .streams: Admission.maximumStreams
        case .streamsPerKey: limits.streamsPerKey
        case .waitingPerKey: waitingPerKey
        }
    }
}
