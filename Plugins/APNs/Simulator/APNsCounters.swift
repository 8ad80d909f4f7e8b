/// The counts of events since the simulator started or was reset.
public struct APNsCounters: Sendable, Hashable {
    /// TCP connections that were accepted, including those that a fault rejected.
    public var connectionAttempts = 0
    /// Connections that a fault rejected at once.
    public var connectionsTurnedAway = 0
    /// Connections that completed TLS and began HTTP/2.
    public var connectionsOpened = 0
    /// Connections that are open now, TLS completed or not.
    public var connectionsOpen = 0
    /// Complete requests.
    public var requests = 0
    /// Pushes that were accepted.
    public var accepted = 0
    /// Refusals by reason, including those made by faults.
    public var refused: [String: Int] = [:]
    /// Streams refused because the client exceeded the limit.
    public var streamsRefused = 0
    /// Requests that a fault left without an answer, or answered with something that APNs never sends.
    public var faultsInjected = 0
    /// `GOAWAY` frames sent.
    public var goAways = 0
    /// Pings received.
    public var pings = 0
    /// Accepted pushes whose `apns-id` had been accepted before.
    public var duplicateIDs = 0
    /// Accepted pushes with a device token and payload that had been accepted before.
    public var duplicateContents = 0
    /// The ``duplicateContents`` without a collapse id: pushes that a person would have seen twice.
    public var doubledOnDevice = 0
    /// Accepted pushes that replaced an earlier one by its collapse id.
    public var collapsed = 0
    /// Broadcasts that were accepted.
    public var broadcasts = 0

    /// Makes counters at zero.
    public init() {}

    /// The sum of all refusals.
    public var refusedTotal: Int { refused.values.reduce(0, +) }
}
