package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `/v1/backends/{name}/topics`: adds tokens to the topics that a platform keeps, removes and lists them.
///
/// It calls the platform while the caller waits; it needs the backend's ability `topics`. The registry is not changed.
package struct TopicsAPI: Sendable {
    let endpoint: SyncEndpoint

    /// Creates the endpoints, which call platforms through `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private func backend(_ step: Substring, _ scope: RequestScope) throws(Problem) -> AbleBackend<any TopicManager> {
        try scope.backend(step, "keeps no topics") { $0.topics }
    }

    /// Adds tokens to a topic, or removes them, with an outcome for each.
    package func change(
        _ request: Request,
        _ values: [Substring],
        joins: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> Response {
        try scope.allowParameters(["app"])
        let backend = try backend(values[0], scope)
        let topics = backend.ability
        let topic = SyncEndpoint.decoded(values[1])
        let list = try await TokenList(request, scope, endpoint, for: backend, of: topics.services)
        let tokens = list.tokens
        let outcomes = try await endpoint.call { () throws(PushError) in
            try await joins ? topics.subscribe(tokens, to: topic) : topics.unsubscribe(tokens, from: topic)
        }
        if let error = outcomes.commonFailure { throw Problem(error) }
        let answered = zip(list.entries, outcomes)
        return Response.json(capacity: 256) { writer in
            writer.field("backend", backend.name)
            writer.field("topic", topic)
            writer.field("tokens", tokens.count)
            writer.field("done", outcomes.count { if case .done = $0 { true } else { false } })
            writer.field("without_token", list.missed)
            writer.name("refused")
            writer.beginArray()
            for (entry, outcome) in answered { Self.write(outcome, of: entry, to: &writer) }
            writer.endArray()
            writer.warnings(list.warnings)
        }
    }

    private static func write(_ outcome: TokenOutcome, of entry: TokenList.Entry, to writer: inout JSONWriter) {
        let reason: String
        switch outcome {
        case .done: return
        case .dead(let value), .refused(let value): reason = value
        case .failed(let error): reason = error.reason ?? error.code.rawValue.replacing("-", with: "_")
        }
        writer.beginObject()
        writer.members(of: entry)
        writer.field("reason", reason)
        writer.name("dead")
        if case .dead = outcome { writer.bool(true) } else { writer.bool(false) }
        writer.name("retryable")
        if case .failed(let error) = outcome { writer.bool(error.isPassing) } else { writer.bool(false) }
        writer.endObject()
    }

    /// Answers with the topics of a registered device's tokens.
    package func show(_ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "device"])
        let backend = try backend(name, scope)
        let topics = backend.ability
        guard let id = scope.parameter("device") else {
            throw .badParameter("device", "say whose topics; a token is asked for by POST topics/lookup.")
        }
        let device = try await endpoint.device(backend.app.key(id))
        let tokens = device.tokens(of: topics.services, usableBy: backend.name)
        var found: [(token: DeviceToken, topics: [TopicMembership]?)] = []
        for token in tokens {
            found.append(
                (token, try await endpoint.call { () throws(PushError) in try await topics.topics(of: token) })
            )
        }
        return Response.json { writer in
            writer.field("backend", backend.name)
            writer.field("device", device.name)
            writer.name("tokens")
            writer.beginArray()
            for (token, topics) in found {
                writer.beginObject()
                writer.field("service", token.service.rawValue)
                writer.field("fingerprint", TokenFingerprint.of(token.value))
                writer.members(of: topics)
                writer.endObject()
            }
            writer.endArray()
        }
    }

    /// Answers with the topics of a token.
    ///
    /// The token is in the body, since the address is logged.
    package func lookUp(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        try scope.allowParameters(["app"])
        let backend = try backend(name, scope)
        let topics = backend.ability
        let token = try await endpoint.token(of: request, scope, for: backend, of: topics.services)
        let found = try await endpoint.call { () throws(PushError) in try await topics.topics(of: token) }
        return Response.json { writer in
            writer.field("backend", backend.name)
            writer.field("service", token.service.rawValue)
            writer.members(of: found)
        }
    }
}

extension [TokenOutcome] {
    /// The error of the first token, when no token had a usable answer: then the call failed, not a token.
    var commonFailure: PushError? {
        guard case .failed(let error)? = first else { return nil }
        return allSatisfy { if case .failed = $0 { true } else { false } } ? error : nil
    }
}

extension JSONWriter {
    /// Writes whether a platform knows a token, and the token's topics.
    mutating func members(of topics: [TopicMembership]?) {
        field("known", topics != nil)
        name("topics")
        array(of: topics ?? [])
    }

    /// Writes topics, with the day of joining if the platform gives it.
    mutating func array(of topics: [TopicMembership]) {
        beginArray()
        for topic in topics {
            beginObject()
            field("name", topic.name)
            field("since", topic.since)
            endObject()
        }
        endArray()
    }
}
