import ArgumentParser
import Foundation
import PushCore

/// `chapar cancel`: cancels what has not gone out of a notification, and what platforms can take back.
struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancel what has not gone out of a notification; with --platform, ask platforms to take it back.",
        discussion: """
            Talks to a running gateway: --url, and the key of the scope "send" in --key-file or $CHAPAR_KEY. OneSignal stops \
            what it has not sent; Chabok asks the user's devices to take the message away. Deliveries stay as they are then: \
            what was on its way may have arrived.
            """
    )

    @Argument(help: "The notification's id.")
    var id: String

    @Flag(help: "Ask platforms that can to take back what they have taken.")
    var platform = false

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let path = "/v1/notifications/\(FormEncoding.encode(id))" + (platform ? "?platform=true" : "")
        try await DevicesClient.use(gateway) { client in
            let answer = try await client.call { (client) throws(HTTPFailure) in try await client.erase(path) }.json
            if form.isJSON { return Shell.print(answer) }
            func line(_ title: String, _ object: JSONValue?, _ names: [String]) {
                let counts = names.compactMap { name in
                    object?[name]?.integerValue.map { "\($0) \(name.replacing("_", with: " "))" }
                }
                if !counts.isEmpty { Shell.print("\(title): \(counts.joined(separator: ", "))") }
            }
            line("gateway", answer, ["cancelled", "in_flight", "too_late"])
            line(
                "platforms",
                answer["platform"],
                ["cancelled", "requested", "too_late", "failed", "unsupported", "not_asked"]
            )
            for item in answer["platform"]?["errors"]?.arrayValue ?? [] {
                let words = item["error"]?["message"]?.stringValue ?? ""
                Shell.complain("\(item["backend"]?.stringValue ?? ""): \(words)")
            }
        }
    }
}
