import ChaparCommands

/// The program `chapar`: the commands of a gateway, for the platforms of ``Plugins``.
@main
enum Main {
    static func main() async { await Plugins.program.run() }
}
