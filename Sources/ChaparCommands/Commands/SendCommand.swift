import ArgumentParser
import Foundation
import Logging
import ChaparCore
import ChaparGateway
import ChaparHTTP

/// `chapar send`: sends one message or a file of them, directly or through a gateway.
struct SendCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "send",
            abstract: "Send a message, or a file of thousands, with no server or through a gateway.",
            discussion: """
                Without --url the backends of the configuration send at once, one attempt each; what became of every \
                recipient is printed. With --url, or $CHAPAR_URL and no --config, a gateway takes the messages and goes \
                on trying.

                  \(program) send --to ios-apns:4f1c… --title "Order 42" "is on its way"
                  \(program) send --user ali --user zahra --title "Sale" --url http://127.0.0.1:8080 --key-file key
                  \(program) send --tag plan:pro --platform android --title "Sale" --url http://127.0.0.1:8080 --key-file key
                  \(program) send --input people.csv --title "Sale" --url http://127.0.0.1:8080 --key-file key

                Exit codes: 0 all taken, 1 all refused, 2 usage, 3 configuration, 4 some taken, 75 try later.
                """
        )
    }

    @Argument(help: "The text; - reads it from stdin.")
    var text: String?

    @Option(help: "A CSV or NDJSON file of messages, - for stdin.", completion: .file(extensions: ["csv", "ndjson"]))
    var input: String?

    @Option(help: "The form of the input: csv or ndjson. Default: by its name, else ndjson.")
    var inputFormat: Format?

    @Flag(
        help: "Send each line as it comes, before the whole input is known to be readable: for a pipe without an end."
    )
    var stream = false

    @Flag(help: "Send lines of the input that repeat an earlier one, too.")
    var keepRepeats = false

    @Flag(help: "Send nothing; print the requests that the platforms would get, credentials hidden.")
    var dryRun = false

    @Option(help: "Through a gateway: how many seconds to wait for the outcome. Default: 10, with --input 0.")
    var wait: Double?

    @OptionGroup(title: "Who gets it") var audience: AudienceOptions
    @OptionGroup(title: "To many, through a gateway") var campaign: CampaignFlags
    @OptionGroup(title: "The message") var message: MessageOptions
    @OptionGroup(title: "With no server") var file: ConfigOption
    @OptionGroup(title: "Through a gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    /// A form of input, as an argument.
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case csv, ndjson
    }

    /// Whether a gateway takes the messages: one that the flag names, or the environment where no flag says otherwise.
    private var isThroughGateway: Bool {
        gateway.named != nil || (gateway.url != nil && file.named == nil && !dryRun)
    }

    func validate() throws {
        let audience = try audience.json(throughGateway: isThroughGateway)
        if input == nil, audience == nil {
            throw ValidationError("Say who gets it: \(AudienceOptions.words), or --input FILE.")
        }
        let isCampaign = self.audience.isAudience(backend: message.backend)
        if isCampaign, !isThroughGateway {
            throw ValidationError("Only a gateway has a registry with tags and platforms: give --url, or $CHAPAR_URL.")
        }
        if !isCampaign, let flag = campaign.given {
            throw ValidationError(
                "\(flag) is about an audience: --tag, --segment, --platform, --everyone or --audience."
            )
        }
        if text != nil, message.body != nil { throw ValidationError("Give the text once: as argument or as --body.") }
        if input == "-", text == "-" { throw ValidationError("stdin can be the input or the text, not both.") }
        if input == nil, stream || keepRepeats {
            throw ValidationError("--stream and --keep-repeats are about the lines of --input.")
        }
        if dryRun, gateway.named != nil { throw ValidationError("--dry-run shows platform requests; leave --url out.") }
        if let wait, !(0...86400).contains(wait) { throw ValidationError("--wait is 0 to 86400 seconds.") }
    }

    func run() async throws {
        let text = try text == "-" ? Self.standardInput() : text
        if input == nil, message.showsOnlyEmptyText(text) {
            throw CommandFailure(
                "the text is empty, and there is nothing else to show: give a text or --title, or --silent for a message "
                    + "that only wakes the app",
                .usage
            )
        }
        var base = try message.request(text: text)
        base["to"] = try audience.json(throughGateway: isThroughGateway)
        if let app = gateway.app { base["app"] = .string(app) }
        if audience.isAudience(backend: message.backend), input == nil {
            for (name, value) in try campaign.members { base[name] = value }
            let isTest = !campaign.testDevices.isEmpty
            let sending = try CampaignSending(
                client: gateway.requiredClient(),
                form: form,
                wait: wait ?? (isTest ? 10 : 0),
                isTest: isTest
            )
            return try await sending.send(base)
        }
        let sender = try await sender()
        let tally = SendTally()
        do {
            try await send(base, through: sender, tally)
        } catch {
            await sender.close()
            throw error
        }
        await sender.close()
        if let input, tally.total == 0 { Shell.complain("\(input == "-" ? "stdin" : input) holds no message") }
        if input != nil || tally.total > 1 { Shell.complain(tally.summary) }
        if tally.status != .success { throw tally.status }
    }

    private func sender() async throws -> any MessageSender {
        if isThroughGateway, let client = try gateway.client(file) {
            try await client.checkReachable()
            let maximumWait = wait ?? (input == nil ? 10 : 0)
            return GatewaySender(client, maximumWait: .milliseconds(clamping: maximumWait * 1000))
        }
        var quiet = GatewayConfiguration.Log()
        quiet.level = "warning"
        let logger = LogOutput.Settings(quiet).logger()
        let preview = dryRun ? PreviewTransport() : nil
        let loader = try BackendLoader(transport: preview ?? NIOTransport(logger: logger), logger: logger)
        return DirectSender(
            try loader.load(file.path),
            kinds: loader.registry.factories.map(\.kind.rawValue),
            preview: preview
        )
    }

    private func send(_ base: JSONObject, through sender: any MessageSender, _ tally: SendTally) async throws {
        let isQuiet = input != nil && !form.isJSON && !dryRun
        let source = input == "-" ? "stdin" : input
        let show: @Sendable ([SendResult]) -> Void = { [form] results in
            tally.add(results)
            for result in results {
                // Among thousands of results, those that failed matter.
                if isQuiet, result.ending == .sent || result.ending == .accepted { continue }
                var result = result
                result.file = source
                form.isJSON ? Shell.print(result.json) : Shell.print(result.text)
                if let request = result.request, !form.isJSON { Shell.print("         " + request.text) }
            }
        }
        guard let input else { return try await sender.send([NumberedMessage(line: 1, request: base)], report: show) }
        var file = try InputFile(
            input,
            format: inputFormat.map { $0 == .csv ? .csv : .ndjson },
            base: base,
            isStream: stream
        )
        defer { file.close() }
        var seen = SeenLines()
        var bar = ProgressBar(isShown: true)
        var batch: [NumberedMessage] = []
        while let line = try file.next() {
            switch line.result {
            case .success(let request):
                guard keepRepeats || seen.isNew(request, line: line.number, form: sender.form) else { continue }
                batch.append(NumberedMessage(line: line.number, request: request))
            case .failure(let failure):
                show([
                    SendResult(
                        line: line.number,
                        recipient: "",
                        ending: .refused,
                        reason: "invalid_line",
                        detail: "\(source ?? input): line \(line.number) \(failure.description)"
                    )
                ])
            }
            if batch.count >= sender.batchSize {
                try await sender.send(batch, report: show)
                batch.removeAll(keepingCapacity: true)
            }
            bar.update(done: tally.total, fraction: file.size.map { Double(file.consumed) / Double(max($0, 1)) })
        }
        if !batch.isEmpty { try await sender.send(batch, report: show) }
        bar.update(done: tally.total, fraction: file.size.map { _ in 1 }, isLast: true)
        if let warning = seen.warning { Shell.complain("\(source ?? input): \(warning)") }
    }

    private static func standardInput() throws -> String {
        let limit = 64 << 10
        let data = try FileHandle.standardInput.read(upToCount: limit + 1) ?? Data()
        guard data.count <= limit else {
            throw CommandFailure("the text on stdin is longer than \(limit) bytes", .usage)
        }
        return try UTF8Text.whole(data, of: "stdin").trimmingCharacters(in: .newlines)
    }
}
