import Foundation
import SimulationDisk
import Testing

// `CHAPAR_CRASHES=20` runs twenty times as many seeds.
private let times = max(1, ProcessInfo.processInfo.environment["CHAPAR_CRASHES"].flatMap { Int($0) } ?? 1)

@Suite("The store after crashes and faults of the disk", .serialized, .timeLimit(.minutes(30)))
struct StoreOnDiskTests {
    static let troubles: [(trouble: StoreScenario.Trouble, seeds: Int)] = [
        (.init(crash: .process), 10), (.init(crash: .power), 20), (.init(crash: .power, faults: 20), 20),
        (.init(crash: .process, faults: 20), 5), (.init(crash: .power, room: 6_000), 10),
    ]

    /// Runs seeds in a real folder each, since the store makes its lock file by itself.
    private func run(_ trouble: StoreScenario.Trouble, _ seeds: Range<Int>) async throws -> [StoreScenario] {
        var scenarios: [StoreScenario] = []
        for seed in seeds {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
                "chapar-disk-\(UUID().uuidString)"
            )
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            var scenario = StoreScenario(seed: seed, trouble, folder: folder.path)
            try await scenario.run()
            scenarios.append(scenario)
        }
        return scenarios
    }

    @Test("Accepted deliveries are kept, and ended ones stay ended", arguments: troubles)
    func acknowledged(trouble: StoreScenario.Trouble, seeds: Int) async throws {
        let scenarios = try await run(trouble, 0..<seeds * times)
        #expect(scenarios.flatMap(\.problems) == [])
        #expect(scenarios.reduce(0) { $0 + $1.acceptances } > 5 * seeds)
        if trouble.room != nil {
            #expect(scenarios.contains { $0.counts.faults[.diskFull] != nil && $0.refusals > 0 })
        }
    }

    @Test("A disk that lies about syncs is found out")
    func lies() async throws {
        let scenarios = try await run(.init(crash: .power, liesAboutSync: true), 0..<5)
        #expect(!scenarios.flatMap(\.problems).isEmpty)
    }
}
