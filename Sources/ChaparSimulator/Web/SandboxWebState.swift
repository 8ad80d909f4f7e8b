internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The state that the listeners of one simulated web service share: fault rules, counters, randomness, the clock.
final class SandboxWebState: Sendable {
    /// The values behind the lock.
    struct Values {
        var faults = FaultEngine()
        var counters = SandboxWebCounters()
        var random: SeededGenerator

        /// Returns the steps of the rule that applies, and counts it.
        mutating func steps(at point: FaultRule.Point, for subject: FaultEngine.Subject, now: Date) -> [FaultStep] {
            let steps = faults.steps(at: point, for: subject, now: now, random: &random)
            if !steps.isEmpty { counters.faultsInjected += 1 }
            return steps
        }
    }

    let time: any TimeSource
    let seed: UInt64
    private let values: Mutex<Values>
    private let offset: Mutex<Duration>
    private let nextConnection = Atomic<Int>(1)

    init(seed: UInt64?, clockOffset: Duration, time: any TimeSource) {
        self.time = time
        self.seed = seed ?? .random(in: .min ... .max)
        values = Mutex(Values(random: SeededGenerator(seed: self.seed)))
        offset = Mutex(clockOffset)
    }

    /// The server's clock.
    var now: Date { time.now.addingTimeInterval(clockOffset.inSeconds) }

    var clockOffset: Duration {
        get { offset.withLock { $0 } }
        set { offset.withLock { $0 = newValue } }
    }

    func withValues<Value: Sendable>(_ body: (inout sending Values) throws -> sending Value) rethrows -> Value {
        try values.withLock(body)
    }

    func takeConnectionNumber() -> Int { nextConnection.add(1, ordering: .relaxed).oldValue }
}

/// The counts of a simulated web service's connections and requests since it started or was reset.
public struct SandboxWebCounters: Sendable, Hashable {
    /// TCP connections that were accepted, including those that a fault rejected.
    public var connectionAttempts = 0
    /// Connections that completed TLS.
    public var connectionsOpened = 0
    /// Connections that are open now, TLS completed or not.
    public var connectionsOpen = 0
    /// Complete requests.
    public var requests = 0
    /// Requests over HTTP/1.1.
    public var requestsOverHTTP1 = 0
    /// Streams refused because the client exceeded the limit.
    public var streamsRefused = 0
    /// Fault rules that applied.
    public var faultsInjected = 0
    /// `GOAWAY` frames sent.
    public var goAways = 0
    /// Pings received.
    public var pings = 0

    /// Makes counters at zero.
    public init() {}
}
