package import ChaparComposition
public import ChaparCore

/// An event that moves a delivery from one state to another.
package enum DeliveryEvent: String, Sendable, CaseIterable {
    case enqueue, due, claim, retry, release, settle, end
    case lateEnd = "late end"
    case cancel, replace, recover, report, receipt
}

extension DeliveryState {
    /// The states of a delivery and the events between them, obeyed by every store and shown in `docs/States.md`.
    package static let transitions = StateTable<DeliveryState, DeliveryEvent>([
        .init(.enqueue, to: [.queued, .scheduled], "it was accepted, to go out at once or at a time"),
        .init(.due, from: [.scheduled], to: [.queued], "its time has come"),
        .init(.claim, from: [.queued, .retrying], to: [.sending], "a worker took it, in the order of the queue"),
        .init(
            .claim,
            from: [.scheduled],
            to: [.sending],
            "its time to live ended before its time came: it is claimed to be ended"
        ),
        .init(.retry, from: [.sending], to: [.retrying], "another attempt is due later, here or at the next backend"),
        .init(.retry, from: [.sending], to: [.scheduled, .queued], "the same, and none was made yet"),
        .init(.release, from: [.sending], to: [.queued, .scheduled, .retrying], "its owner gives it back unsent"),
        .init(
            .settle,
            from: [.queued, .retrying],
            to: [.retrying, .acceptedByPlatform, .delivered, .opened, .failed, .expired, .cancelled, .unknown],
            "the gateway decided about it while it was not claimed: its backend is gone, or stands still"
        ),
        .init(
            .end,
            from: [.sending],
            to: [.acceptedByPlatform, .delivered, .opened, .failed, .expired, .cancelled, .unknown],
            "its owner recorded how it ended"
        ),
        .init(
            .lateEnd,
            from: [.queued, .scheduled, .retrying],
            to: [.acceptedByPlatform, .delivered],
            "an owner whose lease has ended reports that the platform has it, which is true all the same"
        ),
        .init(
            .cancel,
            from: [.queued, .scheduled, .retrying, .sending],
            to: [.cancelled, .unknown],
            "it was cancelled; unknown when an attempt may have been sent. One that is sending ends so instead of waiting again"
        ),
        .init(
            .replace,
            from: [.queued, .scheduled, .retrying, .sending],
            to: [.cancelled, .unknown],
            "the same for a newer one of its caller with its collapse ID"
        ),
        .init(
            .cancel,
            from: [.retrying, .sending],
            to: [.acceptedByPlatform],
            "the same, of one that a platform took and that waits for a report before another backend takes over"
        ),
        .init(
            .replace,
            from: [.retrying, .sending],
            to: [.acceptedByPlatform],
            "the same for a newer one of its caller with its collapse ID"
        ),
        .init(
            .recover,
            from: [.sending],
            to: [.queued, .scheduled, .retrying],
            "the process of its owner ended: it may have been sent"
        ),
        .init(
            .report,
            from: [.retrying],
            to: [.delivered, .opened],
            "the platform or the app reported what it waited for before another backend takes over"
        ),
        .init(
            .report,
            from: [.retrying],
            to: [.retrying],
            "they reported something else: a failure makes it due at once"
        ),
        .init(
            .receipt,
            from: [.acceptedByPlatform],
            to: [.delivered, .opened, .failed],
            "the platform or the app reported it"
        ),
        .init(.receipt, from: [.delivered], to: [.opened], "the user opened it"),
    ])

    /// Whether an owner may end a delivery in this state: the table's row for `end`.
    ///
    /// A store asks this for each delivery, so it is a switch and no search in the table. A test compares the two.
    package var canBeRecorded: Bool {
        switch self {
        case .queued, .scheduled, .sending, .retrying: false
        case .acceptedByPlatform, .delivered, .opened, .failed, .expired, .cancelled, .unknown: true
        }
    }

    /// Whether an owner without a lease may still end a delivery in this state: the table's row for `late end`.
    package var canBeRecordedLate: Bool {
        switch self {
        case .acceptedByPlatform, .delivered: true
        case .queued, .scheduled, .sending, .retrying, .opened, .failed, .expired, .cancelled, .unknown: false
        }
    }

    /// Whether a receipt may take a delivery from this state to another.
    ///
    /// A receipt is the only way out of a final state: an accepted delivery can become delivered, opened or failed, and
    /// a delivered one opened.
    public func canBecome(_ state: DeliveryState) -> Bool { Self.transitions.allows(.receipt, from: self, to: state) }
}
