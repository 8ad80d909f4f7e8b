import ChaparSMS
import ChaparSMSSimulator
import ChaparCommands

/// A gateway of one's own: every command of `chapar`, for the platforms listed here.
@main
enum Program {
    static func main() async {
        await GatewayProgram(
            name: "gate",
            version: "1.0.0",
            backends: [.sms],
            simulators: [{ SMSService() }]
        ).run()
    }
}
