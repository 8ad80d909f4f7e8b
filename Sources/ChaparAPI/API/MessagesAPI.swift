package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `POST /v1/backends/{name}/messages/cancel`: cancels messages by the platform's own ids, or recalls them from a
/// user's devices.
///
/// It calls the platform while the caller waits, within ``SyncEndpoint``'s deadline; the store's deliveries do not
/// change.
package struct MessagesAPI: Sendable {
    /// The most messages in a request.
    private static let maximum = 100

    let endpoint: SyncEndpoint

    /// Creates the endpoint, which calls platforms through `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private enum Field: Int, RequestField {
        case ids, user, all
        static let names = ["ids", "user", "all"]
    }

    /// The abilities of a platform concerning accepted messages.
    private struct Ability: Sendable {
        var cancellation: (any MessageCanceller)?
        var recall: (any MessageRecaller)?
    }

    /// The messages that a request selects.
    private struct Selection {
        var ids: [String]?
        var user: String?
        var isAll = false
    }

    /// Cancels or recalls messages.
    package func cancel(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        try scope.allowParameters(["app"])
        let backend = try scope.backend(name, "takes no messages back") { backend -> Ability? in
            let ability = Ability(cancellation: backend.cancellation, recall: backend.recall)
            return ability.cancellation == nil && ability.recall == nil ? nil : ability
        }
        let selection = try await read(request, scope, backend.ability)
        if let user = selection.user, let recall = backend.ability.recall {
            let ids = selection.ids
            let isTaken = try await endpoint.call { () throws(PushError) in try await recall.recall(ids, from: user) }
            return Response.json { writer in
                writer.field("backend", backend.name)
                writer.field("requested", isTaken)
            }
        }
        guard let cancellation = backend.ability.cancellation else { throw Problem(RequestIssues()) }
        return try await cancel(selection.ids ?? [], cancellation, backend.name)
    }

    private func read(
        _ request: Request,
        _ scope: RequestScope,
        _ ability: Ability
    ) async throws(Problem) -> Selection {
        var selection = Selection()
        var seen: Set<Int> = []
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            seen.insert(field.rawValue)
            switch field {
            case .user: selection.user = try scanner.identifier(&issues, "#/user", limit: Device.maximumNameBytes)
            case .all: selection.isAll = try scanner.flag(&issues, "#/all") ?? false
            case .ids:
                var ids: [String] = []
                var count = 0
                try scanner.elements(&issues, "#/ids") { (scanner, issues, index) throws(JSONSyntaxError) in
                    count = index + 1
                    guard count <= Self.maximum else { return try scanner.skip() }
                    if let id = try scanner.identifier(&issues, "#/ids/\(index)", limit: 256) { ids.append(id) }
                }
                if count > Self.maximum { issues.add("#/ids", "too_many_ids", "At most \(Self.maximum).") }
                selection.ids = ids
            }
        } check: { issues in
            guard issues.isEmpty else { return }
            if ability.recall == nil {
                let sentence = "This platform cancels by a message's id alone."
                if seen.contains(Field.user.rawValue) { issues.add("#/user", "unsupported", sentence) }
                if seen.contains(Field.all.rawValue) { issues.add("#/all", "unsupported", sentence) }
            } else if ability.cancellation == nil, selection.user == nil {
                issues.add("#/user", "missing", "This platform asks the devices of one user: say whose.")
            }
            if selection.isAll == (selection.ids != nil) {
                issues.add("#/ids", "missing", "Give the ids of messages, or \"all\": true for all of a user.")
            } else if selection.ids?.isEmpty ?? false {
                issues.add("#/ids", "empty", "Name at least one message.")
            }
            if selection.isAll, selection.user == nil {
                issues.add("#/all", "needs_user", "All messages are taken away from one user only: say whose.")
            }
        }
        return selection
    }

    private func cancel(
        _ ids: [String],
        _ cancellation: any MessageCanceller,
        _ name: String
    ) async throws(Problem) -> Response {
        let calls = ids.map { id in
            PlatformCancellation.Call(backend: name, deliveries: 1) { () throws(PushError) in
                try await cancellation.cancel(platformID: id) ? .cancelled : .tooLate
            }
        }
        let tally = await PlatformCancellation.carryOut(calls, endpoint)
        if tally.failed == ids.count, let error = tally.errors.first?.error { throw Problem(error) }
        return Response.json { writer in
            writer.field("backend", name)
            writer.name("platform")
            tally.write(to: &writer)
        }
    }
}
