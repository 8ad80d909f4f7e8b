import ArgumentParser
import Foundation
import ChaparCore
import ChaparGateway

/// `chapar devices`: commands on the device registry of a running gateway.
struct DevicesCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        let program = GatewayProgram.current.name
        return CommandConfiguration(
            commandName: "devices",
            abstract: "List, show, change, import and export the devices of a gateway's registry.",
            discussion: """
                Every command talks to a running gateway: --url, and the key of the scope "devices" in --key-file or \
                $CHAPAR_KEY.

                  \(program) devices put phone-1 --user ali --token ios-apns:4f1c… --tag plan:pro --url http://127.0.0.1:8080
                  \(program) devices import people.csv --url http://127.0.0.1:8080
                  \(program) devices export --tag plan:pro --output pro.ndjson --url http://127.0.0.1:8080

                Exit codes: 0 done, 1 refused or not found, 2 usage, 4 done in part, 75 try later.
                """,
            subcommands: [
                DevicesListCommand.self, DevicesGetCommand.self, DevicesPutCommand.self, DevicesDeleteCommand.self,
                DevicesImportCommand.self, DevicesExportCommand.self,
                DevicesSubscriptionCommand.self, DevicesOperationsCommand.self, QuarantinedCommand.self,
                ReleaseCommand.self, DiscardCommand.self,
            ]
        )
    }
}

/// Calls to a gateway about devices; a failed call ends the command.
///
/// The commands below `devices` use it instead of a bare ``GatewayClient``: it first checks that the gateway answers at
/// all, and turns a problem into an exit code with a sentence.
struct DevicesClient {
    let client: GatewayClient

    /// Makes a client of the gateway that the flags name.
    ///
    /// Throws at once when nothing answers there.
    init(_ address: GatewayAddress) async throws {
        let client = try address.requiredClient()
        try await client.checkReachable()
        self.client = client
    }

    /// Runs `body` with a client of the gateway that the flags name, and closes it.
    static func use(_ address: GatewayAddress, _ body: (DevicesClient) async throws -> Void) async throws {
        let devices = try await DevicesClient(address)
        do {
            try await body(devices)
        } catch {
            await devices.client.close()
            throw error
        }
        await devices.client.close()
    }

    /// Returns the path of a device; an invalid id is sent as well, so that the gateway reports what is wrong with it.
    static func path(_ id: String) -> String {
        "/v1/devices/" + FormEncoding.encode(id)
    }

    /// Sends a call and returns its answer; throws a ``CommandFailure`` for any status other than 2xx.
    func call(
        _ send: (GatewayClient) async throws(HTTPFailure) -> GatewayClient.Answer
    ) async throws -> GatewayClient.Answer {
        let answer: GatewayClient.Answer
        do throws(HTTPFailure) {
            answer = try await send(client)
        } catch {
            throw client.unreachable(error)
        }
        if let failure = Self.failure(answer) { throw failure }
        return answer
    }

    /// Returns the failure that ends a command after an answer that is no success; nil for a success.
    static func failure(_ answer: GatewayClient.Answer) -> CommandFailure? {
        switch answer.status {
        case 200..<300: nil
        case 401, 403: CommandFailure("the gateway refused the key: \(answer.problem)", .usage)
        case 429, 500...: CommandFailure("the gateway cannot do it now: \(answer.problem)", .tryLater)
        default: CommandFailure(answer.problem)
        }
    }

    /// Returns a page of devices.
    func page(_ filter: DeviceFilter, limit: Int, after cursor: String?) async throws -> (
        items: [JSONValue], next: String?
    ) {
        let path = "/v1/devices?limit=\(limit)\(filter.query)" + (cursor.map { "&cursor=\($0)" } ?? "")
        let answer = try await call { (client) throws(HTTPFailure) in try await client.get(path) }
        return (answer.json["items"]?.arrayValue ?? [], answer.json["next"]?.stringValue)
    }
}

/// The flags that select devices.
struct DeviceFilter: ParsableArguments {
    @Option(help: "Devices of this user.")
    var user: String?

    @Option(help: "Devices with this tag.")
    var tag: String?

    @Option(help: "Devices of this platform: ios, android, harmony, web or x-name.")
    var platform: String?

    @Option(help: "Devices with a token of this service, such as ios-apns.")
    var service: String?

    /// The query parameters of a list, each with an `&` before it.
    var query: String {
        [("user", user), ("tag", tag), ("platform", platform), ("service", service)]
            .compactMap { name, value in value.map { "&\(name)=\(FormEncoding.encode($0))" } }
            .joined()
    }
}
