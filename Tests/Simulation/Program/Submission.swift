import Foundation
import ChaparComposition

/// A notification that a client asked the gateway to send, and what the client has learned of it since.
struct Submission {
    let serial: Int
    let body: String
    let recipients: Int
    /// The device that it is for; nil for tokens.
    let device: String?
    let timeToLive: Int
    let plan: DeliveryPlan
    let isUrgent: Bool
    let isScheduled: Bool
    let key: String?
    /// The number that the gateway gave it; nil until it answered.
    var id: String?
    /// When it expires at the latest, by the store's steady clock.
    var expires: Date?
    var acceptedAt: Int64 = 0
    /// When its cancellation was answered, and how many were still being sent.
    var cancelled: (at: Int64, inFlight: Int)?
    /// When the erasure of its user was answered.
    var erasedAt: Int64?
    /// Whether it was with a platform at that time.
    var isHeldAtErasure = false
    var isAskedToCancel = false
    /// Its final states, from the stream of events: by the delivery's index in the notification.
    var ended: [Int: String] = [:]
    /// The deliveries that the platform which reports has accepted, as far as the gateway knows.
    var reportable: Set<Int> = []
    /// The platform's reports that were answered as kept.
    var reported: [Int: String] = [:]
    /// When the next attempt was due, by the store's steady clock, for deliveries that wait for one.
    var due: [Int: Date] = [:]
    /// The deliveries that a platform took and that wait, or waited, for its report before another one takes over.
    var awaiting: Set<Int> = []
    /// When the events said that a report ended such a wait.
    var reportEnds: [Int: Int64] = [:]
    var isAnnounced = false

    /// Whether it has ended, or was never accepted.
    var isSettled: Bool { id == nil || ended.count == recipients }

    /// A delivery in the the records of the platforms.
    func key(_ index: Int) -> String { "\(serial)/\(device ?? "r\(index)")" }
}
