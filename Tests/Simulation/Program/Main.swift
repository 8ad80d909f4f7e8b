import Foundation
import SimulationHooks

/// The program behind `Tests/Simulation/run`, which calls it with as few seeds as a process bears: the objects of each
/// incarnation that crashed stay in memory.
///
///     ChaparSimulation seeds FIRST LAST     runs seeds, a line of JSON for each
///     ChaparSimulation replay FILE [trace] [BEND]  runs a script, or a seed's; bent, it must fail, see ``Run/Bend``
///     ChaparSimulation script FILE          prints a script, or a seed's, with what its numbers mean
///
/// With `database` behind these words seeds run over a model of a shared database instead of the embedded store, with
/// `escalate` a backend takes over where another one reports no arrival, with `campaigns` clients send to audiences too,
/// with `webhooks` there are webhooks, which a second gateway shares over a database.
///
///     ChaparSimulation names                prints the kinds of faults, the states that should be reached, and the bends
@main
struct Main {
    /// The actions of a seed's script.
    private static let actions = 45

    static func main() {
        Scheduler.shared.install()
        let words = CommandLine.arguments.dropFirst()
        let numbers = words.compactMap { UInt64($0) }
        let isOverDatabase = words.contains("database")
        let escalates = words.contains("escalate")
        let hasCampaigns = words.contains("campaigns")
        let hasWebhooks = words.contains("webhooks")
        func script(of seed: UInt64) -> Script {
            Script(
                seed: seed,
                actions: actions,
                isOverDatabase: isOverDatabase,
                escalates: escalates,
                hasCampaigns: hasCampaigns,
                hasWebhooks: hasWebhooks
            )
        }
        switch (words.first, numbers.first) {
        case ("seeds", let first?):
            for seed in first...(numbers.last ?? first) {
                print(line(seed, Run.result(of: script(of: seed))))
                fflush(nil)  // So that the results before a seed that hangs are seen.
            }
        case ("replay", nil):
            guard let script = Self.script(in: words.dropFirst().first ?? "") else { return }
            replay(script, words)
        case ("replay", let seed?): replay(script(of: seed), words)
        case ("script", let seed?):
            print(script(of: seed))
        case ("script", nil):
            guard let script = Self.script(in: words.dropFirst().first ?? "") else { return }
            print(script)
        case ("names", _):
            print("faults \(Oracle.Fault.allCases.map(\.rawValue).joined(separator: " "))")
            // What has nothing to do with campaigns or webhooks is looked for without them.
            let states = Oracle.Coverage.allCases.filter {
                $0.isOfCampaigns == hasCampaigns && $0.isOfWebhooks == hasWebhooks
            }
            print("states \(states.map(\.rawValue).joined(separator: " "))")
            print("bends \(Run.Bend.allCases.map(\.rawValue).joined(separator: " "))")
        default:
            fail("usage: ChaparSimulation seeds FIRST LAST | replay FILE|SEED [trace] | script FILE|SEED | names")
        }
    }

    private static func script(in file: String) -> Script? {
        if let text = try? String(contentsOfFile: file, encoding: .utf8), let script = Script(text) { return script }
        fail("\(file) holds no script")
        return nil
    }

    private static func line(_ seed: UInt64, _ result: Run.Result) -> String {
        let faults = result.faults.map { #""\#($0.key)":\#($0.value)"# }.sorted().joined(separator: ",")
        let reached = result.reached.map { #""\#($0)""# }.sorted().joined(separator: ",")
        let failure = result.failure.map { $0.replacing("\\", with: "/").replacing("\"", with: "'") }
        return #"{"seed":\#(seed),"hash":"\#(String(result.hash, radix: 16))","steps":\#(result.steps),"#
            + #""accepted":\#(result.accepted),"delivered":\#(result.delivered),"#
            + #""faults":{\#(faults)},"reached":[\#(reached)],"failure":\#(failure.map { "\"\($0)\"" } ?? "null")}"#
    }

    private static func replay(_ script: Script, _ words: ArraySlice<String>) {
        let trace = Trace(isPrinted: words.contains("trace"))
        let result = Run.result(of: script, trace: trace, bend: words.lazy.compactMap(Run.Bend.init).first)
        print("\(String(result.hash, radix: 16)), \(result.steps) steps: \(result.failure ?? "all as it must be")")
        if result.failure != nil { exit(1) }
    }

    private static func fail(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
        exit(2)
    }
}
