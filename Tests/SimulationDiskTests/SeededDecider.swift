import Glibc
import SimulationDisk
import Synchronization

/// Decides by a seed: when to crash, what a crash leaves, and which of the other faults come up how often.
final class SeededDecider: DiskDecider {
    /// The faults that a test wants.
    struct Plan: Sendable {
        /// The crash comes at this call; never at 0.
        var crashAt = 0
        var crash = CrashKind.power
        /// In so many of a thousand calls something else fails.
        var faults = 0
        /// A sync does nothing.
        var liesAboutSync = false
    }

    private struct State {
        var generator: SmallGenerator
        var plan: Plan
    }

    private let state: Mutex<State>

    init(seed: UInt64, _ plan: Plan = Plan()) {
        state = Mutex(State(generator: SmallGenerator(seed: seed), plan: plan))
    }

    /// The plan from now on.
    var plan: Plan {
        get { state.withLock { $0.plan } }
        set { state.withLock { $0.plan = newValue } }
    }

    func draw(_ range: Range<Int>) -> Int { state.withLock { Int.random(in: range, using: &$0.generator) } }

    func random() -> UInt64 { state.withLock { $0.generator.next() } }

    func answer(_ call: DiskCall) -> DiskAnswer {
        let plan = plan
        if call.number == plan.crashAt { return .crash(plan.crash, written: draw(0..<call.count + 1)) }
        if plan.liesAboutSync, call.kind == .sync { return .ignore }
        guard plan.faults > 0, draw(0..<1_000) < plan.faults else { return .proceed }
        switch draw(0..<3) {
        case 0: return .fail(written: draw(0..<call.count + 1))
        case 1: return .full(written: draw(0..<call.count + 1))
        default: return .forget
        }
    }

    func fate(of change: UnsyncedChange) -> ChangeFate {
        switch draw(0..<8) {
        case 0...1: .kept
        case 2: .prefix(sectors: draw(0..<change.sectors + 1))
        case 3: .suffix(sectors: draw(0..<change.sectors + 1))
        case 4: .single(sector: draw(0..<change.sectors + 1))
        case 5: .enlarged
        case 6: .garbled(random())
        default: .dropped
        }
    }

    func keptEntries(of count: Int) -> Int { draw(0..<count + 1) }

    /// Threads are real here: who holds the lock has to come to run.
    func sleep(microseconds: Int) { usleep(UInt32(clamping: microseconds)) }
}

/// xorshift64*: enough for a test.
struct SmallGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = (seed &+ 1) &* 0x9e37_79b9_7f4a_7c15 | 1 }

    mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_f491_4f6c_dd1d
    }
}
