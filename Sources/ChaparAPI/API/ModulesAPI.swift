internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparComposition
internal import ChaparModules
internal import ChaparQueue

/// Passes requests to the modules that plugins add to the API (``ChaparModules/GatewayModule``), and calls of the
/// modules to the gateway.
///
/// Called by ``GatewayResponder`` for paths of a module. A module sends through ``Gate``, under the caller's key and
/// limits, like any other caller.
package struct ModulesAPI: Sendable {
    package let notifications: NotificationsAPI
    private let batches: BatchAPI
    private let operators: OperatorAPI

    /// Creates the path; `notifications` and `batches` accept what modules send, `operators` has the metrics.
    package init(notifications: NotificationsAPI, batches: BatchAPI, operators: OperatorAPI) {
        self.notifications = notifications
        self.batches = batches
        self.operators = operators
    }

    /// Returns the routes of a configured module for a path; nil when there are none.
    package func find(_ path: Substring, _ snapshot: APISnapshot) -> RouteTable.Match? {
        for module in snapshot.modules where Self.isUnder(module.prefix, path) {
            guard let found = module.endpoint(path) else { continue }
            let routes = found.methods.sorted { $0.key < $1.key }.compactMap { name, access -> Route? in
                guard let method = HTTPRequest.Method(rawValue: name) else { return nil }
                return Route(method, found.pattern, Route.Access(access)) { request, _, scope throws(Problem) in
                    try await answer(request, module, found, changes: access == .admin, scope)
                }
            }
            return RouteTable.Match(
                path: found.pattern,
                routes: routes,
                values: [],
                module: module,
                takesBasicCredentials: found.takesBasicCredentials
            )
        }
        return nil
    }

    /// Whether a path is a module's: below its prefix, or the prefix without the slash at its end.
    private static func isUnder(_ prefix: String, _ path: Substring) -> Bool {
        path.hasPrefix(prefix) || path.utf8.count + 1 == prefix.utf8.count && prefix == path + "/"
    }

    private func answer(
        _ request: Request,
        _ module: any GatewayModule,
        _ endpoint: ModuleEndpoint,
        changes: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        if let app = endpoint.app {
            guard scope.snapshot.mayUse(appNamed: app, scope.caller) else { throw .notFound("There is no such app.") }
            // A module's data belong to the app, and to no backend.
            guard !changes || scope.snapshot.mayChange(appNamed: app, scope.caller) else {
                throw .reachesFurther("Such a change")
            }
        }
        let method = request.method == .head ? HTTPRequest.Method.get : request.method
        guard method != .get else { return try await call(module, request, method, [], scope) }
        guard !notifications.state.isDraining else { throw .draining }
        if !endpoint.takesAnyContentType { try RequestBodyReader.requireJSON(scope.fields) }
        let reader = RequestBodyReader(admission: notifications.admission, scope, limit: endpoint.largestBody)
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
            let gate = Gate(notifications: notifications, batches: batches, operators: operators, scope: scope)
            answer = try await module.answer(moduleRequest, through: gate)
        } catch {
            throw Problem(error)
        }
        return Response(answer)
    }

    /// The gateway as a module sees it, for one request.
    private struct Gate: ModuleGate {
        let notifications: NotificationsAPI
        let batches: BatchAPI
        let operators: OperatorAPI
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

        func accept(
            _ notifications: [JSONObject],
            idempotencyKey: String?,
            request: [UInt8]
        ) async throws(ModuleProblem) -> [ModuleAcceptance] {
            let own = RequestScope(
                snapshot: scope.snapshot,
                caller: scope.caller,
                path: scope.path,
                query: "",
                fields: [:],
                peer: scope.peer
            )
            let body: JSONValue = ["notifications": .array(notifications.map { .object($0) })]
            do throws(Problem) {
                guard !batches.state.isDraining else { throw .draining }
                var key = try IdempotencyKey(idempotencyKey.map { [$0] } ?? [])
                key?.request = request
                return Self.acceptances(in: try await batches.enqueue(body.bytes, key, own).body)
            } catch {
                guard error.notifications.isEmpty else {
                    return error.notifications.map { .refused(Self.sentence($0.title, $0.errors)) }
                }
                throw ModuleProblem(error)
            }
        }

        /// Reads the answer to a batch.
        private static func acceptances(in answer: [UInt8]) -> [ModuleAcceptance] {
            let items = (try? JSONValue(parsing: answer))?["notifications"]?.arrayValue ?? []
            return items.map { item in
                if let id = item["id"]?.stringValue.flatMap({ NotificationID($0) }) { return .accepted(id) }
                let errors = (item["problem"]?["errors"]?.arrayValue ?? []).map { error in
                    Finding(
                        pointer: error["pointer"]?.stringValue ?? "#",
                        code: error["code"]?.stringValue ?? "",
                        detail: error["detail"]?.stringValue ?? ""
                    )
                }
                return .refused(sentence(item["problem"]?["title"]?.stringValue ?? "Refused", errors))
            }
        }

        /// Returns a refusal as one sentence: its fields with what is wrong with each, or the title.
        private static func sentence(_ title: String, _ errors: [Finding]) -> String {
            guard !errors.isEmpty else { return title }
            return errors.map { "\($0.code): \(field($0.pointer)): \($0.detail)" }.joined(separator: " ")
        }

        /// Returns a pointer into a batch as one into the notification: the module's caller did not write the batch.
        private static func field(_ pointer: String) -> String {
            let parts = pointer.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count > 3, parts[1] == "notifications" else { return pointer }
            return "#/" + parts[3...].joined(separator: "/")
        }

        func outcomes(
            of notifications: [NotificationID],
            within span: Duration
        ) async throws(PushError) -> [NotificationID: [ModuleDelivery]] {
            let state = self.notifications.state
            let end = ContinuousClock.now + span
            var pause = Duration.milliseconds(5)
            var open = notifications
            do throws(StoreError) {
                while !open.isEmpty {
                    var rest: [NotificationID] = []
                    for id in open {
                        let counts = try await state.store.notification(id)?.counts ?? [:]
                        if counts.contains(where: { $0.value > 0 && !$0.key.isFinal }) { rest.append(id) }
                    }
                    open = rest
                    let left = ContinuousClock.now.duration(to: end)
                    guard !open.isEmpty, left > .zero, !state.isDraining else { break }
                    // Each pause is longer than the one before: a delivery that ends at once is answered at once, and a
                    // long wait costs few reads.
                    guard (try? await Task.sleep(for: min(pause, left))) != nil else { break }
                    pause = min(pause * 3 / 2, .milliseconds(250))
                }
                var outcomes: [NotificationID: [ModuleDelivery]] = [:]
                for id in notifications { outcomes[id] = try await deliveries(of: id) }
                return outcomes
            } catch {
                throw Self.failed(error)
            }
        }

        private func deliveries(of id: NotificationID) async throws(StoreError) -> [ModuleDelivery] {
            var deliveries: [ModuleDelivery] = []
            var after: Int64?
            while true {
                let page = try await notifications.state.store.deliveries(of: id, after: after, limit: 500)
                for delivery in page {
                    deliveries.append(
                        ModuleDelivery(delivery.recipient, delivery.state, reason: Self.reason(of: delivery))
                    )
                }
                guard page.count == 500, let last = page.last else { return deliveries }
                after = last.id
            }
        }

        /// Returns why a delivery ended without acceptance.
        private static func reason(of delivery: StoredDelivery) -> String? {
            switch delivery.state {
            case .failed, .expired, .cancelled, .unknown:
                let attempts = StatusAPI.attempts(in: delivery.attemptLog)
                return attempts.reversed().lazy.compactMap { $0["reason"]?.stringValue }.first
                    ?? delivery.state.rawValue
            default: return nil
            }
        }

        func problem(with token: DeviceToken) -> String? {
            guard token.value.utf8.count <= AudienceReader.maximumTokenBytes else {
                return "malformed_token: it is longer than \(AudienceReader.maximumTokenBytes) bytes"
            }
            switch scope.snapshot.tokens.check(token) {
            case .success: return nil
            case .failure(let error): return "malformed_token: \(error.problem)"
            }
        }

        func metrics() async -> String {
            String(decoding: await operators.metrics(for: scope), as: UTF8.self)
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
        case .metrics: self = .scope(.metrics)
        case .send: self = .scope(.send)
        case .admin: self = .scope(.admin)
        }
    }
}

extension ModuleProblem {
    /// Converts a refusal of the gateway, for the module whose path was asked.
    init(_ problem: Problem) {
        self.init(
            problem.status.code,
            problem.code,
            problem.title,
            detail: problem.detail,
            errors: problem.errors,
            retryAfter: problem.retryAfter
        )
    }
}

extension Response {
    /// Makes the response of a module's answer, with further header fields of the gateway's.
    init(_ answer: ModuleAnswer, further: HTTPFields = [:]) {
        var fields = further
        fields[.xContentTypeOptions] = "nosniff"
        for field in answer.headers {
            guard let name = HTTPField.Name(field.name) else { continue }
            fields[name] = field.value
        }
        self.init(
            status: HTTPResponse.Status(code: answer.status),
            headers: fields,
            body: ResponseBody(bytes: answer.body)
        )
    }
}
