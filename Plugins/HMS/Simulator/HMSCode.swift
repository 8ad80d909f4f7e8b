internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// A code of the push API with Huawei's message.
struct HMSCode: Error, Sendable, Hashable {
    let code: String
    let message: String

    init(_ code: String, _ message: String) {
        self.code = code
        self.message = message
    }

    static let success = HMSCode("80000000", "Success")
    static let badToken = HMSCode("80200001", "Oauth authentication error")
    static let tokenExpired = HMSCode("80200003", "Oauth Token expired")
    static let jwtExpired = HMSCode("80200005", "JWT token expired")
    static let wrongApp = HMSCode("80300002", "The current app does not have permission to send push messages")
    static let allTokensBad = HMSCode("80300007", "All the tokens are invalid")
    static let tooLarge = HMSCode("80300008", "The message body size (excluding the token) exceeds the default value")
    static let tokenCount = HMSCode("80300010", "The number of tokens in the message body exceeds the default value")
    static let noUrgentRight = HMSCode("80300011", "You are not authorized to send high-level notification messages")
    static let foreignToken = HMSCode("80300028", "Token app mismatch with specify app.")
    static let jwtTooLong = HMSCode("80300036", "The validity period of the JWT token is too long")
    static let badCollapseKey = HMSCode("80100013", "Collapse_key message field error")

    /// Returns the code for an invalid parameter, which it names.
    static func parameter(_ name: String) -> HMSCode { HMSCode("80100001", "Incorrect message parameter: \(name)") }
    /// Returns the code for an invalid structure.
    static func structure(_ what: String) -> HMSCode { HMSCode("80100003", "Incorrect message structure: \(what)") }

    /// Returns the code for a v3 payload that does not fit its scene.
    static func payload(_ what: String) -> HMSCode { HMSCode("80100003", "Illegal payload, \(what).") }

    /// Whether it concerns the credential, and so has its own HTTP status.
    var isAboutCredential: Bool { code.hasPrefix("8020") }
}

/// Answers in Huawei's form.
///
/// The handlers of pushes and of tokens decide on the answer; this writes it: code, message, request id, and the JSON
/// inside the message that names refused tokens.
enum HMSAnswers {
    static func make(_ code: HMSCode, status: Int, requestID: String) -> SandboxAnswer {
        json(status, ["code": .string(code.code), "msg": .string(code.message), "requestId": .string(requestID)])
    }

    static func json(_ status: Int, _ body: JSONValue) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json;charset=utf-8")],
            body: body.bytes
        )
    }

    /// Returns a partial success, whose message is JSON inside a string.
    static func partial(
        _ refused: [(token: String, reason: String)],
        of count: Int,
        form: HMSSimulatorConfiguration.PartialForm,
        requestID: String
    ) -> SandboxAnswer {
        var inner: JSONObject = [
            "success": .integer(Int64(count - refused.count)), "failure": .integer(Int64(refused.count)),
        ]
        switch form {
        case .list: inner["illegal_tokens"] = .array(refused.map { .string($0.token) })
        case .reasons:
            var reasons = JSONObject()
            for (token, reason) in refused {
                reasons[reason] = .array((reasons[reason]?.arrayValue ?? []) + [.string(token)])
            }
            inner["illegalTokens"] = .object(reasons)
        }
        return partial(message: JSONValue.object(inner).text, requestID: requestID)
    }

    /// Returns v3's refusal of all tokens, whose message names the reasons in the form of a partial success.
    ///
    /// Huawei's page shows no sample; senders to the live service report this form, without a count of successes.
    static func allBad(_ refused: [(token: String, reason: String)], status: Int, requestID: String) -> SandboxAnswer {
        var reasons = JSONObject()
        for (token, reason) in refused {
            reasons[reason] = .array((reasons[reason]?.arrayValue ?? []) + [.string(token)])
        }
        let inner: JSONValue = ["illegalTokens": .object(reasons), "failure": .integer(Int64(refused.count))]
        return json(
            status,
            ["code": "80300007", "msg": .string(inner.text), "requestId": .string(requestID)]
        )
    }

    static func partial(message: String, requestID: String) -> SandboxAnswer {
        json(200, ["code": "80100000", "msg": .string(message), "requestId": .string(requestID)])
    }
}
