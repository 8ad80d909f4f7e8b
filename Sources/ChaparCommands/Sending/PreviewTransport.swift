import ChaparCore
import Synchronization

/// Takes calls in place of the network, so that `--dry-run` can show the requests to a platform.
///
/// Every call is answered with 200 and a body that any platform's client takes for a success. Header fields that carry
/// credentials are shown by name only.
final class PreviewTransport: PlayedTransport {
    fileprivate struct Taken {
        var call: HTTPCall
        var endpoint: HTTPEndpoint
        /// The names of the fields that a connection would add, such as `authorization`.
        var credentials: [String]
    }

    /// The calls in order, and the last one that was shown because no call carried the message's id or recipient.
    private let state = Mutex((calls: [Taken](), last: Taken?.none))

    func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
        PreviewPool(configuration, transport: self, answer: nil)
    }

    func answering(_ answer: HTTPAnswer) -> any HTTPTransport { Answering(preview: self, answer: answer) }

    /// Returns the call that carried a message, in a form to be shown; nil when there was none.
    ///
    /// The call is found by the message's id. If the platform's calls do not have the id, it is found by the recipient;
    /// a call with many messages is returned for each of them. If they have neither, it is the next call that is no
    /// `GET` and does not ask for a credential, else the last call that was returned in this way.
    func request(of id: MessageID, to recipient: Recipient) -> JSONValue? {
        let text = id.description
        let found = state.withLock { state -> Taken? in
            if let index = state.calls.firstIndex(where: { Self.carries($0, text) }) {
                return state.calls.remove(at: index)
            }
            if let call = state.calls.first(where: { Self.carries($0, recipient.platformText) }) { return call }
            if let index = state.calls.firstIndex(where: { $0.call.template.method != "GET" }) {
                state.last = state.calls.remove(at: index)
            }
            return state.last
        }
        return found.map(Self.shown)
    }

    /// Whether a call asks for a credential, as RFC 6749 has it.
    fileprivate static func isCredentialRequest(_ call: HTTPCall) -> Bool {
        let text = String(decoding: call.body, as: UTF8.self)
        return text.contains("grant_type=") || text.contains("\"grant_type\"")
    }

    /// This transport with a plugin's own yes.
    private struct Answering: HTTPTransport {
        let preview: PreviewTransport
        let answer: HTTPAnswer

        func pool(_ configuration: HTTPPoolConfiguration) throws(HTTPPoolError) -> any HTTPPool {
            PreviewPool(configuration, transport: preview, answer: answer)
        }
    }

    /// Keeps calls, but for requests for a credential.
    fileprivate func take(_ accepted: [Taken]) {
        state.withLock { $0.calls += accepted.filter { !Self.isCredentialRequest($0.call) } }
    }

    private static func carries(_ taken: Taken, _ text: String) -> Bool {
        let call = taken.call
        // A recipient may be the whole address.
        let headers = call.template.headers + call.headers
        return "\(taken.endpoint)\(call.path)" == text || headers.contains { $0.value == text }
            || call.path.contains(text) || String(decoding: call.body, as: UTF8.self).contains(text)
    }

    private static func shown(_ accepted: Taken) -> JSONValue {
        let call = accepted.call
        var headers = JSONObject()
        for name in accepted.credentials { headers[name] = "<secret>" }
        for header in call.template.headers + call.headers {
            headers[header.name] = .string(isSecret(header.name) ? "<secret>" : header.value)
        }
        let body = (try? JSONValue(parsing: call.body)) ?? .string(String(decoding: call.body, as: UTF8.self))
        return [
            "method": .string(call.template.method), "url": .string("\(accepted.endpoint)\(call.path)"),
            "headers": .object(headers), "body": withoutSecrets(body),
        ]
    }

    /// Returns a body without the credentials of its providers: RuStore's universal API has them there.
    private static func withoutSecrets(_ body: JSONValue) -> JSONValue {
        guard var object = body.objectValue, var providers = object["providers"]?.objectValue else { return body }
        for (name, value) in providers {
            guard var provider = value.objectValue, provider["auth_token"] != nil else { continue }
            provider["auth_token"] = "<secret>"
            providers[name] = .object(provider)
        }
        object["providers"] = .object(providers)
        return .object(object)
    }

    private static func isSecret(_ name: String) -> Bool {
        ["auth", "key", "token", "cookie", "secret"].contains { name.contains($0) }
    }
}

/// A pool that answers every call with 200 and sends nothing.
private final class PreviewPool: HTTPPool {
    /// The body of every answer: a success for the client of any platform and of its token endpoint.
    private static let answer = JSONValue.object([
        "access_token": "preview", "token_type": "Bearer", "expires_in": 3600, "name": "preview/messages/preview",
        "code": "80000000", "msg": "Success", "requestId": "preview",
    ]).bytes

    private let configuration: HTTPPoolConfiguration
    private let transport: PreviewTransport
    /// The plugin's own yes to a message.
    private let answer: HTTPAnswer?

    init(_ configuration: HTTPPoolConfiguration, transport: PreviewTransport, answer: HTTPAnswer?) {
        self.configuration = configuration
        self.transport = transport
        self.answer = answer
    }

    func send(_ calls: [HTTPCall], report: @escaping @Sendable ([HTTPReply]) -> Void) async {
        let connection = HTTPConnectionInfo(id: 1, openedAt: .now)
        let credentials = (try? configuration.policy?.headers(for: connection))?.map(\.name) ?? []
        transport.take(
            calls.map { .init(call: $0, endpoint: configuration.endpoint, credentials: credentials) }
        )
        let standard = HTTPAnswer(status: 200, body: Self.answer)
        report(
            calls.enumerated().map { index, call in
                let isGrant = PreviewTransport.isCredentialRequest(call)
                let answer = isGrant ? standard : self.answer ?? standard
                return HTTPReply(index: index, result: .success(answer), connection: 0)
            }
        )
    }

    var status: HTTPPoolStatus { HTTPPoolStatus() }
    func replaceConnections() {}
    func shutdown(grace: Duration) async {}
}

extension Recipient {
    /// The text by which a platform's request names the recipient.
    fileprivate var platformText: String {
        switch self {
        case .token(let token): token.value
        case .device(let text), .user(let text), .platformID(let text), .topic(let text): text
        case .tags(let filter): (filter.all + filter.any + filter.none).first ?? ""
        case .everyone: "/"  // Any request.
        }
    }
}
