import ArgumentParser
import Foundation
import ChaparCore
import ChaparQueue

/// `chapar devices put`: registers a device, replaces it, or changes some of its fields.
struct DevicesPutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Register a device, or replace all of it; with --merge, change only the named fields."
    )

    @Argument(help: "The id: 1 to 128 of A-Z a-z 0-9 . _ : -.")
    var id: String

    @Option(help: "The user it belongs to.")
    var user: String?

    @Option(name: .customLong("token"), help: "A token, service:token or service/kind:token. Repeat it.")
    var tokens: [String] = []

    @Option(name: .customLong("tag"), help: "A tag. Repeat it.")
    var tags: [String] = []

    @Option(help: "ios, android, harmony, web or x-name. Default: what its tokens agree on.")
    var platform: String?

    @Option(help: "The language tag, such as fa-IR.")
    var locale: String?

    @Option(help: "The version of the app.")
    var appVersion: String?

    @Option(help: "The time zone, such as Asia/Tehran.")
    var timeZone: String?

    @Flag(help: "Change a device that exists: what is not named stays. Without tags given, they stay as well.")
    var merge = false

    @OptionGroup(title: "The gateway") var gateway: GatewayAddress
    @OptionGroup var form: OutputForm

    func validate() throws {
        guard Device.isID(id) else { throw ValidationError("\"\(id)\" is no id: 1 to 128 of A-Z a-z 0-9 . _ : -.") }
        _ = try tokens.map(MessageOptions.deviceToken)
    }

    func run() async throws {
        let body = JSONValue.object(try request()).bytes
        let path = DevicesClient.path(id)
        try await DevicesClient.use(gateway) { devices in
            let answer = try await devices.call { (client) throws(HTTPFailure) in
                merge ? try await client.patch(path, body) : try await client.put(path, body)
            }
            if form.isJSON {
                Shell.print(answer.json)
            } else {
                let word = answer.status == 201 ? "registered" : merge ? "changed" : "replaced"
                Shell.print("\(word) \(id)")
            }
        }
    }

    private func request() throws -> JSONObject {
        var device = JSONObject()
        device["user"] = user.map { .string($0) }
        device["platform"] = platform.map { .string($0) }
        device["locale"] = locale.map { .string($0) }
        device["app_version"] = appVersion.map { .string($0) }
        device["time_zone"] = timeZone.map { .string($0) }
        if !tags.isEmpty { device["tags"] = .array(tags.map { .string($0) }) }
        var list = JSONObject()
        for (slot, token) in try tokens.map(MessageOptions.deviceToken) {
            guard list[slot] == nil else { throw ValidationError("A device has one token of \(slot).") }
            list[slot] = .string(token)
        }
        if !list.isEmpty { device["tokens"] = .object(list) }
        return device
    }
}
