import Foundation
import ChaparCore
import ChaparTesting
import Synchronization

/// Bell itself, as a script: strict enough to refuse what the platform would refuse.
final class BellPlatform: Sendable {
    static let id = "ms-app://1"
    static let secret = "bell-secret-5f"

    struct State {
        var tokens: Set<String> = []
        var issued = 0
        var taken = 0
        var disturbance: BackendConformance.Disturbance?
        var isRefusing = false
        var pause: Duration?
    }

    let state = Mutex(State())

    /// A channel; its token decides what becomes of a message.
    static func channel(_ token: String, host: Int = 0) -> Recipient {
        .token(DeviceToken("https://h\(host).\(BellBackend.domain)/?token=\(token)", service: .bell))
    }

    func answer(_ call: ScriptedTransport.Sent) -> Result<HTTPAnswer, HTTPFailure> {
        state.withLock { state in
            let isLogin = call.endpoint == BellBackend.login.endpoint
            if state.disturbance == .unreachable { return .failure(HTTPFailure(.notProcessed, .connect, "no answer")) }
            if state.disturbance == .unreadable {
                return .success(HTTPAnswer(status: 200, body: Array("<html>".utf8)))
            }
            let answer = isLogin ? Self.login(call, &state) : Self.push(call, &state)
            switch state.disturbance {
            case .lostAnswer?: return .failure(HTTPFailure(.unknown, .connectionLost, "no answer"))
            case .silence? where !isLogin: return .failure(HTTPFailure(.unknown, .deadline, "no answer"))
            default: return .success(answer)
            }
        }
    }

    private static func login(_ call: ScriptedTransport.Sent, _ state: inout State) -> HTTPAnswer {
        let form =
            "grant_type=client_credentials&scope=\(BellBackend.domain)&client_id=ms-app%3A%2F%2F1&client_secret=\(secret)"
        guard call.path == BellBackend.login.path, call.text == form, !state.isRefusing else {
            return HTTPAnswer(status: 401, body: Array(#"{"error":"invalid_client"}"#.utf8))
        }
        state.issued += 1
        let token = "access-\(state.issued)"
        state.tokens.insert(token)
        let body: JSONValue = ["access_token": .string(token), "token_type": "bearer", "expires_in": 86_400]
        return HTTPAnswer(status: 200, body: body.bytes)
    }

    private static func push(_ call: ScriptedTransport.Sent, _ state: inout State) -> HTTPAnswer {
        let token = call.header("authorization").map { String($0.dropFirst("Bearer ".count)) } ?? ""
        guard state.tokens.contains(token), !state.isRefusing else { return HTTPAnswer(status: 401) }
        if let pause = state.pause {
            return HTTPAnswer(status: 406, headers: [HTTPHeader("retry-after", "\(pause.components.seconds)")])
        }
        guard call.header("x-bell-type") == "bell/toast", call.header("x-bell-tag") != nil, isToast(call.text) else {
            return HTTPAnswer(status: 400)
        }
        if call.path.contains("gone") { return HTTPAnswer(status: 410) }
        if call.path.contains("dropped") {
            return HTTPAnswer(status: 200, headers: [HTTPHeader("x-bell-status", "dropped")])
        }
        state.taken += 1
        let fields = [HTTPHeader("x-bell-status", "received"), HTTPHeader("x-bell-msg-id", "msg-\(state.taken)")]
        return HTTPAnswer(status: 200, headers: fields)
    }

    /// Whether a text is `<toast>` with one or two `<text>` whose characters are escaped.
    private static func isToast(_ text: String) -> Bool {
        guard text.hasPrefix("<toast><text>"), text.hasSuffix("</text></toast>") else { return false }
        let inner = text.dropFirst("<toast><text>".count).dropLast("</text></toast>".count)
        return String(inner).components(separatedBy: "</text><text>").allSatisfy { part in
            let rest = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"].reduce(part) { $0.replacing($1, with: "") }
            return !rest.contains { "&<>".contains($0) }
        }
    }
}
