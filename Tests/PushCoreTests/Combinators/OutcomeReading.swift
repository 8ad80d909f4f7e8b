import PushCore

extension DeliveryOutcome {
    /// The refusal, when it is one.
    var refusal: Refusal? {
        if case .refused(let refusal) = self { refusal } else { nil }
    }

    /// Whether the message was taken.
    var isAccepted: Bool {
        if case .accepted = self { true } else { false }
    }
}
