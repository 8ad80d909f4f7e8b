internal import Foundation
internal import ChaparCore
internal import Synchronization

/// A lane for each push service, by its origin: a service that is down, or refuses the VAPID token, delays no other.
///
/// A delivery worker can only pause all messages of its backend. So a lane in trouble is held here while another lane
/// works, and messages to it are refused with the remaining time. Bounded, and in memory.
final class WebPushLanes: Sendable {
    /// The most lanes that are remembered.
    static let capacity = 1_024
    /// The first hold of a lane whose service names no pause.
    static let firstHold = Duration.seconds(1)
    /// The longest hold where only waiting helps.
    static let longestHold = Duration.seconds(60)
    /// The longest hold where an operator must act.
    static let longestAccountHold = Duration.seconds(900)
    /// The time, in seconds, after its last message for which a lane counts as in use.
    private static let memory = TimeInterval(600)

    private struct Lane {
        var lastUse: Date
        var isInTrouble = false
        /// Whether the settings do not name its host; its trouble then never concerns the whole backend.
        var isForeign = false
        /// The time at which the service last took a message.
        var lastAcceptance: Date?
        var until: Date?
        var nextHold = WebPushLanes.firstHold
        var refusal: Refusal?
    }

    private let lanes = Mutex<[HTTPEndpoint: Lane]>([:])

    /// Records that a message is about to go to an origin; returns its refusal while the lane is held.
    func admit(_ origin: HTTPEndpoint, at now: Date) -> Refusal? {
        lanes.withLock { lanes in
            if lanes[origin] == nil, lanes.count >= Self.capacity,
                let oldest = lanes.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                lanes[oldest.key] = nil
            }
            lanes[origin, default: Lane(lastUse: now)].lastUse = now
            guard let lane = lanes[origin], let until = lane.until, var refusal = lane.refusal else { return nil }
            let rest = until.timeIntervalSince(now)
            // If no other lane works, nothing is refused here: the delivery worker pauses the whole backend, and probes
            // by itself.
            guard rest > 0, lane.isForeign || Self.hasOthers(lanes, origin, now) else { return nil }
            refusal.status = nil
            refusal.advice = .retry(after: .milliseconds(clamping: (rest * 1_000).rounded(.up)))
            return refusal
        }
    }

    /// Records that an origin took a message, or refused it for a reason of its own.
    func worked(_ origin: HTTPEndpoint) {
        lanes.withLock { lanes in
            lanes[origin]?.isInTrouble = false
            lanes[origin]?.until = nil
            lanes[origin]?.nextHold = Self.firstHold
        }
    }

    /// Records that an origin took a message.
    func accepted(_ origin: HTTPEndpoint, at now: Date) {
        worked(origin)
        lanes.withLock { $0[origin]?.lastAcceptance = now }
    }

    /// Whether an origin took a message within the last 10 minutes.
    func hasWorked(_ origin: HTTPEndpoint, at now: Date) -> Bool {
        lanes.withLock { lanes in
            lanes[origin]?.lastAcceptance.map { now.timeIntervalSince($0) < Self.memory } ?? false
        }
    }

    /// Records trouble of an origin, and returns the refusal that holds its lane alone.
    ///
    /// Returns nil when the trouble counts as the whole backend's: while no other lane works, and the settings name the
    /// host.
    ///
    /// - Parameters:
    ///   - origin: The origin.
    ///   - refusal: The refusal as it would concern the whole backend.
    ///   - pause: The pause that the service asked for.
    ///   - holds: Whether further messages wait.
    ///   - isForeign: Whether the settings do not name the host: its trouble then never concerns the whole backend.
    ///   - now: The time.
    /// - Returns: The refusal of the lane alone, with the time that is left; nil for the whole backend's.
    func trouble(
        _ origin: HTTPEndpoint,
        _ refusal: Refusal,
        pause: Duration?,
        holds: Bool = true,
        isForeign: Bool = false,
        at now: Date
    ) -> Refusal? {
        lanes.withLock { lanes in
            guard var lane = lanes[origin] else { return nil }
            lane.isInTrouble = lane.isInTrouble || holds
            lane.isForeign = isForeign
            lane.lastUse = now
            var own = refusal
            // A fault of the account says nothing about the platform: it opens no breaker.
            own.kind = .account
            own.advice = .retry(after: pause)
            if holds {
                let isHeld = lane.until.map { $0 > now } ?? false
                let longest = refusal.advice == .parkBackend ? Self.longestAccountHold : Self.longestHold
                // Messages that were sent together fail together, which counts as one failure.
                let span = pause ?? (isHeld ? .zero : min(lane.nextHold, longest))
                if !isHeld, pause == nil { lane.nextHold = min(lane.nextHold * 2, longest) }
                let until = max(lane.until ?? now, now.addingTimeInterval(span.inSeconds))
                lane.until = until
                own.advice = .retry(after: .milliseconds(clamping: (until.timeIntervalSince(now) * 1_000).rounded(.up)))
                lane.refusal = own
            }
            lanes[origin] = lane
            return isForeign || Self.hasOthers(lanes, origin, now) ? own : nil
        }
    }

    /// The number of lanes that are remembered.
    var count: Int { lanes.withLock { $0.count } }

    /// Returns why lanes are held now, as text without a path; nil when none is.
    func detail(at now: Date) -> String? {
        lanes.withLock { lanes in
            let held = lanes.filter { lane in lane.value.until.map { $0 > now } ?? false }
            let texts = held.map { "\($0.key): \($0.value.refusal?.detail ?? "held")" }
            return texts.isEmpty ? nil : texts.sorted().prefix(8).joined(separator: " ")
        }
    }

    private static func hasOthers(_ lanes: [HTTPEndpoint: Lane], _ origin: HTTPEndpoint, _ now: Date) -> Bool {
        lanes.contains { key, lane in
            key != origin && !lane.isInTrouble && now.timeIntervalSince(lane.lastUse) < memory
        }
    }
}
