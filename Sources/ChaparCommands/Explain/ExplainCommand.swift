import ArgumentParser
import ChaparComposition
import ChaparCore
import ChaparQueue

/// `chapar explain`: explains the reason of an attempt or an event: its meaning, the gateway's reaction, and what to
/// do.
struct ExplainCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "explain",
            abstract:
                "Say what a reason means, or why a message failed, what the gateway does about it, and what you can do.",
            discussion: """
                A reason is the word beside a failed attempt, in events, metrics and the output of send. Some words are used by
                several platforms: write platform:reason for one. Without a reason all are listed.

                  \(program) explain Unregistered
                  \(program) explain fcm:UNAVAILABLE
                  \(program) explain --json
                  \(program) explain 0C9ZK3V00R400 --url http://127.0.0.1:8080

                Exit code 1 when nobody knows the reason.
                """
        )
    }

    @Argument(
        help:
            "The reason, alone or as platform:reason; http-transport: and gateway: stand for those of no platform. Or the id of a notification."
    )
    var reason: String?

    @OptionGroup(title: "The gateway, for an id") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let all = ReasonGuide.all(GatewayProgram.current.backends)
        guard let reason else { return list(all) }
        let found = Self.find(reason, in: all)
        if found.isEmpty, NotificationID(reason) != nil {
            return try await DevicesClient.use(gateway) { devices in
                try await NotificationsShowCommand.show(reason, devices, form)
            }
        }
        guard !found.isEmpty else { throw Self.unknown(reason, all) }
        for (position, guide) in found.enumerated() {
            if form.isJSON {
                Shell.print(guide.json)
            } else {
                if position > 0 { Shell.print("") }
                for line in guide.lines { Shell.print(line) }
            }
        }
    }

    private func list(_ all: [ReasonGuide]) {
        guard !form.isJSON else { return all.forEach { Shell.print($0.json) } }
        var table = TextTable("REASON", "OF", "OUTCOME", "MEANING")
        for guide in all { table.add(guide.reason, guide.source, guide.outcome, guide.meaning) }
        table.print()
    }

    /// Returns the guides to a reason, in any case of letters; only those of one source when the text is
    /// `SOURCE:REASON`.
    private static func find(_ text: String, in all: [ReasonGuide]) -> [ReasonGuide] {
        var (source, reason): (String?, String) = (nil, text)
        if let (head, tail) = text.halves(at: ":") { (source, reason) = (head.lowercased(), tail) }
        return all.filter {
            $0.reason.lowercased() == reason.lowercased() && (source.map($0.source.lowercased().hasPrefix) ?? true)
        }
    }

    private static func unknown(_ text: String, _ all: [ReasonGuide]) -> CommandFailure {
        let reason = text.halves(at: ":")?.1 ?? text
        let near = Suggestion.nearest(to: reason, among: all.map(\.reason)).map { " Did you mean \"\($0)\"?" } ?? ""
        return CommandFailure(
            "no platform of this program knows the reason \"\(text)\".\(near) A reason that is in no table is judged by the "
                + "HTTP status beside it; codes of refused requests are explained in the answer that has them."
        )
    }
}
