package import ChaparDelivery
internal import ChaparCore

/// The share of the limits that a request in progress has taken: a place among all, among those of its key and among
/// those of its peer, and memory.
///
/// ``RequestLimits/admit(_:_:_:isCounted:isForwarded:bodyBytes:)`` makes it, and ``RequestLimits/giveBack(_:_:_:)``
/// gives all of it back, once.
package struct Admitted: Sendable {
    /// Whether it counts among the requests in progress; probes do not.
    fileprivate(set) var isCounted = false
    /// Whether a trusted proxy names its sender, so that it counts for that peer.
    fileprivate(set) var isForwarded = false
    /// The memory that is reserved for its body, in bytes.
    package fileprivate(set) var bodyBytes = 0
    /// The memory that is reserved for its trees, in bytes.
    package var treeBytes = 0
}

/// The limits of the requests in progress, for both ways in: the event loop's and the general one.
package struct RequestLimits: Sendable {
    package let admission: Admission
    package let peers: Peers

    /// Creates the limits: `admission` has those of keys and memory, `peers` has those of senders.
    package init(admission: Admission, peers: Peers) {
        self.admission = admission
        self.peers = peers
    }

    /// Takes what a request needs.
    ///
    /// - Parameters:
    ///   - caller: The caller, whose key has half of all places at most.
    ///   - peer: The sender.
    ///   - snapshot: The configuration in force, with the limits.
    ///   - isCounted: Whether the request takes a place among those in progress.
    ///   - isForwarded: Whether a trusted proxy names the sender, so that the request takes one of that peer's places.
    ///   - bodyBytes: The memory to reserve for a body, in bytes.
    /// - Returns: What was taken.
    /// - Throws: The problem of the limit that is reached; then nothing is taken.
    package func admit(
        _ caller: Caller,
        _ peer: PeerAddress,
        _ snapshot: APISnapshot,
        isCounted: Bool = true,
        isForwarded: Bool,
        bodyBytes: Int = 0
    ) throws(Problem) -> Admitted {
        let all = snapshot.server.maximumRequests
        var taken = Admitted()
        do throws(Problem) {
            if isForwarded {
                guard peers.beginForwarded(peer, limit: snapshot.connectionsPerPeer, of: all) else {
                    throw .tooManyOfOne(.connectionsPerPeer)
                }
                taken.isForwarded = true
            }
            if isCounted {
                try admission.enter(caller, limit: all)
                taken.isCounted = true
            }
            if bodyBytes > 0 {
                try admission.reserve(
                    bytes: bodyBytes,
                    payer: caller.payer(at: peer),
                    largest: snapshot.server.maximumBodyBytes
                )
                taken.bodyBytes = bodyBytes
            }
            return taken
        } catch {
            giveBack(taken, caller, peer)
            throw error
        }
    }

    /// Gives back what a request of this caller and sender has taken.
    package func giveBack(_ taken: Admitted, _ caller: Caller, _ peer: PeerAddress) {
        if taken.bodyBytes > 0 || taken.treeBytes > 0 {
            let payer = caller.payer(at: peer)
            admission.release(bytes: taken.bodyBytes, payer: payer)
            admission.release(bytes: taken.treeBytes, payer: payer)
        }
        if taken.isCounted { admission.leave(caller) }
        if taken.isForwarded { peers.endForwarded(peer) }
    }
}
