internal import Synchronization

/// Gathers the reports of one `send` until it returns.
final class OutcomeCollector: Sendable {
    private let rows: Mutex<[[DeliveryOutcome]]>

    /// Makes a collector; a recipient that the backend never reports gets an unknown outcome, since silence is no
    /// success.
    init(_ requests: [PushRequest]) {
        let silence = DeliveryOutcome.unknown(UnknownOutcome(reason: "not_reported"))
        rows = Mutex(requests.map { Array(repeating: silence, count: $0.recipients.count) })
    }

    func take(_ reports: [DeliveryReport]) {
        rows.withLock { rows in
            for report in reports {
                // A report for an unknown recipient is a plugin's mistake, and must not end the program.
                guard rows.indices.contains(report.request), rows[report.request].indices.contains(report.recipient)
                else { continue }
                rows[report.request][report.recipient] = report.outcome
            }
        }
    }

    var outcomes: [[DeliveryOutcome]] { rows.withLock { $0 } }
}
