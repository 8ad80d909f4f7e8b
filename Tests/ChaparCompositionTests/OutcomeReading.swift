import ChaparCore

extension DeliveryOutcome {
    /// Whether the message was taken.
    var isAccepted: Bool {
        if case .accepted = self { true } else { false }
    }
}
