internal import ChaparComposition
internal import ChaparCore

/// The status of a backend's flow control, apart from its breaker: `quarantined` hides the states beneath it, and
/// `parked` hides a pause.
///
/// `paused` either lasts for a time that the platform named, or allows single probes only.
enum FlowStatus: String, Sendable, CaseIterable {
    case sending, paused, parked, quarantined
}

/// The events that move flow control from one state to another.
enum FlowEvent: String, Sendable, CaseIterable {
    case pause
    case pauseEnds = "pause ends"
    case slow, park, work, quarantine, resolve, restore
}

extension FlowGate {
    /// The states of flow control and their transitions, which `docs/States.md` shows.
    static let transitions = StateTable<FlowStatus, FlowEvent>([
        .init(.restore, to: [.sending, .paused, .parked], "the process began; as it was kept"),
        .init(.pause, from: [.sending, .paused], to: [.paused], "the platform asked for it: the longest pause counts"),
        .init(.pause, from: [.parked], to: [.parked], "the same while an operator must act"),
        .init(.pause, from: [.quarantined], to: [.quarantined], "the answer of a message sent before"),
        .init(
            .slow,
            from: [.sending, .paused],
            to: [.paused],
            "the platform asked for it and did not say for how long; each time for longer"
        ),
        .init(.slow, from: [.quarantined], to: [.quarantined], "the answer of a message sent before"),
        .init(.pauseEnds, from: [.paused], to: [.sending], "its time is over"),
        .init(
            .pauseEnds,
            from: [.paused],
            to: [.paused],
            "no time was asked for: one delivery at a time goes out, to see"
        ),
        .init(.pauseEnds, from: [.parked], to: [.parked], "one delivery at a time goes out, to see"),
        .init(
            .park,
            from: [.sending, .paused, .parked],
            to: [.parked],
            "the platform refuses the account; each time for longer"
        ),
        .init(.park, from: [.quarantined], to: [.quarantined], "the answer of a message sent before"),
        .init(.work, from: [.parked, .paused, .sending], to: [.sending], "an answer shows that the platform works"),
        .init(.work, from: [.paused, .parked], to: [.paused], "a pause for a time ends by that only"),
        .init(.work, from: [.parked], to: [.parked], "the answer of a message sent before"),
        .init(.work, from: [.quarantined], to: [.quarantined], "the answer of a message sent before"),
        .init(
            .quarantine,
            from: [.sending, .paused, .parked],
            to: [.quarantined],
            "the guard against mass invalidation tripped"
        ),
        .init(.resolve, from: [.quarantined], to: [.sending, .paused, .parked], "an operator resolved it"),
    ])
}
