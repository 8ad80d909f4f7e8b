import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway
import ChaparModules
import ChaparSandbox

/// `chapar demo`: runs simulators and a gateway in one process, sends a varied set of messages, and shows how each
/// ended.
struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "See it work: simulators, a gateway, messages and their outcomes. No account, no set-up.",
        discussion: """
            Everything runs in this process, on free ports of 127.0.0.1 and in a temporary folder, and is gone afterwards.
            It stays up with the dashboard until interrupted; with --once it ends after the outcomes, with exit code 0
            only if every one was the expected one.
            """
    )

    @Flag(help: "End after the outcomes.")
    var once = false

    @Option(help: "The most seconds that the outcomes may take.")
    var timeout = 60.0

    @Option(help: "The gateway's port; 0 takes a free one.")
    var port = 0

    @OptionGroup var form: OutputForm

    func run() async throws {
        let interruption = await Interruption()
        let folder = try TemporaryFolder(prefix: "chapar-demo")
        defer { folder.remove() }
        let wasAsExpected: Bool
        do {
            wasAsExpected = try await Sandbox.run(GatewayProgram.current.sandbox) { sandbox in
                let files = try GatewayProgram.current.write(sandbox, to: folder.url, gatewayPort: port)
                let log = LogOutput.Settings(Self.quiet)
                return try await LocalGateway.run(
                    path: files.configurationFile.path,
                    log: log,
                    adjust: { configuration in
                        configuration.log = Self.quiet
                        configuration.queue.firstRetry = .milliseconds(500)
                        configuration.queue.drain = .seconds(5)
                        // The app reports arrivals, without which no route may wait for them.
                        configuration.receipts[.default] = .init()
                        configuration.routes += DemoScenario.all(now: Date())
                            .filter { $0.kinds.allSatisfy(GatewayProgram.current.knows) }.compactMap(\.route)
                    },
                    { port in try await show(port, sandbox, files, until: interruption) }
                )
            }
        } catch let error as SandboxError {
            throw CommandFailure(error.description)
        } catch {
            let fix = "give another one with --port"
            guard let words = CommandFailure.portTaken(error, at: "127.0.0.1:\(port)", fix: fix) else { throw error }
            throw CommandFailure(words)
        }
        if once, !wasAsExpected { throw ExitStatus.failure }
    }

    /// The log settings of the demonstration: only errors, since its output is the outcomes.
    private static var quiet: GatewayConfiguration.Log {
        var log = GatewayConfiguration.Log()
        log.level = "error"
        return log
    }

    /// Runs the scenarios, then stays until interrupted, unless it is to end; an interruption ends it at any time.
    private func show(
        _ port: Int,
        _ sandbox: Sandbox,
        _ files: SandboxDescription,
        until interruption: Interruption
    ) async throws -> Bool {
        try await withThrowingTaskGroup(of: Bool?.self) { group in
            group.addTask {
                await interruption.wait()
                return nil
            }
            group.addTask { try await runScenarios(port, sandbox, files) }
            guard let wasAsExpected = try await group.next() ?? nil else {
                group.cancelAll()
                throw CommandFailure("interrupted before every outcome was there")
            }
            if once { group.cancelAll() }
            try await group.waitForAll()
            return wasAsExpected
        }
    }

    private func runScenarios(_ port: Int, _ sandbox: Sandbox, _ files: SandboxDescription) async throws -> Bool {
        let url = "http://127.0.0.1:\(port)"
        guard let endpoint = HTTPEndpoint(url: url) else { throw CommandFailure("\(url) is no address") }
        let client = try GatewayClient(endpoint, key: nil)
        Shell.complain(SandboxCommand.keylessWarning)
        if !form.isJSON {
            Shell.print("A gateway at \(url), and beside it simulators of the push services.")
            Shell.print("Sending through its HTTP API:")
            Shell.print("")
        }
        let program = GatewayProgram.current
        let all =
            sandbox.services.compactMap(DemoScenario.of) + DemoScenario.all(now: Date())
            + [DemoScenario.browsers(sandbox.webPush)]
        let scenarios = all.filter { $0.kinds.allSatisfy(program.knows) }
        let endings = try await endings(of: scenarios, client, sandbox)
        await client.close()
        let leftOut = Self.words(about: all.filter { !$0.kinds.allSatisfy(program.knows) })
        if form.isJSON {
            for ending in endings { Shell.print(Self.json(ending)) }
            if let leftOut { Shell.complain(leftOut) }
        } else {
            show(endings, leftOut)
        }
        let wasAsExpected = endings.allSatisfy { $0.complaint == nil }
        if !once {
            if form.isJSON {
                Shell.print(["dashboard": .string(url + "/"), "config": .string(files.configurationFile.path)])
            } else {
                showWhereToLook(url, files, sandbox.services)
            }
        }
        return wasAsExpected
    }

    private func endings(
        of scenarios: [DemoScenario],
        _ client: GatewayClient,
        _ sandbox: Sandbox
    ) async throws -> [DemoRunner.Ending] {
        let runner = DemoRunner(client: client, deadline: .now + .milliseconds(clamping: timeout * 1000))
        for scenario in scenarios { sandbox.apns.add(scenario.faults) }
        var endings: [DemoRunner.Ending] = []
        for part in [scenarios.filter { !$0.isDisruptive }, scenarios.filter(\.isDisruptive)] {
            var begun: [DemoRunner.Begun] = []
            for scenario in part { begun.append(try await runner.begin(scenario)) }
            for one in begun { endings.append(try await runner.end(one)) }
        }
        return endings
    }

    private func show(_ endings: [DemoRunner.Ending], _ leftOut: String?) {
        var table = TextTable("STORY", "WHAT HAPPENS", "OUTCOME", "THE PLATFORM SAID", "VERDICT")
        for ending in endings {
            let verdict = ending.complaint.map { "UNEXPECTED: \($0)" } ?? "as expected"
            table.add(ending.scenario.name, ending.scenario.summary, ending.outcome, ending.attempts, verdict)
        }
        table.print()
        if let leftOut { Shell.print("\n" + leftOut) }
        let wrong = endings.filter { $0.complaint != nil }.count
        let praise =
            endings.count == 1
            ? "The outcome is the expected one." : "All \(endings.count) outcomes are the expected ones."
        Shell.print("")
        Shell.print(
            wrong == 0
                ? Shell.paint(praise, .green)
                : Shell.paint("\(wrong) of \(endings.count) outcomes are not the expected ones.", .red)
        )
    }

    /// Returns a sentence on the scenarios that were skipped, since this program lacks a platform that takes part in
    /// them; nil when none was.
    private static func words(about scenarios: [DemoScenario]) -> String? {
        if scenarios.isEmpty { return nil }
        let names = scenarios.map { scenario in
            let missing = scenario.kinds.filter { !GatewayProgram.current.knows($0) }.map(\.rawValue)
            return "\(scenario.name) (\(missing.joined(separator: ", ")))"
        }
        return "Left out, since this program lacks the platform: \(names.joined(separator: "; "))."
    }

    private func showWhereToLook(_ url: String, _ files: SandboxDescription, _ services: [any SimulatedService]) {
        var recipient = Recipient.token(DeviceToken("abcdef12", service: .iOSAPNs))
        var message: JSONObject = ["content": ["body": "Hello"]]
        if !GatewayProgram.current.knows("apns"), let own = services.first {
            recipient = own.recipient
            message["backend"] = .string(own.kind.rawValue)
        }
        message["to"] = .object(DemoScenario.audience(recipient) ?? ["everyone": true])
        let scenario = JSONValue.object(message).text
        let flag = DemoScenario.flag(recipient)
        let hasNotes = GatewayProgram.current.modules.contains { $0.key == "release_notes" }
        let notes = hasNotes ? "\nRelease notes:  \(url)/v1/apps/shop/versions.html (and ?lang=fa)" : ""
        Shell.print(
            """

            Dashboard:      \(url)/\(notes)
            Send your own:  curl \(url)/v1/notifications -H 'Content-Type: application/json' -d '\(scenario)'
            Without it:     \(CommandLine.arguments[0]) send --config \(files.configurationFile.path) \(flag) Hello
            Ctrl-c ends everything.
            """
        )
    }

    private static func json(_ ending: DemoRunner.Ending) -> JSONValue {
        [
            "story": .string(ending.scenario.name), "summary": .string(ending.scenario.summary),
            "outcome": .string(ending.outcome), "attempts": .string(ending.attempts),
            "expected": .bool(ending.complaint == nil),
            "complaint": ending.complaint.map { .string($0) } ?? .null, "id": ending.id.map { .string($0) } ?? .null,
        ]
    }
}
