internal import ChaparCore

/// The states of a ``Breaker``, without their times and reasons.
package enum BreakerStatus: String, Sendable, CaseIterable {
    case closed, open
    case halfOpen = "half_open"
}

/// An event that moves a ``Breaker`` from one state to another.
package enum BreakerEvent: String, Sendable, CaseIterable {
    case fail, pause, slow, park, trip, probe, abandon, work, reset, restore
}

extension Breaker {
    /// The states of a breaker and the events between them, shown in `docs/States.md`.
    package static let transitions = StateTable<BreakerStatus, BreakerEvent>([
        .init(.restore, to: [.closed, .open, .halfOpen], "the process began; as it was kept"),
        .init(.fail, from: [.closed], to: [.open], "enough failures in the window, in number and share"),
        .init(.fail, from: [.halfOpen], to: [.open], "the probe failed: for twice as long as before"),
        .init(.pause, from: [.closed, .halfOpen, .open], to: [.open], "the platform asked for a pause"),
        .init(
            .slow,
            from: [.closed, .halfOpen],
            to: [.open],
            "the platform asked for a pause and did not say how long: for a second, each time for longer"
        ),
        .init(.park, from: [.closed, .halfOpen], to: [.open], "the platform refuses the account"),
        .init(.trip, from: [.closed, .halfOpen, .open], to: [.open], "an operator, or code"),
        .init(.probe, from: [.open, .halfOpen], to: [.halfOpen], "its time is over: one message goes alone"),
        .init(.abandon, from: [.halfOpen], to: [.halfOpen], "the probe was not sent: another may follow at once"),
        .init(.work, from: [.halfOpen], to: [.closed], "the probe's answer shows that the platform works"),
        .init(.reset, from: [.open, .halfOpen], to: [.closed], "an operator, or code"),
    ])
}

extension Breaker.State {
    /// The state without its times and reasons.
    package var status: BreakerStatus {
        switch self {
        case .closed: .closed
        case .open: .open
        case .halfOpen: .halfOpen
        }
    }
}
