import ArgumentParser
import Foundation
import ChaparCore

/// `chapar devices subscription`: shows a device's subscription, or sets it.
struct DevicesSubscriptionCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "subscription",
            abstract: "Ask a platform for the state of a device's subscription; with --set, change it.",
            discussion: """
                Without --set the platform is asked now. With --set platforms are told in order and until they took or refused \
                it; --wait waits for their answers.

                  \(program) devices subscription phone-1 --url http://127.0.0.1:8080
                  \(program) devices subscription phone-1 --set suspended --backend crm --wait 10 --url http://127.0.0.1:8080
                """
        )
    }

    @Argument(help: "The device's id.")
    var id: String

    @Option(help: "subscribed, suspended or unsubscribed.")
    var set: String?

    @Option(
        help: "The backend. Default: all that keep subscriptions; to ask, the only one.",
        completion: NameCompletion.backends.kind
    )
    var backend: String?

    @Option(help: "Ask for the device's present subscription, current, or for the user's newest, latest.")
    var query: String = "current"

    @Option(help: "With --set, how many seconds to wait for the platforms, 0 to 30.")
    var wait: Int = 0

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        if let set, SubscriptionStatus(rawValue: set) == nil {
            throw ValidationError("\"\(set)\" is none of subscribed, suspended and unsubscribed.")
        }
        guard (0...30).contains(wait) else { throw ValidationError("--wait takes 0 to 30 seconds.") }
    }

    func run() async throws {
        try await DevicesClient.use(gateway) { devices in
            if let set { try await enqueue(devices, set) } else { try await ask(devices) }
        }
    }

    private func ask(_ devices: DevicesClient) async throws {
        var path = DevicesClient.path(id) + "/subscription?query=\(FormEncoding.encode(query))"
        if let backend { path += "&backend=\(FormEncoding.encode(backend))" }
        let target = path
        let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.get(target) }
        if form.isJSON { return Shell.print(answer.json) }
        let name = answer.json["backend"]?.words ?? ""
        Shell.print("\(name): \(answer.json["status"]?.words ?? "no subscription")")
    }

    private func enqueue(_ devices: DevicesClient, _ status: String) async throws {
        var body: JSONObject = ["status": .string(status)]
        body["backend"] = backend.map { .string($0) }
        let (path, bytes) = (DevicesClient.path(id) + "/subscription?wait=\(wait)", JSONValue.object(body).bytes)
        let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.put(path, bytes) }
        let operations = answer.json["operations"]?.arrayValue ?? []
        if form.isJSON {
            Shell.print(answer.json)
        } else {
            for operation in operations {
                let name = operation["backend"]?.words ?? ""
                let status = operation["status"]?.words ?? ""
                let message = operation["error"]?["message"]?.words.map { ": \($0)" } ?? ""
                Shell.print("\(name): \(status)\(message)")
            }
        }
        let failed = operations.count { $0["status"] == "failed" }
        if failed > 0 { throw failed == operations.count ? ExitStatus.failure : ExitStatus.partial }
    }
}

/// `chapar devices operations`: lists the outbox entries of a device.
struct DevicesOperationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "operations",
        abstract: "List the waiting operations of a device, the oldest first."
    )

    @Argument(help: "The device's id.")
    var id: String

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func run() async throws {
        let path = DevicesClient.path(id) + "/operations?limit=1000"
        try await DevicesClient.use(gateway) { devices in
            let answer = try await devices.call { (client) throws(HTTPFailure) in try await client.get(path) }
            let items = answer.json["items"]?.arrayValue ?? []
            if form.isJSON {
                for item in items { Shell.print(item) }
            } else if items.isEmpty {
                Shell.print("nothing waits")
            }
            guard !form.isJSON else { return }
            for item in items {
                let words = [item["backend"], item["kind"], item["at"]].map { $0?.words ?? "" }
                let due = item["due"]?.words.map { "due \($0)" } ?? "after the one before"
                let why = item["reason"]?.words.map { ", \($0)" } ?? ""
                Shell.print(
                    "\(words.joined(separator: "  "))  tried \(item["attempts"]?.text ?? "0") times, \(due)\(why)"
                )
            }
        }
    }
}
