import ArgumentParser
import Foundation
import Logging
import ChaparCore
import ChaparGateway
import ChaparStoreSQLite

/// `chapar openapi`: prints the description of the HTTP API, as a gateway of this version serves it.
struct OpenAPICommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "openapi",
        abstract: "Print the OpenAPI document of the gateway's HTTP API.",
        discussion:
            "The same document as GET /openapi.json of a running gateway of this version; needs no configuration."
    )

    @OptionGroup var form: OutputForm

    func run() async throws {
        let folder = try TemporaryFolder(prefix: "chapar-openapi")
        defer { folder.remove() }
        let silent = Logger(label: "chapar") { _ in SwiftLogNoOpLogHandler() }
        let options = SQLiteStoreOptions(path: folder.url.appending(path: "empty.db").path)
        let store = try SQLiteStore(options, logger: silent)
        let document = try await APIDescription.openAPI(store: store, logger: silent)
        await store.close()
        form.isJSON ? Shell.print(document) : Shell.print(document.indented)
    }
}
