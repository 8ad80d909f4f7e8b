internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore

/// `/v1/backends/{name}/channels`: creates, lists and deletes the broadcast channels that a platform keeps for an app.
///
/// It calls the platform while the caller waits; it needs the backend's ability `channels`. Nothing is stored here.
package struct ChannelsAPI: Sendable {
    let endpoint: SyncEndpoint

    /// Creates the endpoints, which call platforms through `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private enum Field: Int, RequestField {
        case storage
        static let names = ["message_storage"]
    }

    private func backend(_ step: Substring, _ scope: RequestScope) throws(Problem) -> AbleBackend<any ChannelManager> {
        try scope.allowParameters(["app"])
        return try scope.backend(step, "keeps no channels") { $0.channels }
    }

    /// Answers with the ids of all channels.
    package func list(_ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        let backend = try backend(name, scope)
        let channels = backend.ability
        let ids = try await endpoint.call { () throws(PushError) in try await channels.list() }
        return Response.json(capacity: 32 * ids.count + 64) { writer in
            writer.field("backend", backend.name)
            writer.name("channels")
            writer.beginArray()
            for id in ids { writer.string(id) }
            writer.endArray()
        }
    }

    /// Creates a channel.
    package func create(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        let backend = try backend(name, scope)
        let channels = backend.ability
        let names = ChannelStorage.allCases.map(\.rawValue).joined(separator: " or ")
        var storage: ChannelStorage?
        var isThere = false
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, _) throws(JSONSyntaxError) in
            isThere = true
            guard let value = try scanner.identifier(&issues, "#/message_storage", limit: 32) else { return }
            storage = ChannelStorage(rawValue: value)
            if storage == nil { issues.add("#/message_storage", "unknown_storage", "Write \(names).") }
        } check: { issues in
            if !isThere { issues.add("#/message_storage", "missing", "Write \(names): it cannot be changed later.") }
        }
        let chosen = storage ?? .newest
        let id = try await endpoint.call { () throws(PushError) in try await channels.create(storage: chosen) }
        var response = Self.answer(backend.name, id, chosen, .created)
        response.headers[.location] = "/v1/backends/\(backend.name)/channels/\(FormEncoding.encode(id))"
        return response
    }

    /// Answers with the settings of a channel.
    package func show(_ values: [Substring], _ scope: RequestScope) async throws(Problem) -> Response {
        let backend = try backend(values[0], scope)
        let channels = backend.ability
        let id = SyncEndpoint.decoded(values[1])
        let storage = try await endpoint.call { () throws(PushError) in try await channels.read(id) }
        guard let storage else { throw Self.unknown }
        return Self.answer(backend.name, id, storage)
    }

    /// Deletes a channel.
    package func delete(_ values: [Substring], _ scope: RequestScope) async throws(Problem) -> Response {
        let channels = try backend(values[0], scope).ability
        let id = SyncEndpoint.decoded(values[1])
        let wasThere = try await endpoint.call { () throws(PushError) in try await channels.delete(id) }
        guard wasThere else { throw Self.unknown }
        return Response(status: .noContent)
    }

    private static let unknown = Problem.notFound("The platform knows no channel of this id in this environment.")

    private static func answer(
        _ backend: String,
        _ id: String,
        _ storage: ChannelStorage,
        _ status: HTTPResponse.Status = .ok
    ) -> Response {
        Response.json(status) { writer in
            writer.field("backend", backend)
            writer.field("id", id)
            writer.field("message_storage", storage.rawValue)
        }
    }
}
