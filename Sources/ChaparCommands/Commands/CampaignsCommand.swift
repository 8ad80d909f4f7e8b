import ArgumentParser
import ChaparCore
import Foundation

/// `chapar campaigns`: lists, shows and steers the messages to audiences of a running gateway.
struct CampaignsCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: "campaigns",
            abstract: "List, show, pause, resume and cancel messages to audiences, and change their pace.",
            discussion: """
                Talks to a running gateway: --url, and a key in --key-file or $CHAPAR_KEY. A campaign is a notification to an \
                audience; \(GatewayProgram.current.name) send --tag, --segment, --platform, --everyone or --audience begins one.
                """,
            subcommands: [
                CampaignsListCommand.self, CampaignsShowCommand.self, CampaignsPauseCommand.self,
                CampaignsResumeCommand.self, CampaignsCancelCommand.self, CampaignsPaceCommand.self,
            ],
            defaultSubcommand: CampaignsListCommand.self
        )
    }
}

/// `chapar campaigns list`: the newest campaigns.
struct CampaignsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the newest campaigns.")

    @Option(help: "How many, 1 to 200.") var limit = 50
    @OptionGroup(title: "Repeating") var repeating: WatchOption
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (1...200).contains(limit) else { throw ValidationError("--limit is 1 to 200.") }
    }

    func run() async throws { try await repeating.run(form) { try await show() } }

    private func show() async throws {
        let client = try gateway.requiredClient()
        let answer = try await CampaignCall.made(client) { (client) throws(HTTPFailure) in
            try await client.get("/v1/campaigns?limit=\(limit)")
        }
        if form.isJSON { return Shell.print(answer) }
        for campaign in answer["items"]?.arrayValue ?? [] { Shell.print(CampaignText.line(campaign)) }
    }
}

/// `chapar campaigns show`: one campaign, with a bar while it runs.
struct CampaignsShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a campaign: its progress, its skipped devices, and how its deliveries ended."
    )

    @Argument(help: "The campaign's id, as send printed it.") var id: String
    @Flag(help: "Follow it with a bar until it is over or paused.") var watch = false
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let client = try gateway.requiredClient()
        let follower = CampaignFollower(client: client, id: id)
        let campaign = try await watch ? follower.follow(atMost: nil) : client.campaign(id)
        await client.close()
        if form.isJSON { return Shell.print(campaign) }
        for line in CampaignText.lines(campaign) { Shell.print(line) }
    }
}

/// `chapar campaigns pause`: no delivery of it goes out any more, within a second.
struct CampaignsPauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pause a campaign: within a second nothing more is sent."
    )

    @Argument(help: "The campaign's id.") var id: String
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await CampaignCall.change(id, "pause", gateway, form) }
}

/// `chapar campaigns resume`: it goes on where it stopped.
struct CampaignsResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resume a paused campaign where it stopped."
    )

    @Argument(help: "The campaign's id.") var id: String
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws { try await CampaignCall.change(id, "resume", gateway, form) }
}

/// `chapar campaigns cancel`: what has not gone out is cancelled.
struct CampaignsCancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Cancel a campaign: deliveries that were not sent yet never will be."
    )

    @Argument(help: "The campaign's id.") var id: String
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let client = try gateway.requiredClient()
        let answer = try await CampaignCall.made(client) { (client) throws(HTTPFailure) in
            try await client.delete("/v1/notifications/\(FormEncoding.encode(id))")
        }
        if form.isJSON { return Shell.print(answer) }
        func number(_ name: String) -> Int64 { answer[name]?.integerValue ?? 0 }
        Shell.print(
            "cancelled \(number("cancelled")), too late for \(number("too_late")), being sent \(number("in_flight"))"
        )
    }
}

/// `chapar campaigns pace`: a running campaign goes faster or slower.
struct CampaignsPaceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pace",
        abstract: "Change the pace of a running campaign.",
        discussion: "Without a flag it goes as fast as the platforms take it."
    )

    @Argument(help: "The campaign's id.") var id: String
    @OptionGroup(title: "The pace") var pace: PaceFlags
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let client = try gateway.requiredClient()
        let body = JSONValue.object(["pace": pace.json]).bytes
        let answer = try await CampaignCall.made(client) { (client) throws(HTTPFailure) in
            try await client.patch("/v1/notifications/\(FormEncoding.encode(id))", body)
        }
        CampaignCall.show(answer, form)
    }
}

/// The calls that change a campaign.
enum CampaignCall {
    /// Makes a call, closes the client, and returns the answer; throws the gateway's problem.
    static func made(
        _ client: GatewayClient,
        _ call: (GatewayClient) async throws(HTTPFailure) -> GatewayClient.Answer
    ) async throws -> JSONValue {
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await call(client)
        } catch {
            throw client.unreachable(error)
        }
        await client.close()
        guard (200..<300).contains(answer.status) else {
            throw CommandFailure(answer.problem, answer.status == 503 ? .tryLater : .usage)
        }
        return answer.json
    }

    static func change(_ id: String, _ verb: String, _ gateway: GatewayAddress, _ form: OutputForm) async throws {
        let answer = try await made(try gateway.requiredClient()) { (client) throws(HTTPFailure) in
            try await client.post(
                "/v1/notifications/\(FormEncoding.encode(id))/\(verb)",
                JSONValue.object([:]).bytes,
                idempotencyKey: UUID().uuidString
            )
        }
        show(answer, form)
    }

    static func show(_ campaign: JSONValue, _ form: OutputForm) {
        if form.isJSON { return Shell.print(campaign) }
        for line in CampaignText.lines(campaign) { Shell.print(line) }
    }
}
