internal import ChaparCore

/// Metrics of webhooks. The labels are the endpoint's name and its app; at most 16 endpoints of an app exist.
extension GatewayMetrics {
    /// Counts an attempt at a message, and the time until its end.
    func webhookAttempted(_ labels: [String], _ outcome: String, after duration: Duration) {
        count(.webhookAttempts, labels + [outcome], 1)
        self.duration(.webhookDuration, labels, duration.inSeconds, 1)
    }

    /// Counts events that a receiver has taken.
    func webhookDelivered(_ labels: [String], events: Int) { count(.webhookEvents, labels, events) }

    /// Counts a message that was given up after its last attempt.
    func webhookGivenUp(_ labels: [String]) { count(.webhookGivenUp, labels, 1) }
}
