import ArgumentParser
import Foundation
import ChaparCore

/// `chapar cancel`: cancels the waiting deliveries of a notification, and asks platforms to withdraw the others; or
/// cancels all waiting deliveries of an API key.
struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract:
            "Cancel what has not gone out of a notification, or of all that was sent with an API key (--key); with --platform, ask platforms to take it back.",
        discussion: """
            Talks to a running gateway: --url, and the key of the scope "send" in --key-file or $CHAPAR_KEY. OneSignal stops \
            what it has not sent; Chabok asks the user's devices to take the message away; Huawei, with v3, removes it where \
            the user has not tapped it. Deliveries stay as they are then: \
            what was on its way may have arrived.

            --key NAME ends what waits of all that was sent with the key of that name, scheduled messages and retries included. \
            A key of the scope "send" may name itself, one of the scope "admin" any, also one that there is not any more; \
            --key "" is what was sent without a key.
            """
    )

    @Argument(help: "The notification's id.")
    var id: String?

    @Option(
        help: "The name of an API key: cancel all waiting messages that were sent with it.",
        completion: NameCompletion.keys.kind
    )
    var key: String?

    @Flag(help: "Also ask platforms to take messages back, where they can.")
    var platform = false

    @Flag(help: "Only say what would be cancelled.")
    var dryRun = false

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard (id == nil) != (key == nil) else {
            throw ValidationError("Say what to cancel: the id of a notification, or --key and the name of an API key.")
        }
        if key != nil, platform {
            throw ValidationError("--platform goes with the id of a notification: platforms take back single messages.")
        }
    }

    func run() async throws {
        if let key { return try await cancelAll(of: key) }
        var flags: [String] = []
        if platform { flags.append("platform=true") }
        if dryRun { flags.append("dry_run=true") }
        let query = flags.isEmpty ? "" : "?" + flags.joined(separator: "&")
        let path = "/v1/notifications/\(FormEncoding.encode(id ?? ""))\(query)"
        try await DevicesClient.use(gateway) { client in
            let answer = try await client.call { (client) throws(HTTPFailure) in try await client.erase(path) }.json
            if form.isJSON { return Shell.print(answer) }
            func line(_ title: String, _ object: JSONValue?, _ names: [String]) {
                let counts = names.compactMap { name in
                    object?[name]?.integerValue.map { "\($0) \(name.replacing("_", with: " "))" }
                }
                if !counts.isEmpty { Shell.print("\(title): \(counts.joined(separator: ", "))") }
            }
            line(dryRun ? "would be" : "gateway", answer, ["cancelled", "in_flight", "too_late"])
            line(
                "platforms",
                answer["platform"],
                ["cancelled", "requested", "too_late", "failed", "unsupported", "not_asked"]
            )
            for item in answer["platform"]?["errors"]?.arrayValue ?? [] {
                let words = item["error"]?["message"]?.words ?? ""
                Shell.complain("\(item["backend"]?.words ?? ""): \(words)")
            }
        }
    }

    /// The number of calls in a row that find nothing to cancel, after which the command gives up.
    private static let mostFutileCalls = 5

    /// Says what the cancellation of a key would end.
    private func foresee(_ path: String) async throws {
        try await DevicesClient.use(gateway) { client in
            let answer = try await client.call { (client) throws(HTTPFailure) in try await client.erase(path) }.json
            if form.isJSON { return Shell.print(answer) }
            let inFlight = answer["in_flight"]?.integerValue ?? 0
            let isComplete = answer["complete"]?.boolValue ?? true
            Shell.print(
                "would be: \(answer["cancelled"]?.integerValue ?? 0) cancelled, "
                    + "\(isComplete ? "" : "at least ")\(inFlight) in flight"
            )
        }
    }

    /// Cancels all waiting deliveries of a key in several calls, since each call ends after a bounded time.
    private func cancelAll(of key: String) async throws {
        let path = "/v1/notifications?key=\(FormEncoding.encode(key))"
        if dryRun { return try await foresee(path + "&dry_run=true") }
        try await DevicesClient.use(gateway) { client in
            var (cancelled, inFlight, futile) = (Int64(0), Int64(0), 0)
            var isComplete = false
            while !isComplete, futile < Self.mostFutileCalls {
                let answer = try await client.call { (client) throws(HTTPFailure) in try await client.erase(path) }.json
                let ended = answer["cancelled"]?.integerValue ?? 0
                cancelled = cancelled.addingReportingOverflow(ended).partialValue
                inFlight = inFlight.addingReportingOverflow(answer["in_flight"]?.integerValue ?? 0).partialValue
                isComplete = answer["complete"]?.boolValue ?? true
                futile = ended > 0 ? 0 : futile + 1
            }
            if form.isJSON {
                Shell.print([
                    "key": .string(key), "cancelled": .integer(cancelled), "in_flight": .integer(inFlight),
                    "complete": .bool(isComplete),
                ])
            } else {
                Shell.print("gateway: \(cancelled) cancelled, \(inFlight) in flight")
            }
            if !isComplete { throw CommandFailure("more waits: run it again", .tryLater) }
        }
    }
}
