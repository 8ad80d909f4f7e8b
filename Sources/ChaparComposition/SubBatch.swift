internal import Foundation
internal import Synchronization
import ChaparCore

/// A recipient's index in a batch of requests.
struct BatchIndex: Hashable, Sendable {
    let request: Int
    let recipient: Int

    /// Every index of a batch, in order.
    static func all(in requests: [PushRequest]) -> [BatchIndex] {
        requests.enumerated().flatMap { row, request in
            request.recipients.indices.map { BatchIndex(request: row, recipient: $0) }
        }
    }

    /// The report for this index.
    func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
        DeliveryReport(request: request, recipient: recipient, outcome: outcome)
    }
}

extension PushRequest {
    /// Returns the steady time after which the request is neither sent again nor kept waiting; nil without a time to
    /// live.
    ///
    /// The time to live counts from acceptance, which is not later than `now`. Fractions of a second count.
    func end(at now: Date, _ time: any TimeSource) -> Date? {
        switch expiration {
        case .immediately?: return now
        case .at(let seconds)?:
            let end = time.steady(Date(timeIntervalSince1970: Double(seconds)))
            return notification.timeToLive.map { min(end, now.addingTimeInterval($0.inSeconds)) } ?? end
        case nil: return nil
        }
    }
}

/// Some recipients of a batch that are sent separately, perhaps to another address of theirs, such as a device's token.
///
/// Consecutive recipients that share a request in the batch share one here too, so that its payload is encoded once.
struct SubBatch: Sendable {
    private(set) var requests: [PushRequest] = []
    private var rows: [[BatchIndex]] = []

    init() {}

    /// Makes a batch of the recipients at these indices, unchanged.
    init(_ indices: some Sequence<BatchIndex>, of original: [PushRequest]) {
        for index in indices { add(original[index.request].recipients[index.recipient], at: index, of: original) }
    }

    mutating func add(_ addressee: Addressee, at index: BatchIndex, of original: [PushRequest]) {
        if let last = rows.last?.last, last.request == index.request {
            rows[rows.count - 1].append(index)
            requests[requests.count - 1].recipients.append(addressee)
        } else {
            let request = original[index.request]
            rows.append([index])
            requests.append(PushRequest(request.notification, to: [addressee], expiration: request.expiration))
        }
    }

    /// Sends the batch, and reports each recipient by its index in the original batch, exactly once, also
    /// where the backend reports it several times or not at all.
    func send(
        through backend: any PushBackend,
        report: @escaping @Sendable ([(index: BatchIndex, outcome: DeliveryOutcome)]) -> Void
    ) async {
        guard !requests.isEmpty else { return }
        let open = Mutex(rows.map { $0.map(Optional.some) })
        await backend.send(requests) { reports in
            let fresh = open.withLock { open in
                reports.compactMap { report -> (index: BatchIndex, outcome: DeliveryOutcome)? in
                    // A report for an unknown recipient, or a second one, is a plugin's mistake, and must not end the
                    // program.
                    guard open.indices.contains(report.request),
                        open[report.request].indices.contains(report.recipient),
                        let index = open[report.request][report.recipient]
                    else { return nil }
                    open[report.request][report.recipient] = nil
                    return (index, report.outcome)
                }
            }
            if !fresh.isEmpty { report(fresh) }
        }
        let silent = open.withLock { open in
            let indices = open.flatMap { $0.compactMap { $0 } }
            open = []
            return indices
        }
        guard !silent.isEmpty else { return }
        report(silent.map { ($0, .unknown(UnknownOutcome(reason: "not_reported"))) })
    }
}
