internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// Chabok's REST API in one state: authorizes and routes calls, and makes LoopBack's errors.
///
/// One extension has the sends (`ChabokHandler+Sending.swift`), another the calls about devices.
struct ChabokHandler: SandboxHandler {
    /// A call in the form that the rules read.
    struct Call {
        var method: String
        /// The path's segments after `/api`, decoded.
        var path: [String]
        var query: [String: String]
        var body: JSONValue
        var now: Date

        var route: String { "\(method) \(path.prefix(2).joined(separator: "/"))" }
    }

    /// An answer that ends a call.
    struct Refusal: Error {
        var status: Int
        var name = "Error"
        var message: String
        var code: String?
        /// The fields that a model rejects.
        var fields: [String] = []

        var answer: SandboxAnswer {
            var error: JSONObject = [
                "statusCode": .integer(Int64(status)), "name": .string(name), "message": .string(message),
            ]
            if let code { error["code"] = .string(code) }
            if !fields.isEmpty {
                var codes = JSONObject()
                for field in fields { codes[field] = ["presence"] }
                error["details"] = ["codes": .object(codes)]
            }
            // The only documented error has `status` and no `statusCode`.
            if status == 404 { error = ["name": "Error", "status": 404, "message": .string(message)] }
            return ChabokHandler.json(status, ["error": .object(error)])
        }
    }

    let simulator: ChabokSimulator
    let listener: SandboxListener

    init(_ simulator: ChabokSimulator, listener: SandboxListener) {
        self.simulator = simulator
        self.listener = listener
    }

    func subject(of request: SandboxRequest) -> SandboxSubject { SandboxSubject() }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        record(request)
        let refusal = Refusal(status: fault.status, message: fault.reason ?? "Error")
        return fault.plain(json: fault.reason == nil ? [] : refusal.answer.body, now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        record(request)
        do throws(Refusal) {
            return SandboxReply(answer: try route(request, now))
        } catch {
            return SandboxReply(answer: error.answer)
        }
    }

    private func record(_ request: SandboxRequest) {
        let seen = ChabokSimulator.Request(
            listener: listener,
            method: request.method,
            path: request.path,
            query: FormFields.parse(request.query) ?? [:],
            headerToken: request.header("x-access-token"),
            body: (try? JSONValue(parsing: request.body)) ?? .null
        )
        simulator.withState { $0.record(seen) }
    }

    private func route(_ request: SandboxRequest, _ now: Date) throws(Refusal) -> SandboxAnswer {
        let segments = request.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map {
            String($0).removingPercentEncoding ?? String($0)
        }
        guard segments.first == "api", segments.count > 1 else { throw Self.unknown(request) }
        let query = FormFields.parse(request.query) ?? [:]
        try authorize(request.header("x-access-token"), query["access_token"])
        var body = JSONValue.null
        if !request.body.isEmpty {
            guard request.header("content-type")?.hasPrefix("application/json") ?? false else {
                throw Refusal(status: 415, message: "Unsupported Media Type")
            }
            guard let parsed = try? JSONValue(parsing: request.body) else {
                throw Refusal(status: 400, name: "SyntaxError", message: "Unexpected token in JSON")
            }
            body = parsed
        }
        let call = Call(method: request.method, path: Array(segments.dropFirst()), query: query, body: body, now: now)
        switch call.path.first {
        case "push"?: return try send(call)
        case "installations"?: return try installations(call)
        case "messages"? where call.route == "GET messages/fetchById" && call.path.count == 3:
            return try message(call.path[2])
        case "verification"?: return try verification(call)
        default: throw Self.unknown(request)
        }
    }

    /// Checks the tokens: at least one must be there, and each must be the state's.
    private func authorize(_ header: String?, _ query: String?) throws(Refusal) {
        let own = simulator.rules.accessTokens[listener]
        let given = [header, query].compactMap(\.self)
        guard !given.isEmpty, given.allSatisfy({ $0 == own }) else {
            throw Refusal(status: 401, message: "Authorization Required", code: "AUTHORIZATION_REQUIRED")
        }
    }

    private func verification(_ call: Call) throws(Refusal) -> SandboxAnswer {
        switch (call.route, call.path.count) {
        case ("GET verification/requestCode", 3): return Self.json(200, ["result": true])
        case ("GET verification/verifyCode", 4):
            return Self.json(200, ["result": .bool(call.path[3] == "4410")])
        default: throw Refusal(status: 404, message: "There is no method to handle \(call.route)")
        }
    }

    private func message(_ id: String) throws(Refusal) -> SandboxAnswer {
        let found = simulator.withState { state -> JSONObject? in
            guard let space = state.spaces[listener], let message = space.messages.first(where: { $0.id == id }) else {
                return nil
            }
            var json = message.body
            json["id"] = .string(id)
            for name in ["delivered", "seen", "dismiss"] {
                json[name] = .array((space.marks[id]?[name] ?? []).map { .string($0) })
            }
            return json
        }
        guard let found else { throw Refusal(status: 404, message: "Unknown \"message\" id \"\(id)\".") }
        return Self.json(200, .object(found))
    }

    static func unknown(_ request: SandboxRequest) -> Refusal {
        Refusal(status: 404, message: "There is no method to handle \(request.method) \(request.path)")
    }

    static func json(_ status: Int, _ value: JSONValue) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json; charset=utf-8")],
            body: value.bytes
        )
    }
}
