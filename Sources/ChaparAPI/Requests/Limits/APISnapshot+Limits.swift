internal import ChaparDelivery
internal import ChaparCore

extension APISnapshot {
    /// Returns the value of a limit in force; 0 is none.
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
        case .receiptsPerApp: receiptsPerApp
        }
    }
}
