internal import HTTPTypes
internal import Hummingbird
package import ChaparDelivery
package import ChaparAPI
internal import ChaparCore
internal import Synchronization

/// The two documents that are built into the program: the API's description and the dashboard.
package final class StaticDocuments: Sendable {
    private let build: BuildInfo
    private let routes: [Route]
    /// The description, made at the first request: it is long, and most processes are never asked for it.
    private let description = Mutex<[UInt8]?>(nil)

    /// Prepares the documents; the required access comes from the routes.
    init(build: BuildInfo, routes: [Route]) {
        self.build = build
        self.routes = routes
    }

    /// Returns the description with the version and, in each operation, the required access.
    package static func description(_ build: BuildInfo, _ routes: [Route]) -> [UInt8] {
        guard case .object(var root)? = try? JSONValue(parsing: EmbeddedDocuments.apiDescription),
            var info = root["info"]?.objectValue, var paths = root["paths"]?.objectValue
        else { return EmbeddedDocuments.apiDescription }
        info["version"] = .string(build.version)
        for route in routes {
            let method = route.method.rawValue.lowercased()
            guard var item = paths[route.path]?.objectValue, var operation = item[method]?.objectValue else { continue }
            operation["security"] = security(of: route.access)
            item[method] = .object(operation)
            paths[route.path] = .object(item)
        }
        root["info"] = .object(info)
        root["paths"] = .object(paths)
        return JSONValue.object(root).bytes
    }

    /// Returns the security section: a key with the scope, or no key with `auth.keyless`; nothing for an open route.
    private static func security(of access: Route.Access) -> JSONValue {
        switch access {
        case .open: [[:]]
        case .anyKey: [["apiKey": []], [:]]
        case .scope, .either: .array(access.scopes.map { ["apiKey": [.string($0.rawValue)]] } + [[:]])
        }
    }

    /// Answers with the API's description.
    func describe() -> Response {
        let bytes = description.withLock { known in
            let bytes = known ?? Self.description(build, routes)
            known = bytes
            return bytes
        }
        return Response(
            status: .ok,
            headers: [.contentType: "application/openapi+json;version=3.1", .cacheControl: "max-age=60"],
            body: ResponseBody(bytes: bytes)
        )
    }

    /// Answers with the dashboard's page.
    func page(_ request: Request) -> Response { DashboardPage.shared.answer(request.head) }
}
