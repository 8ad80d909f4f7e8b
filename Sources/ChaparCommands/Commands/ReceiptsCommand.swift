import ArgumentParser
import Foundation
import ChaparCore

/// `chapar receipts`: the key of the ids with which apps report arrivals and openings.
struct ReceiptsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receipts",
        abstract: "Replace the key of the ids with which apps report arrivals and openings.",
        subcommands: [ReceiptsRotateCommand.self]
    )
}

/// `chapar receipts rotate`: makes another key; ids of the old one are taken for a while.
struct ReceiptsRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Make a new key; ids of the old one are taken for a while.",
        discussion: """
            Talks to a running gateway: --url, and the key of the scope "admin" in --key-file or $CHAPAR_KEY. For when others \
            may have read the store or a backup. With --keep-old 0 the old key ends at once; reports of messages that are on their \
            way are lost then.
            """
    )

    @Option(help: "For how many seconds ids of the old key are taken, at most 7776000.")
    var keepOld = 7_776_000

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let client = try gateway.requiredClient()
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await client.post(
                "/v1/receipt-keys/rotate",
                JSONValue.object(["keep_old": .integer(Int64(keepOld))]).bytes,
                idempotencyKey: UUID().uuidString
            )
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard answer.status == 200 else {
            throw CommandFailure(answer.problem, answer.status == 503 ? .tryLater : .usage)
        }
        if form.isJSON { return Shell.print(answer.json) }
        Shell.print("New ids have the new key from \(answer.json["used_from"]?.words ?? "").")
        Shell.print("Ids of the old one are taken until \(answer.json["old_keys_until"]?.words ?? "").")
    }
}
