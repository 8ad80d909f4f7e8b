import ArgumentParser
import ChaparCore
import Foundation

/// `chapar top`: shows what a running gateway does and what needs a hand, in place.
struct TopCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "top",
            abstract: "Watch a running gateway: problems, counts, backends, campaigns.",
            discussion: """
                Talks to a running gateway: --url, and a key of the scope "read" in --key-file or $CHAPAR_KEY. On a terminal the page \
                is drawn in place until Ctrl-C; elsewhere it is written once. With --json it is written again at each look, or with --once \
                only once.

                  \(program) top --range 24h --url http://127.0.0.1:8080
                  \(program) top --once --json --url http://127.0.0.1:8080
                """
        )
    }

    /// A span of time that the API has counts for.
    enum Range: String, ExpressibleByArgument, CaseIterable, Sendable {
        case hour = "1h"
        case day = "24h"
        case week = "7d"
    }

    @Option(help: "The time of the counts: 1h, 24h or 7d. Default: 1h.")
    var range = Range.hour

    @Flag(help: "Write the page once.")
    var once = false

    @Option(help: "The seconds between two looks, 1 to 3600. Default: 2.")
    var every = 2.0

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (1...3_600).contains(every) else { throw ValidationError("--every is 1 to 3600 seconds.") }
    }

    func run() async throws {
        let client = try gateway.requiredClient()
        do {
            try await client.checkReachable()
            if once || !form.isJSON && !Shell.isOutputTerminal {
                try await show(client)
            } else {
                let interval = Duration.milliseconds(Int(clamping: every * 1_000))
                try await LiveScreen(interval: interval, isInPlace: !form.isJSON).run { try await show(client) }
            }
        } catch {
            await client.close()
            throw error
        }
        await client.close()
    }

    private func show(_ client: GatewayClient) async throws {
        let page = TopPage(
            now: Date(),
            range: range.rawValue,
            backends: try await Self.ask(client, "/v1/backends"),
            series: try await Self.ask(client, "/v1/series?range=\(range.rawValue)", isNeeded: false),
            campaigns: try await Self.ask(client, "/v1/campaigns?limit=50", isNeeded: false)
        )
        if form.isJSON { return Shell.print(page.json) }
        for line in page.lines(columns: min(Shell.columns ?? 80, 80)) { Shell.print(line) }
    }

    /// Returns an answer; null for one that an older gateway or the key does not give, unless it is needed.
    private static func ask(_ client: GatewayClient, _ path: String, isNeeded: Bool = true) async throws -> JSONValue {
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await client.get(path)
        } catch {
            throw client.unreachable(error)
        }
        if !isNeeded, [400, 403, 404].contains(answer.status) { return .null }
        if let failure = DevicesClient.failure(answer) { throw failure }
        return answer.json
    }
}
