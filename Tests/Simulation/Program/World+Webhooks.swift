import ChaparCore
import ChaparQueue
import ChaparStoreContract

@testable import ChaparDelivery
@testable import ChaparGateway

extension World {
    /// A second gateway on the database, of which only the sender of webhooks runs.
    ///
    /// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
    final class Peer: @unchecked Sendable {
        let time: VirtualTime
        let store: MemoryStore
        let relay: WebhookRelay
        var hasEnded = false
        /// The time until which the process does not run; nil while it does.
        var frozenUntil: Int64?

        init(_ time: VirtualTime, _ store: MemoryStore, _ relay: WebhookRelay) {
            (self.time, self.store, self.relay) = (time, store, relay)
        }
    }

    /// Starts the second gateway, in a run that has a database and webhooks.
    func startPeer(_ snapshot: GatewaySnapshot) {
        guard conditions.hasWebhooks, let database, peer == nil else { return }
        let time = VirtualTime(scheduler)
        let store = database.open(time)
        let state = GatewayState(snapshot: snapshot, store: store, devices: store, time: store.time)
        let relay = WebhookRelay(
            state: state,
            metrics: GatewayMetrics(),
            logger: trace.logger,
            transport: SimulatedHooks(self, time)
        )
        let peer = Peer(time, store, relay)
        self.peer = peer
        trace.record("start of a peer")
        Task {
            await relay.run()
            peer.hasEnded = true
        }
    }

    /// Ends the second gateway's process without a word, as `kill -9` does.
    func killPeer() {
        guard let peer else { return }
        trace.record("the peer is killed")
        disturbWebhooks()
        peer.time.forgetSleepers()
        lostPeers.append(peer)
        endPeer()
    }

    private func endPeer() {
        peer = nil
        peerDue = scheduler.now + Int64(scheduler.draw(below: 60)) * 1_000_000_000
    }

    /// The second gateway's process stops for a while, longer than a lease or shorter.
    func freezePeer(seconds: Int) {
        guard let peer, peer.frozenUntil == nil else { return }
        trace.record("the peer is frozen for \(seconds) s")
        disturbWebhooks()
        peer.frozenUntil = scheduler.now + Int64(seconds) * 1_000_000_000
    }

    /// The second gateway ends in good order.
    func stopPeer() {
        trace.record("the peer is stopped")
        disturbWebhooks()
        peer?.relay.stop()
    }

    /// Lets the second gateway's time pass, and starts it again a while after its end.
    func wakePeer() {
        guard let peer else {
            if scheduler.now >= peerDue, let incarnation, incarnation.gateway != nil {
                startPeer(snapshot(incarnation))
            }
            return
        }
        if peer.hasEnded { return endPeer() }
        if let until = peer.frozenUntil {
            guard scheduler.now >= until else { return }
            trace.record("the peer goes on")
            disturbWebhooks()
            peer.frozenUntil = nil
        }
        peer.time.wake()
    }

    /// When the second gateway has something to do next.
    var nextOfPeer: Int64? { peer?.frozenUntil ?? peer?.time.nextEnd }

    /// What a request to one gateway tells the other one of changed webhooks.
    func tellPeer() { peer?.relay.changed() }

    /// Notes that webhooks may get repeats of what they got until now.
    func disturbWebhooks() { oracle.webhooks.disturbances.append(scheduler.now) }
}
