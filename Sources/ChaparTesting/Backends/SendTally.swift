internal import ChaparCore
internal import Synchronization

/// Counts the reports of one send.
///
/// The checks of a backend pass it to `send` as the receiver of reports, on any thread, and read it at the end. It
/// fails when a recipient has no report, more than one, or one that was not requested.
final class SendTally: Sendable {
    private struct State {
        var outcomes: [[DeliveryOutcome?]]
        var mistakes: [String] = []
    }

    private let state: Mutex<State>

    init(_ requests: [PushRequest]) {
        state = Mutex(State(outcomes: requests.map { Array(repeating: nil, count: $0.recipients.count) }))
    }

    func take(_ reports: [DeliveryReport]) {
        state.withLock { state in
            for report in reports {
                guard state.outcomes.indices.contains(report.request),
                    state.outcomes[report.request].indices.contains(report.recipient)
                else {
                    state.mistakes.append("a report for request \(report.request), recipient \(report.recipient)")
                    continue
                }
                if state.outcomes[report.request][report.recipient] != nil {
                    state.mistakes.append(
                        "a second report for request \(report.request), recipient \(report.recipient)"
                    )
                }
                state.outcomes[report.request][report.recipient] = report.outcome
            }
        }
    }

    /// Returns the outcomes in order, once `send` has returned.
    @discardableResult
    func check() throws(ConformanceFailure) -> [DeliveryOutcome] {
        let state = state.withLock { $0 }
        if let mistake = state.mistakes.first { throw ConformanceFailure(mistake) }
        let flat = state.outcomes.flatMap { $0 }
        let told = flat.compactMap { $0 }
        try expect(
            told.count == flat.count,
            "send returned with \(flat.count - told.count) of \(flat.count) not reported"
        )
        return told
    }
}
