import ArgumentParser

/// `chapar completion`: the script that completes the command line.
struct CompletionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completion",
        abstract: "Print the completion script for bash, zsh or fish.",
        discussion: "For bash: chapar completion bash > /etc/bash_completion.d/chapar"
    )

    @Argument(help: "bash, zsh or fish.")
    var shell: ShellName

    func run() throws {
        let script =
            switch shell {
            case .bash: Chapar.completionScript(for: .bash)
            case .zsh: Chapar.completionScript(for: .zsh)
            case .fish: Chapar.completionScript(for: .fish)
            }
        Shell.print(script)
    }

    /// A shell on the command line.
    enum ShellName: String, ExpressibleByArgument, CaseIterable {
        case bash, zsh, fish
    }
}
