import ArgumentParser
import Foundation
import ChaparCore

/// `chapar users`: commands on the data of users.
struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "Erase what the gateway keeps of a user.",
        subcommands: [UsersEraseCommand.self]
    )
}

/// `chapar users erase`: removes devices, tokens, deliveries and events of one user.
struct UsersEraseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Remove devices, tokens, deliveries and events of one user, also at platforms.",
        discussion: """
            Needs a key with the scope admin. What waits for the user is cancelled. What others got as well stays without
            the user in it. Backups are not touched. What takes longer the gateway ends itself, and the command says so.
            """
    )

    @Argument(help: "The user.")
    var user: String

    @OptionGroup var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let client = try gateway.requiredClient()
        // The call itself may take an hour: too long to find out that no gateway is there.
        try await client.checkReachable()
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await client.erase("/v1/users/\(FormEncoding.encode(user))")
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard [200, 202].contains(answer.status) else {
            throw CommandFailure(answer.problem, [429, 503].contains(answer.status) ? .tryLater : .usage)
        }
        form.isJSON ? Shell.print(answer.json) : show(answer.json)
    }

    private func show(_ report: JSONValue) {
        func count(_ name: String, in value: JSONValue?) -> Int64 { value?[name]?.integerValue ?? 0 }
        let deliveries = report["deliveries"]
        Shell.print(
            "Removed: \(count("devices", in: report)) devices with \(count("tokens", in: report)) tokens, "
                + "\(count("removed", in: deliveries)) deliveries. Cancelled: \(count("cancelled", in: deliveries)). "
                + "Made anonymous: \(count("anonymised", in: deliveries)) deliveries, \(count("events", in: report)) events."
        )
        for sentence in report["stays"]?.arrayValue ?? [] { Shell.print("- \(sentence.words ?? "")") }
    }
}
