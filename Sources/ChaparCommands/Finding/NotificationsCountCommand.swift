import ArgumentParser
import ChaparCore

/// `chapar notifications count`: counts what a search finds, by state.
struct NotificationsCountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "count",
        abstract: "Count notifications by state, with the filters of list.",
        discussion: "One with deliveries in several states counts in each. At most 100,000 deliveries are read."
    )

    @OptionGroup(title: "Which") var which: FindingOptions
    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let filters = try which.filters(gateway)
        let query = filters.map { "\($0.name)=\(FormEncoding.encode($0.value))" }.joined(separator: "&")
        try await DevicesClient.use(gateway) { devices in
            let answer = try await devices.call { (client) throws(HTTPFailure) in
                try await client.get("/v1/notifications/counts?\(query)")
            }.json
            if form.isJSON { return Shell.print(answer) }
            var table = TextTable("STATE", "NOTIFICATIONS", "DELIVERIES")
            for (state, count) in answer["states"]?.objectValue?.members ?? [] {
                let deliveries = answer["deliveries"]?[state]?.integerValue ?? 0
                table.add(state, "\(count.integerValue ?? 0)", "\(deliveries)")
            }
            table.print()
            Shell.print("\(answer["notifications"]?.integerValue ?? 0) notifications")
            if answer["next"]?.stringValue != nil { FoundPages.complainOfMore(answer["looked_back_to"]?.stringValue) }
        }
    }
}
