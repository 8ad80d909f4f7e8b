import Foundation
import SimulationHooks

/// The program behind `Tests/Simulation/run`, which calls it with as few seeds as a process bears: the objects of each life that
/// crashed stay in memory.
///
///     ChaparSimulation seeds FIRST LAST     runs seeds, a line of JSON for each
///     ChaparSimulation replay FILE [trace]  runs a script
///     ChaparSimulation shrink SEED          prints the shortest script that fails as the seed does
///     ChaparSimulation script SEED          prints the script of a seed
@main
struct Main {
    /// The actions of a seed's script.
    private static let actions = 60

    static func main() {
        Scheduler.shared.install()
        let words = CommandLine.arguments.dropFirst()
        let numbers = words.compactMap { UInt64($0) }
        switch (words.first, numbers.first) {
        case ("seeds", let first?):
            for seed in first...(numbers.last ?? first) {
                print(line(seed, Run.result(of: Script(seed: seed, actions: actions))))
            }
        case ("replay", nil):
            let file = words.dropFirst().first ?? ""
            guard let text = try? String(contentsOfFile: file, encoding: .utf8), let script = Script(text) else {
                return fail("\(file) holds no script")
            }
            finish(Run.result(of: script, trace: Trace(isPrinted: words.last == "trace")))
        case ("replay", let seed?):
            finish(Run.result(of: Script(seed: seed, actions: actions), trace: Trace(isPrinted: words.last == "trace")))
        case ("shrink", let seed?):
            let script = Script(seed: seed, actions: actions)
            guard let failure = Run.result(of: script).failure else { return fail("seed \(seed) does not fail") }
            print("# seed \(seed): \(failure)")
            var shrinker = Shrinker { Run.result(of: $0).failure != nil }
            let shortest = shrinker.shrink(script)
            print(
                "# \(shortest.records.count - 1) actions instead of \(script.records.count - 1): \(Run.result(of: shortest).failure ?? "")"
            )
            print(shortest)
        case ("script", let seed?):
            print(Script(seed: seed, actions: actions))
        default:
            fail("usage: ChaparSimulation seeds FIRST LAST | replay FILE|SEED [trace] | shrink SEED | script SEED")
        }
    }

    private static func line(_ seed: UInt64, _ result: Run.Result) -> String {
        let faults = result.faults.map { #""\#($0.key)":\#($0.value)"# }.sorted().joined(separator: ",")
        let reached = result.reached.map { #""\#($0)""# }.sorted().joined(separator: ",")
        let failure = result.failure.map { $0.replacing("\\", with: "/").replacing("\"", with: "'") }
        return #"{"seed":\#(seed),"hash":"\#(String(result.hash, radix: 16))","steps":\#(result.steps),"#
            + #""faults":{\#(faults)},"reached":[\#(reached)],"failure":\#(failure.map { "\"\($0)\"" } ?? "null")}"#
    }

    private static func finish(_ result: Run.Result) {
        print("\(String(result.hash, radix: 16)), \(result.steps) steps: \(result.failure ?? "all as it must be")")
        if result.failure != nil { exit(1) }
    }

    private static func fail(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
        exit(2)
    }
}
