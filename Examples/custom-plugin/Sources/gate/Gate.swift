import PushCommands
import PushSMS

/// A gateway of one's own: every command of `chapar`, for the platforms listed here.
@main
enum Gate {
    static func main() async {
        await GatewayProgram(name: "gate", version: "1.0.0", backends: [.sms]).run()
    }
}
