import Foundation
import NIOCore
import ChaparCore
import ChaparComposition

/// The model that judges a run by what clients submitted, how they were answered and what the stream of events
/// reported.
///
/// It holds the contract of the gateway, and nothing of the implementation. ``Oracle/judge(_:)`` has the verdict on
/// each delivery.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class Oracle: @unchecked Sendable {
    /// States that a set of runs must have reached, else it tests too little.
    enum Coverage: String, CaseIterable {
        case diedWhileWriting
        case cancelledWhileClaimed
        case repeatedRequest
        case refusedWhileFull
        case expired
        case unknown
        case failed
        case fellBack
        case urgentAtOnce
        case staleOwnerRefused
        case erasedWhileWaiting
        case erasedWhileClaimed
        case erasedWhileSent
        case diedAmidRetries
        case readTwice
        case opened
        case repeatedReceipt
        case slowReaderClosed
        case devicesJudged
        // With campaigns only.
        case campaignFinished
        case campaignCancelled
        case campaignExpired
        case campaignPaused
        case campaignRepeated
        case paceChanged
        case diedAmidCampaign
        case diedAmidResend
        case sentAgain
        case sentAgainBefore
        case deadTokenLeftOut
        // With webhooks only.
        case webhooksJudged
        case webhookRefused
        case webhookBatched
        case webhookRepeated
        case diedAmidWebhooks

        /// Whether only runs with webhooks reach it.
        var isOfWebhooks: Bool {
            switch self {
            case .webhooksJudged, .webhookRefused, .webhookBatched, .webhookRepeated, .diedAmidWebhooks: true
            default: false
            }
        }

        /// Whether only runs with campaigns reach it.
        var isOfCampaigns: Bool {
            switch self {
            case .campaignFinished, .campaignCancelled, .campaignExpired, .campaignPaused, .campaignRepeated,
                .paceChanged, .diedAmidCampaign, .diedAmidResend, .sentAgain, .sentAgainBefore, .deadTokenLeftOut:
                true
            default: false
            }
        }
    }

    /// The kinds of faults that a run injects; one counts when something has met it, not when it was ordered.
    enum Fault: String, CaseIterable {
        case crash, powerLoss, hanging, flapping, lateAnswer, repeatedAnswer, clockJump, reload, idleReader, burst,
            cancel, diskFault, restart, brownout, cut, erasure
    }

    let trace: Trace
    /// Every notification that a client has posted; the index is its serial number, which its title holds.
    var submissions: [Submission] = []
    /// The serial number by the gateway's id.
    var serials: [String: Int] = [:]
    private(set) var failure: String?
    private(set) var reached: Set<Coverage> = []
    private(set) var faults: [Fault: Int] = [:]
    /// Times at which something happened that may delay any message: a crash, a shutdown, a reload, a fault of the
    /// disk.
    private(set) var disturbances: [Int64] = []
    /// Deliveries that may have been claimed when the gateway stopped: they were due, by the events.
    private(set) var interrupted: Set<String> = []
    /// Deliveries that may have been claimed when the gateway lost its lease and went on.
    private(set) var lapsed: Set<String> = []
    /// Deliveries that a gateway has found without an answer when it started.
    var restarted: Set<String> = []
    /// Notifications of no client, whose events are not judged.
    var ignored: Set<String> = []
    var devices = DeviceModel()
    var audience = AudienceModel()
    var campaigns = CampaignModel()
    var webhooks = WebhookModel()
    // The connection on which the events are read.
    var stream: ClientConnection?
    var frames = EventFrames()
    var lastEvent: Int64 = 0
    /// The type of each event, as the first one who read it got it.
    private var eventTypes: [Int64: String] = [:]

    init(_ trace: Trace) { self.trace = trace }

    var hasFailed: Bool { failure != nil }

    /// Ends the run; only the first failure is reported.
    func fail(_ text: String) {
        guard failure == nil else { return }
        failure = text
        trace.record("FAILED: \(text)")
    }

    /// Whether everything is mended: what happens from now on is no fault of the script's.
    var isMended = false

    /// Counts a fault that something has met: a message, a call of the store, a connection, the gateway.
    ///
    /// Of those that are met after everything was mended only an earlier order counts, such as an answer that is late.
    func count(_ fault: Fault, isEarlierOrder: Bool = false) {
        if !isMended || isEarlierOrder { faults[fault, default: 0] += 1 }
    }

    /// How many messages were accepted.
    var accepted: Int { submissions.count { $0.id != nil } }

    /// How many deliveries a platform has accepted, by the events.
    var delivered: Int {
        submissions.reduce(0) { $0 + $1.ended.values.count(where: Self.isAcceptance) }
    }

    /// Notes that a state was reached.
    func cover(_ state: Coverage) { reached.insert(state) }

    /// Records a time at which something happened that may delay any message.
    func disturb(_ now: Int64) { disturbances.append(now) }

    /// The gateway crashed or ended, and every connection was cut; `steady` is the store's time.
    func stopped(steady: Date?) {
        devices.interrupt()
        interrupt(steady: steady)
        stream = nil
        frames.reset()
    }

    /// Notes the deliveries that may be claimed now: they will be found without an answer.
    func interrupt(steady: Date?) { interrupted.formUnion(claimable(at: steady)) }

    /// The gateway loses its lease and goes on: what it may have claimed is found without an answer, or still sent.
    func lapse(steady: Date?) {
        interrupt(steady: steady)
        lapsed.formUnion(claimable(at: steady))
    }

    /// The deliveries that are due, by the events.
    private func claimable(at steady: Date?) -> [String] {
        var found: [String] = []
        for submission in submissions {
            for index in 0..<submission.recipients where submission.ended[index] == nil {
                if let due = submission.due[index], let steady, due > steady.addingTimeInterval(0.5) { continue }
                found.append(submission.key(index))
            }
        }
        return found
    }

    // MARK: Requests of clients

    /// Records a new submission; gives its serial number.
    func add(_ make: (Int) -> Submission) -> Int {
        submissions.append(make(submissions.count))
        return submissions.count - 1
    }

    /// Records that a submission was answered as accepted.
    func accepted(_ serial: Int, _ id: String, _ world: World) {
        if let before = submissions[serial].id {
            cover(.repeatedRequest)
            if before != id { fail("message \(serial) was accepted twice, as \(before) and \(id)") }
            return
        }
        submissions[serial].id = id
        submissions[serial].acceptedAt = world.scheduler.now
        // A scheduled one follows the wall clock, whatever becomes of that.
        if !submissions[serial].isScheduled {
            submissions[serial].expires = world.steady?.addingTimeInterval(Double(submissions[serial].timeToLive))
        }
        if let other = serials.updateValue(serial, forKey: id), other != serial {
            fail("\(id) stands for the messages \(other) and \(serial)")
        }
    }

    func askToCancel(_ serial: Int) { submissions[serial].isAskedToCancel = true }

    /// Records that a cancellation was answered.
    func cancelled(_ serial: Int, inFlight: Int, _ world: World) {
        submissions[serial].cancelled = (world.scheduler.now, inFlight)
        count(.cancel)
        if inFlight > 0 { cover(.cancelledWhileClaimed) }
    }

    /// Records that an erasure was answered: nothing is sent from now on of what was accepted before it was requested.
    func erased(_ serials: [Int], inFlight: Int, cancelled: Int, _ world: World) {
        for serial in serials where submissions[serial].erasedAt == nil {
            submissions[serial].erasedAt = world.scheduler.now
            let key = submissions[serial].key(0)
            submissions[serial].isHeldAtErasure = world.platforms.contains { $0.holds(key) }
        }
        count(.erasure)
        if inFlight > 0 { cover(.erasedWhileClaimed) }
        if cancelled > 0 { cover(.erasedWhileWaiting) }
    }

    /// Compares an event with what another reader of the stream got under its number.
    func compare(_ event: EventFrames.Event) {
        guard let before = eventTypes.updateValue(event.type, forKey: event.number) else { return }
        cover(.readTwice)
        if before != event.type, !before.hasSuffix("gap"), !event.type.hasSuffix("gap") {
            fail("event \(event.number) is \(before) for one reader and \(event.type) for another")
        }
    }

    /// Whether every accepted submission has ended, by the events.
    var isSettled: Bool { submissions.allSatisfy { $0.isSettled } }

    /// Leaves a notification out of what is judged.
    func ignore(_ id: String) { ignored.insert(id) }
}
