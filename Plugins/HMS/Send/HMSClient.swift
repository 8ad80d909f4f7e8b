import Foundation
import ChaparCore

/// Sends single signed calls to the push API: topics, tokens, probes.
///
/// A call refused for its credential is sent once more with a fresh one.
struct HMSClient: Sendable {
    let pool: any HTTPPool
    let auth: any AuthStrategy
    let endpoint: HTTPEndpoint
    let time: any TimeSource

    static let template = HTTPCallTemplate(
        method: "POST",
        headers: [
            HTTPHeader("content-type", "application/json;charset=utf-8"), HTTPHeader("accept", "application/json"),
        ]
    )

    /// Sends a call, and returns the body of its answer with Huawei's code, for any code.
    func call(
        _ path: String,
        _ body: JSONValue,
        pushType: Int? = nil
    ) async throws(PushError) -> (answer: HMSAnswer, body: JSONValue) {
        let scene = pushType.map { [HTTPHeader("push-type", String($0))] } ?? []
        var isSecond = false
        while true {
            let credential = try await auth.credential(for: endpoint)
            let raw: HTTPAnswer
            do throws(HTTPFailure) {
                raw = try await pool.send(
                    HTTPCall(Self.template, path: path, headers: credential.httpHeaders + scene, body: body.bytes)
                )
            } catch {
                throw PushError(.unavailable, error.detail, reason: error.cause.reason)
            }
            let answer = HMSAnswer(raw, now: time.now)
            let isUnauthorized = answer.code.map { $0.hasPrefix("8020") } ?? (answer.status == 401)
            if isUnauthorized {
                let decision = await auth.refused(credential, status: answer.status, reason: answer.code)
                if !isSecond, decision == .retry {
                    isSecond = true
                    continue
                }
            }
            return (answer, (try? JSONValue(parsing: raw.body)) ?? .null)
        }
    }

    /// Returns the body of a message to one token that Huawei checks and does not send.
    static func probe(token: String) -> [UInt8] {
        let body: JSONValue = [
            "validate_only": true,
            "message": [
                "android": ["ttl": "1s", "urgency": "NORMAL"], "data": "{}", "token": [.string(token)],
            ],
        ]
        return body.bytes
    }
}
