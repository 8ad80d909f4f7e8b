internal import Synchronization
import PushCore

/// A recipient's place in a batch of requests.
struct BatchPlace: Hashable, Sendable {
    let request: Int
    let recipient: Int

    /// Every place of a batch, in order.
    static func all(in requests: [PushRequest]) -> [BatchPlace] {
        requests.enumerated().flatMap { row, request in
            request.recipients.indices.map { BatchPlace(request: row, recipient: $0) }
        }
    }

    /// The report for this place.
    func report(_ outcome: DeliveryOutcome) -> DeliveryReport {
        DeliveryReport(request: request, recipient: recipient, outcome: outcome)
    }
}

/// Some recipients of a batch, sent on their own, perhaps under another address.
///
/// Recipients of one request that follow each other share a request here too, so that its payload is encoded once.
struct SubBatch: Sendable {
    private(set) var requests: [PushRequest] = []
    private var rows: [[BatchPlace]] = []

    init() {}

    /// The recipients at these places, as they are.
    init(_ places: some Sequence<BatchPlace>, of original: [PushRequest]) {
        for place in places { add(original[place.request].recipients[place.recipient], at: place, of: original) }
    }

    mutating func add(_ addressee: Addressee, at place: BatchPlace, of original: [PushRequest]) {
        if let last = rows.last?.last, last.request == place.request {
            rows[rows.count - 1].append(place)
            requests[requests.count - 1].recipients.append(addressee)
        } else {
            let request = original[place.request]
            rows.append([place])
            requests.append(PushRequest(request.notification, to: [addressee], expiration: request.expiration))
        }
    }

    /// Sends it, and reports each recipient by its place in the original batch, exactly once whatever the backend does.
    func send(
        through backend: any PushBackend,
        report: @escaping @Sendable ([(place: BatchPlace, outcome: DeliveryOutcome)]) -> Void
    ) async {
        guard !requests.isEmpty else { return }
        let open = Mutex(rows.map { $0.map(Optional.some) })
        await backend.send(requests) { reports in
            let fresh = open.withLock { open in
                reports.compactMap { report -> (place: BatchPlace, outcome: DeliveryOutcome)? in
                    // A report for nobody, or a second one, is a plugin's mistake, and must not end the program.
                    guard open.indices.contains(report.request),
                        open[report.request].indices.contains(report.recipient),
                        let place = open[report.request][report.recipient]
                    else { return nil }
                    open[report.request][report.recipient] = nil
                    return (place, report.outcome)
                }
            }
            if !fresh.isEmpty { report(fresh) }
        }
        let silent = open.withLock { open in
            let places = open.flatMap { $0.compactMap { $0 } }
            open = []
            return places
        }
        guard !silent.isEmpty else { return }
        report(silent.map { ($0, .unknown(UnknownOutcome(reason: "not_reported"))) })
    }
}
