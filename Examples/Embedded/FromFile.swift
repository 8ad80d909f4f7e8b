// The same gateway from a configuration file, of which every mistake is said at once.
import Foundation
import Logging
import ChaparAPNs
import ChaparCore
import ChaparGateway
import ChaparHTTP
import ChaparSandbox
import ChaparStoreSQLite

enum FromFile {
    static func gateway(
        _ path: String,
        _ client: PushClient,
        _ store: SQLiteStore,
        _ logger: Logger
    ) async throws -> Gateway {
        let loader = ConfigurationLoader(registry: try BackendRegistry([.apns]))
        let loaded = try await loader.load(path, store: store, logger: logger) { name in
            BackendContext(name: name, http: client.http, logger: logger)
        }
        return try await Gateway.assemble(
            GatewaySnapshot(configuration: loaded.configuration, backends: loaded.backends),
            store: store,
            servesAPI: false,
            logger: logger
        )
    }

    /// Writes a file that works with the simulator of Apple, and says where it is.
    static func write(_ sandbox: Sandbox) throws -> String {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "embedded-\(ProcessInfo.processInfo.processIdentifier)"
        )
        return try sandbox.writeFiles(to: folder, kinds: ["apns"], sections: []).configurationFile.path
    }
}
