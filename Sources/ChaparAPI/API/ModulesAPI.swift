internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparComposition
internal import ChaparModules
internal import ChaparQueue

/// The path of requests to the modules that plugins add to the API (``ChaparModules/GatewayModule``), and of the
/// modules to the gateway.
///
/// Called by ``GatewayResponder`` for paths of a module. A module sends through ``Gate``, under the caller's key and
/// limits, like any other caller.
package struct ModulesAPI: Sendable {
    /// The largest body for a module, in bytes.
    static let maximumBody = 1 << 20

    package let notifications: NotificationsAPI

    /// Creates the path; `notifications` accepts what modules send.
    package init(notifications: NotificationsAPI) {
        self.notifications = notifications
    }

    /// Returns the routes of a configured module for a path; nil when there are none.
    package func find(_ path: Substring, _ snapshot: APISnapshot) -> RouteTable.Match? {
        for module in snapshot.modules where path.hasPrefix(module.prefix) {
            guard let found = module.endpoint(path) else { continue }
            let routes = found.methods.sorted { $0.key < $1.key }.compactMap { name, access -> Route? in
                guard let method = HTTPRequest.Method(rawValue: name) else { return nil }
                return Route(method, found.pattern, Route.Access(access)) { request, _, scope throws(Problem) in
                    try await answer(request, module, found.app, changes: access == .admin, scope)
                }
            }
            return RouteTable.Match(path: found.pattern, routes: routes, values: [])
        }
        return nil
    }

    private func answer(
        _ request: Request,
        _ module: any GatewayModule,
        _ app: String?,
        changes: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        if let app {
            guard scope.snapshot.mayUse(appNamed: app, scope.caller) else { throw .notFound("There is no such app.") }
            // A module's data belong to the app, and to no backend.
            guard !changes || scope.snapshot.mayChange(appNamed: app, scope.caller) else {
                throw .reachesFurther("Such a change")
            }
        }
        let method = request.method == .head ? HTTPRequest.Method.get : request.method
        guard method != .get else { return try await call(module, request, method, [], scope) }
        guard !notifications.state.isDraining else { throw .draining }
        try RequestBodyReader.requireJSON(scope.fields)
        let reader = RequestBodyReader(admission: notifications.admission, scope, limit: Self.maximumBody)
        return try await reader.withBody(of: request) { (body) throws(Problem) in
            try await call(module, request, method, body, scope)
        }
    }

    private func call(
        _ module: any GatewayModule,
        _ request: Request,
        _ method: HTTPRequest.Method,
        _ body: [UInt8],
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        let moduleRequest = ModuleRequest(
            method: method.rawValue,
            path: String(scope.path),
            query: try scope.parameters(),
            headers: request.headers.map { HTTPHeader($0.name.canonicalName, $0.value) },
            body: body
        )
        let answer: ModuleAnswer
        do throws(ModuleProblem) {
            answer = try await module.answer(moduleRequest, through: Gate(notifications: notifications, scope: scope))
        } catch {
            throw Problem(error)
        }
        var fields: HTTPFields = [.xContentTypeOptions: "nosniff"]
        for field in answer.headers {
            guard let name = HTTPField.Name(field.name) else { continue }
            fields[name] = field.value
        }
        return Response(
            status: HTTPResponse.Status(code: answer.status),
            headers: fields,
            body: ResponseBody(bytes: answer.body)
        )
    }

    /// The gateway as a module sees it, for one request.
    private struct Gate: ModuleGate {
        let notifications: NotificationsAPI
        let scope: RequestScope

        private var gateway: GatewaySnapshot { scope.gateway }

        var backends: [String] { gateway.backends.map(\.name) }

        func devices(
            of app: String,
            after cursor: DeviceCursor?,
            limit: Int
        ) async throws(PushError) -> DevicePage {
            let apps = gateway.apps
            guard scope.snapshot.mayUse(appNamed: app, scope.caller),
                let own = apps.count > 1 ? apps.first(where: { $0.rawValue == app }) : apps.first ?? .default
            else {
                throw PushError(.invalidRequest, "no backend is of the app \(app)", reason: "unknown_app")
            }
            do throws(StoreError) {
                let query = DeviceQuery(app: own)
                return try await notifications.state.devices.list(query, after: cursor, limit: limit)
            } catch {
                throw Self.failed(error)
            }
        }

        func backend(for device: Device, among names: [String]?) -> String? {
            let routing = gateway.routing(of: device.app)
            guard let names else { return try? routing.routing(for: device, .automatic).plan.backends.first }
            return names.first { (try? routing.routing(for: device, .backend($0))) != nil }
        }

        func accept(_ notification: JSONObject, idempotencyKey: String) async throws(PushError) -> NotificationID {
            let own = RequestScope(
                snapshot: scope.snapshot,
                caller: scope.caller,
                path: "/v1/notifications",
                query: "",
                fields: [:]
            )
            do throws(Problem) {
                let answer = try await notifications.accept(
                    JSONValue.object(notification).bytes,
                    try IdempotencyKey([idempotencyKey]),
                    own
                )
                guard let id = answer.id.flatMap({ NotificationID($0) }) else { throw .notFound("no id") }
                return id
            } catch {
                let fields = error.errors.map { "\($0.pointer): \($0.detail)" }
                let message = ([error.title] + (fields.isEmpty ? [error.detail ?? ""] : fields)).joined(separator: "; ")
                throw PushError(
                    error.isRetryable ? .unavailable : .invalidRequest,
                    message,
                    reason: error.code,
                    retryAfter: error.retryAfter
                )
            }
        }

        func states(of notification: NotificationID) async throws(PushError) -> [String: DeliveryState] {
            var states: [String: DeliveryState] = [:]
            var after: Int64?
            while true {
                let page: [StoredDelivery]
                do throws(StoreError) {
                    page = try await notifications.state.store.deliveries(of: notification, after: after, limit: 500)
                } catch {
                    throw Self.failed(error)
                }
                for delivery in page {
                    guard case .device(let key) = delivery.recipient else { continue }
                    states[AppName(ofDevice: key).name(key)] = delivery.state
                }
                guard page.count == 500, let last = page.last else { return states }
                after = last.id
            }
        }

        private static func failed(_ error: StoreError) -> PushError {
            PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
        }
    }
}

extension Route.Access {
    /// Converts the access of a module's endpoint.
    fileprivate init(_ access: ModuleEndpoint.Access) {
        switch access {
        case .open: self = .open
        case .read: self = .scope(.read)
        case .admin: self = .scope(.admin)
        }
    }
}
