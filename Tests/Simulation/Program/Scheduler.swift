import Foundation
import ChaparCore
import SimulationHooks

/// Runs everything that a gateway does, one thing at a time, in an order that a seed decides.
///
/// It takes the index of Swift's global executor, of the clocks and of the machine's randomness, for the whole process.
/// What may run is a job of a task, a callback, or the turn of a thread (``SimulatedThreads``). One step runs one of
/// them, drawn at random, and takes between 1 and 100 µs of virtual time.
///
/// `@unchecked Sendable`: at any moment exactly one thread of the process runs, the driver's or one that it has given
/// the turn and waits for.
final class Scheduler: @unchecked Sendable {
    /// An item that may run.
    private enum Item {
        case job(UnsafeMutableRawPointer)
        case call(@Sendable () -> Void)
    }

    /// The one of this process.
    static let shared = Scheduler()

    private var ready: [Item] = []
    private var generator = SeededGenerator(seed: 0)
    /// The steps since ``begin(seed:)``.
    private(set) var steps = 0
    /// The virtual monotonic time, in nanoseconds.
    private(set) var now: Int64 = 0
    /// How far the wall clock is ahead of the monotonic one, in nanoseconds.
    private var wallOffset: Int64 = 0

    private static let begin: Int64 = 1_000_000_000_000
    private static let rightOffset: Int64 = 1_790_000_000_000_000_000 - begin

    private init() {}

    /// Takes the machine's index; once for a process.
    func install() {
        simulation_enter()
        simulation_install({ Scheduler.shared.take($0) }, { Scheduler.shared.generator.next() })
    }

    private func take(_ job: UnsafeMutableRawPointer?) {
        guard let job else { return }
        ready.append(.job(job))
    }

    /// Begins anew: nothing is ready, and every draw follows from the seed.
    func begin(seed: UInt64) {
        ready = []
        generator = SeededGenerator(seed: seed)
        steps = 0
        now = Self.begin
        wallOffset = Self.rightOffset
        setClock()
    }

    /// The virtual time of day.
    var wall: Date { Date(timeIntervalSince1970: Double(now + wallOffset) / 1e9) }

    /// Sets the wall clock right again.
    func setRight() {
        wallOffset = Self.rightOffset
        setClock()
    }

    /// Sets the wall clock on or back.
    func jump(by seconds: Double) {
        wallOffset += Int64(seconds * 1e9)
        setClock()
    }

    /// Lets virtual time pass.
    func advance(by nanoseconds: Int64) {
        now += nanoseconds
        setClock()
    }

    private func setClock() { simulation_set_clock(now, now + wallOffset) }

    /// Whether nothing can run before time passes.
    var isIdle: Bool { ready.isEmpty }

    /// Lets a call run some time.
    func add(_ call: @escaping @Sendable () -> Void) { ready.append(.call(call)) }

    /// Runs one of the things that are ready; false when there is none.
    func step() -> Bool {
        guard !ready.isEmpty else { return false }
        steps += 1
        advance(by: Int64(generator.next() % 99_000) + 1_000)
        let index = Int(generator.next() % UInt64(ready.count))
        ready.swapAt(index, ready.count - 1)
        switch ready.removeLast() {
        case .job(let job): simulation_run(job)
        case .call(let call): call()
        }
        return true
    }

    /// Forgets everything that is ready, as the death of a process does: those tasks never go on.
    func dropEverything() { ready = [] }

    /// A number below a bound, for what the world does by itself.
    func draw(below bound: Int) -> Int { Int(generator.next() % UInt64(max(1, bound))) }

    /// Whether something of this chance, in parts of a thousand, happens.
    func chance(_ perMille: Int) -> Bool { draw(below: 1000) < perMille }
}
