// Runs the programs of the folder Programs against simulators: `swift run Everyday`, or with the names of some.
// DurableOrders and GracefulShutdown end at SIGTERM, and run when they are named.
import ChaparSandbox

@main
enum Everyday {
    static func main() async throws {
        let named = CommandLine.arguments.dropFirst()
        let known = Trial.all
        if let wrong = named.first(where: { name in !known.contains { $0.name == name } }) {
            throw Unexpected("there is no program \(wrong): \(known.map(\.name).joined(separator: ", "))")
        }
        let chosen = known.filter { named.isEmpty ? !$0.isServer : named.contains($0.name) }
        try await Sandbox.run { sandbox in
            for trial in chosen {
                print("\(trial.name):")
                try await trial.run(sandbox)
            }
        }
    }
}

/// A program that did not do what its reader expects.
struct Unexpected: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
