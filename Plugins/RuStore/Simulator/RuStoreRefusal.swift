internal import ChaparCore
internal import ChaparSimulator

/// A refusal of the RuStore simulator, in the shape of either API.
///
/// Source: RuStore's help, "Send push notifications" and "General push notifications", and public clients, read
/// 2026-09.
struct RuStoreRefusal: Error, Sendable {
    var http: Int
    var status: String
    /// `message` of the direct API, or the only entry of the universal one's `errors`.
    var message: String

    init(_ http: Int, _ status: String, _ message: String) {
        self.http = http
        self.status = status
        self.message = message
    }

    // MARK: The direct API

    static func invalid(_ message: String) -> RuStoreRefusal { RuStoreRefusal(400, "INVALID_ARGUMENT", message) }

    static let badToken = RuStoreRefusal(
        400,
        "INVALID_ARGUMENT",
        "The registration token is not a valid FCM registration token"
    )
    static let forbidden = RuStoreRefusal(403, "PERMISSION_DENIED", "The service token does not fit the project.")
    static let notFound = RuStoreRefusal(404, "NOT_FOUND", "Requested entity was not found.")
    static let unregistered = RuStoreRefusal(404, "UNREGISTERED", "The token is not registered.")
    static let tooMany = RuStoreRefusal(429, "TOO_MANY_REQUESTS", "Too many requests.")

    // MARK: The universal API

    static func validation(_ message: String) -> RuStoreRefusal { RuStoreRefusal(400, "VALIDATION_ERROR", message) }
    static func provider(_ message: String) -> RuStoreRefusal {
        RuStoreRefusal(400, "PROVIDER_ERROR", "rustore: \(message)")
    }
    static let badServiceToken = provider("invalid auth token")
    static func invalidToken(_ token: String) -> RuStoreRefusal { provider("invalid tokens \(token.prefix(6))") }

    /// Returns the refusal that a fault rule names; the status decides when the name is none of RuStore's.
    static func named(_ word: String?, status: Int) -> RuStoreRefusal {
        var refusal: RuStoreRefusal
        switch word {
        case "UNREGISTERED"?: refusal = unregistered
        case "INVALID_ARGUMENT:token"?: refusal = badToken
        case "PROVIDER_ERROR:auth"?: refusal = badServiceToken
        case "PROVIDER_ERROR:other"?: refusal = provider("invalid tokens zzzzzz")
        default:
            let usual =
                switch status {
                case 400: "INVALID_ARGUMENT"
                case 401, 403: "PERMISSION_DENIED"
                case 404: "NOT_FOUND"
                case 429: "TOO_MANY_REQUESTS"
                default: "INTERNAL"
                }
            refusal = RuStoreRefusal(status, word ?? usual, "Request refused.")
        }
        refusal.http = status
        return refusal
    }

    // MARK: The answer

    /// Returns the answer in the form of a listener's API.
    func answer(
        on listener: RuStoreListener,
        _ answers: RuStoreSimulatorConfiguration.Answers
    ) -> SandboxAnswer {
        let code = status == "PROVIDER_ERROR" ? answers.providerCode : http
        var object: JSONObject = ["code": .integer(Int64(code)), "status": .string(status)]
        switch listener {
        case .universal: object["errors"] = [.string(message)]
        case .direct: object["message"] = .string(message)
        }
        if listener == .direct, answers.errorShape == .nested { object = ["error": .object(object)] }
        return SandboxAnswer(
            status: http,
            headers: [HTTPHeader("content-type", "application/json")],
            body: JSONValue.object(object).bytes
        )
    }
}

extension RuStoreSimulatorConfiguration.Answers {
    /// Returns the answer to an accepted message.
    func accepted(on listener: RuStoreListener) -> SandboxAnswer {
        let body =
            switch success {
            case .documented: listener == .direct ? "{}" : #"{"Status":"OK"}"#
            case .lowercase: #"{"status":"OK"}"#
            case .empty: ""
            }
        return SandboxAnswer(
            status: 200,
            headers: [HTTPHeader("content-type", "application/json")],
            body: Array(body.utf8)
        )
    }
}
