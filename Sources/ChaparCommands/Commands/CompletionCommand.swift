import ArgumentParser
import ChaparCore

/// `chapar completion`: prints the script that completes the command line.
struct CompletionCommand: ParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "completion",
            abstract: "Print the completion script for bash, zsh or fish.",
            discussion: "For bash: \(program) completion bash > /etc/bash_completion.d/\(program)"
        )
    }

    @Argument(help: "bash, zsh or fish.")
    var shell: ShellName

    @OptionGroup var form: OutputForm

    func run() throws {
        let script =
            switch shell {
            case .bash: RootCommand.completionScript(for: .bash)
            case .zsh: RootCommand.completionScript(for: .zsh)
            case .fish: RootCommand.completionScript(for: .fish)
            }
        form.isJSON
            ? Shell.print(["shell": .string(shell.rawValue), "script": .string(script)]) : Shell.print(script)
    }

    /// A shell, as an argument.
    enum ShellName: String, ExpressibleByArgument, CaseIterable {
        case bash, zsh, fish
    }
}
