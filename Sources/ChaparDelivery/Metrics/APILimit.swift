/// The limits of the API, by their labels in metrics.
package enum APILimit: String, CaseIterable, Sendable {
    /// The requests in progress, of all callers.
    case requests
    /// The requests in progress of one API key.
    case requestsPerKey = "requests_per_key"
    /// The requests a second of one API key.
    case requestsPerSecond = "requests_per_second"
    /// The connections of one peer, or the requests in progress of a peer behind a trusted proxy.
    case connectionsPerPeer = "connections_per_peer"
    /// The attempts without a valid key a second, of one peer.
    case refusedAttempts = "refused_attempts_per_second"
    /// The memory of the bodies of all requests in progress.
    case bodyBytes = "body_bytes"
    /// The memory of the large bodies in progress of one API key.
    case bodyBytesPerKey = "body_bytes_per_key"
    /// The memory of the bodies in progress of one peer.
    case bodyBytesPerPeer = "body_bytes_per_peer"
    /// The event streams, of all callers.
    case streams
    /// The event streams of one API key.
    case streamsPerKey = "streams_per_key"
    /// The waiting deliveries of one API key.
    case waitingPerKey = "waiting_per_key"
    /// The reports of arrivals and openings a second, of one app.
    case receiptsPerApp = "receipts_per_app"
}
