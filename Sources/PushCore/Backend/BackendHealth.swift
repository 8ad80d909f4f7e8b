public import Foundation

/// A backend's own state, for `GET /v1/backends`, metrics and the dashboard.
public struct BackendHealth: Sendable, Hashable {
    /// How it is.
    @nonexhaustive
    public enum Status: String, Sendable {
        /// Nothing is known to be wrong.
        case ok
        /// It works in part: a connection is missing, the platform slows us.
        case degraded
        /// It does not work.
        case down
    }

    /// The number of days before a credential ends from which health, `chapar doctor` and the dashboard warn.
    public static let credentialWarningDays = 30

    /// How it is.
    public var status: Status
    /// Why, in a sentence with the fix; nil when all is well.
    public var detail: String?
    /// Connections that take messages.
    public var connections: Int
    /// Messages on the wire.
    public var inFlight: Int
    /// When each credential that an operator must renew ends, by its name (`client_certificate`).
    ///
    /// Access tokens that the backend renews by itself are none of them.
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

    /// The state of a backend that sends through one pool.
    ///
    /// - Parameters:
    ///   - pool: The pool's state; its outage takes the backend down, whatever else is said.
    ///   - alert: What the platform complained about, with the fix; nil when it did not.
    ///   - severity: What the complaint makes of the backend.
    public init(_ pool: HTTPPoolStatus, alert: String? = nil, severity: Status = .degraded) {
        self.init(connections: pool.connections, inFlight: pool.openStreams)
        if let alert { (status, detail) = (severity, alert) }
        if let outage = pool.outage { (status, detail) = (.down, outage.detail) }
    }
}

/// One finding of `chapar doctor`: what was looked at, how it is, and how to mend it.
public struct Diagnosis: Sendable, Hashable {
    /// How a check ended.
    @nonexhaustive
    public enum Verdict: String, Sendable {
        /// In order.
        case ok
        /// Works, but will not for long, or not always.
        case warning
        /// Does not work.
        case failure
    }

    /// What was looked at: `key`, `certificate`, `clock`, `topic`, `reachability`.
    public var check: String
    /// How it ended.
    public var verdict: Verdict
    /// What was seen.
    public var finding: String
    /// What to do about it; nil when nothing is to be done.
    public var fix: String?

    /// Makes a finding.
    public init(_ check: String, _ verdict: Verdict, _ finding: String, fix: String? = nil) {
        self.check = check
        self.verdict = verdict
        self.finding = finding
        self.fix = fix
    }
}
