package import ChaparCore

/// The result of a report of an app.
package enum AppReceiptResult: String, Sendable, CaseIterable {
    /// The delivery has its new state.
    case recorded
    /// It was reported before, or came after one that outranks it.
    case repeated
    /// The store no longer has the delivery, or it was never sent.
    case unknown
    /// A platform may have the delivery, and its answer is not stored: the app is asked to report again.
    case early
    /// The id is shared by a notification's recipients, and the report does not name one of them.
    case unattributed
    /// The app, or a shared id, had used up its rate.
    case limited
}

/// Metrics of reports of apps. The labels are apps of the configuration and words of a closed list.
extension GatewayMetrics {
    /// Counts a report of an app.
    package func appReceipt(of app: AppName, event: String, _ result: AppReceiptResult) {
        count(.appReceipts, [app.rawValue, event, result.rawValue], 1)
    }

    /// Counts a report with a forged id.
    package func forgedReceipt() { count(.forgedReceipts, [], 1) }
}
