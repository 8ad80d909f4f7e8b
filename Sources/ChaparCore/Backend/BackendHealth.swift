public import Foundation

/// A backend's own state, for `GET /v1/backends`, metrics and the dashboard.
public struct BackendHealth: Sendable, Hashable {
    /// The condition of a backend.
    @nonexhaustive
    public enum Status: String, Sendable {
        /// Nothing is known to be wrong.
        case ok
        /// It works in part: a connection is missing, or the platform throttles it.
        case degraded
        /// It does not work.
        case down
    }

    /// The number of days before a credential expires at which health, `chapar doctor` and the dashboard begin to warn.
    public static let credentialWarningDays = 30

    /// The condition.
    public var status: Status
    /// The reason, in a sentence with the fix; nil when all is well.
    public var detail: String?
    /// The number of connections that take messages.
    public var connections: Int
    /// The number of messages in flight.
    public var inFlight: Int
    /// The expiry of each credential that an operator must renew, by its name (`client_certificate`).
    ///
    /// Access tokens, which the backend renews without an operator, are not among them.
    public var credentialExpiries: [String: Date]

    /// Makes a state.
    public init(
        status: Status = .ok,
        detail: String? = nil,
        connections: Int = 0,
        inFlight: Int = 0,
        credentialExpiries: [String: Date] = [:]
    ) {
        self.status = status
        self.detail = detail
        self.connections = connections
        self.inFlight = inFlight
        self.credentialExpiries = credentialExpiries
    }

    /// Makes the state of a backend that sends through one pool.
    ///
    /// - Parameters:
    ///   - pool: The pool's state. Without a connection the backend is down, whatever `severity` says.
    ///   - alert: The platform's complaint, with the fix; nil when it has none.
    ///   - severity: The state of the backend while it has the complaint.
    public init(_ pool: HTTPPoolStatus, alert: String? = nil, severity: Status = .degraded) {
        self.init(connections: pool.connections, inFlight: pool.openStreams)
        if let alert { (status, detail) = (severity, alert) }
        if let outage = pool.outage { (status, detail) = (.down, outage.detail) }
    }

    /// Makes the state of a backend that sends through a pool for each of its platform's hosts.
    ///
    /// It is down when no host can be reached, and degraded when some cannot.
    ///
    /// - Parameters:
    ///   - pools: The states of the pools, as ``HTTPPools/statuses`` has them.
    ///   - alert: The platform's complaint, with the fix; nil when it has none.
    ///   - severity: The state of the backend while it has the complaint.
    public init(_ pools: [HTTPPoolStatus], alert: String? = nil, severity: Status = .degraded) {
        self.init(HTTPPoolStatus(merging: pools), alert: alert, severity: severity)
        let outages = pools.compactMap(\.outage)
        guard status != .down, let first = outages.first else { return }
        if outages.count == pools.count {
            (status, detail) = (.down, first.detail)
        } else if alert == nil {
            status = .degraded
            detail = "\(outages.count) of \(pools.count) hosts cannot be reached: \(first.detail)"
        }
    }
}

/// One finding of `chapar doctor`: the check, its verdict and the fix.
public struct Diagnosis: Sendable, Hashable {
    /// The verdict of a check.
    @nonexhaustive
    public enum Verdict: String, Sendable {
        /// In order.
        case ok
        /// Works, but will not for long, or not always.
        case warning
        /// Does not work.
        case failure
    }

    /// The name of the check: `key`, `certificate`, `clock`, `topic`, `reachability`.
    public var check: String
    /// The verdict.
    public var verdict: Verdict
    /// The observation, in a sentence.
    public var finding: String
    /// The fix; nil when none is needed.
    public var fix: String?

    /// Makes a finding.
    public init(_ check: String, _ verdict: Verdict, _ finding: String, fix: String? = nil) {
        self.check = check
        self.verdict = verdict
        self.finding = finding
        self.fix = fix
    }
}

extension PushBackend {
    /// Returns the backend's findings; after `limit` a single finding that says that the backend gave none in time.
    ///
    /// `chapar doctor` and `POST /v1/backends/{name}/diagnose` call it. At the deadline it cancels the plugin's call,
    /// and returns when that call has returned.
    package func diagnose(within limit: Duration, _ time: any TimeSource) async -> [Diagnosis] {
        await withTaskGroup(of: [Diagnosis]?.self) { group in
            group.addTask { await self.diagnose() }
            group.addTask {
                try? await time.sleep(for: limit)  // Cancelled when the backend was faster.
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            guard let first else {
                let fix = "Check the network between here and the platform, and base_url and proxy."
                let finding = "no result within \(Int(clamping: limit.inSeconds)) s"
                return [Diagnosis("reachability", .failure, finding, fix: fix)]
            }
            return first.isEmpty ? [Diagnosis("checks", .ok, "the backend has nothing to check")] : first
        }
    }
}
