import SimulationDisk
import Testing

@Suite("A database after power failures", .serialized, .timeLimit(.minutes(1)))
struct PowerFailureTests {
    static let log: Workload.Mode = Workload.Mode(journal: "WAL", synchronous: "FULL")

    /// Modes in which SQLite promises that a commit outlasts a power failure; `EXTRA` syncs the folder too.
    static let durable: [(mode: Workload.Mode, seeds: Int)] = [
        (log, 200), (Workload.Mode(journal: "DELETE", synchronous: "EXTRA"), 40),
        (Workload.Mode(journal: "TRUNCATE", synchronous: "FULL"), 40),
        (Workload.Mode(journal: "PERSIST", synchronous: "FULL"), 40),
    ]

    private func run(_ mode: Workload.Mode, _ seeds: Int, faults: Int = 0, lies: Bool = false) -> [Workload.Result] {
        (0..<seeds).map { seed in
            var workload = Workload(seed: seed, mode: mode, faults: faults, lies: lies)
            return workload.run()
        }
    }

    /// How often each fault happened in all of the runs.
    private func faults(_ results: [Workload.Result]) -> [DiskCounts.Fault: Int] {
        results.reduce(into: [:]) { $0.merge($1.counts.faults, uniquingKeysWith: +) }
    }

    @Test("Every commit that returned is there, and none in part", arguments: durable)
    func survives(mode: Workload.Mode, seeds: Int) {
        let results = run(mode, seeds)
        #expect(results.flatMap(\.problems) == [])
        #expect(results.reduce(0) { $0 + $1.commits } > 5 * seeds)
        let faults = faults(results)
        let wanted: [DiskCounts.Fault] = [.droppedWrite, .tornWrite, .enlargedFile, .garbledWrite, .undoneEntry]
        #expect(wanted.filter { faults[$0] == nil } == [], "each kind of loss happened")
    }

    @Test("Short writes, failing syncs, also such that forget, and a full disk lose no commit that returned")
    func faultsLoseNothing() {
        let results = run(Self.log, 100, faults: 20)
        #expect(results.flatMap(\.problems) == [])
        #expect(results.reduce(0) { $0 + $1.commits } > 500)
        let faults = faults(results)
        let wanted: [DiskCounts.Fault] = [.shortWrite, .failedWrite, .failedSync, .forgottenSync, .diskFull]
        #expect(wanted.filter { faults[$0, default: 0] < 10 } == [], "each fault happened")
    }

    @Test("A disk that lies about syncs is found out")
    func lies() {
        let problems = run(Self.log, 20, lies: true).flatMap(\.problems)
        #expect(problems.contains { $0.contains("committed rows are missing") })
        #expect(problems.contains { $0.contains("malformed") || $0.contains("damaged") })
    }

    @Test("A commit that deletes its journal needs a sync of the folder, as SQLite's manual says of EXTRA")
    func folder() {
        let problems = run(Workload.Mode(journal: "DELETE", synchronous: "FULL"), 60).flatMap(\.problems)
        #expect(problems.contains { $0.contains("committed rows are missing") })
    }

    @Test("The same seed twice is the same run")
    func deterministic() {
        let once = run(Self.log, 10, faults: 20)
        let again = run(Self.log, 10, faults: 20)
        #expect(once.map(\.hash) == again.map(\.hash))
        #expect(once.map(\.counts) == again.map(\.counts))
        #expect(Set(once.map(\.hash)).count == once.count)
    }
}
