internal import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// OneSignal's REST API: routes and authorizes calls, and shapes the answers.
///
/// The calls themselves are in extensions.
struct OneSignalHandler: SandboxHandler {
    /// A call in the form that the rules read.
    struct Call {
        let method: String
        /// The path's segments, decoded.
        let path: [String]
        let query: [String: String]
        let body: JSONObject
        let now: Date
    }

    /// An answer that ends a call.
    struct Refusal: Error {
        let answer: SandboxAnswer
    }

    let simulator: OneSignalSimulator

    init(_ simulator: OneSignalSimulator) { self.simulator = simulator }

    func subject(of request: SandboxRequest) -> SandboxSubject {
        SandboxSubject(token: request.path.split(separator: "/").last.map(String.init))
    }

    func answer(_ fault: FaultAnswer, to request: SandboxRequest, at now: Date) -> SandboxAnswer {
        count(request)
        return fault.plain(json: fault.reason.map { Self.errors($0).bytes } ?? [], now: now)
    }

    func answer(_ request: SandboxRequest, at now: Date) -> SandboxReply {
        count(request)
        do throws(Refusal) {
            return SandboxReply(answer: try route(request, now))
        } catch {
            return SandboxReply(answer: error.answer)
        }
    }

    private func count(_ request: SandboxRequest) {
        simulator.withState { state in
            switch (request.method, request.path) {
            case ("POST", let path) where path.hasSuffix("/notifications"): state.counters.createRequests += 1
            case ("GET", _): state.counters.views += 1
            case (_, let path) where !path.contains("/notifications"): state.counters.writes += 1
            default: break
            }
        }
    }

    private func route(_ request: SandboxRequest, _ now: Date) throws(Refusal) -> SandboxAnswer {
        var segments = request.path.split(separator: "/").map { String($0).removingPercentEncoding ?? String($0) }
        if segments.starts(with: ["api", "v1"]) { segments.removeFirst(2) }  // The legacy host's paths.
        let call = Call(
            method: request.method,
            path: segments,
            query: FormFields.parse(request.query) ?? [:],
            body: try body(request),
            now: now
        )
        let isOpen = segments.first == "players" && ["POST", "PUT"].contains(request.method)
        try authorize(request, isOptional: isOpen)
        try checkApp(call)
        switch (call.method, segments.first, segments.count) {
        case ("POST", "notifications", 1): return try create(call)
        case ("GET", "notifications", 1): return try list(call)
        case ("GET", "notifications", 2): return try view(call)
        case ("DELETE", "notifications", 2): return try cancel(call)
        case (_, "apps", 3...): return try users(call)
        case (_, "players", _): return try players(call)
        default: throw Self.refuse(404, "Not found")
        }
    }

    private func body(_ request: SandboxRequest) throws(Refusal) -> JSONObject {
        guard !request.body.isEmpty else { return JSONObject() }
        guard request.header("content-type")?.lowercased().hasPrefix("application/json") ?? false else {
            throw Self.refuse(400, "app_id not found. You may be missing a Content-Type: application/json header.")
        }
        guard let object = (try? JSONValue(parsing: request.body))?.objectValue else {
            throw Self.refuse(400, "The body is no JSON object.")
        }
        return object
    }

    private func authorize(_ request: SandboxRequest, isOptional: Bool) throws(Refusal) {
        guard let field = request.header("authorization") else {
            if isOptional { return }
            let fault: JSONValue = ["code": "auth-1", "title": "There is no Authorization header."]
            throw Refusal(answer: Self.json(401, ["errors": [fault]]))
        }
        let rules = simulator.rules
        let sides = field.split(separator: " ", maxSplits: 1).map(String.init)
        if let acceptsBearer = rules.acceptsBearer, sides.count == 2, sides[0].lowercased() == "bearer" {
            guard acceptsBearer(sides[1]) else {
                var answer = Self.json(401, ["message": "Unauthenticated."])
                answer.headers.append(HTTPHeader("www-authenticate", "Bearer error=\"invalid_token\""))
                throw Refusal(answer: answer)
            }
            return
        }
        let isGood =
            sides.count == 2
            && (sides[0].lowercased() == "key" && sides[1] == rules.apiKey
                || sides[0].lowercased() == "basic" && sides[1] == rules.legacyKey)
        guard isGood else { throw Self.refuse(403, "Access denied. The key is not one of this app.") }
    }

    private func checkApp(_ call: Call) throws(Refusal) {
        let app =
            call.path.first == "apps"
            ? call.path.dropFirst().first : call.body["app_id"]?.stringValue ?? call.query["app_id"]
        guard let app, UUID(uuidString: app) != nil else { throw Self.refuse(400, "app_id must be a valid UUID") }
        guard app.lowercased() == simulator.rules.appID else {
            throw Self.refuse(403, "Access denied. The key is not one of this app.")
        }
    }

    // MARK: Shapes

    static func errors(_ texts: String...) -> JSONValue { ["errors": .array(texts.map { .string($0) })] }

    static func refuse(_ status: Int, _ text: String) -> Refusal { Refusal(answer: json(status, errors(text))) }

    static func refuse(_ status: Int, code: String, _ title: String, meta: JSONValue? = nil) -> Refusal {
        var fault: JSONObject = ["code": .string(code), "title": .string(title)]
        if let meta { fault["meta"] = meta }
        return Refusal(answer: json(status, ["errors": [.object(fault)]]))
    }

    static func tooMany(_ seconds: Int) -> Refusal {
        var answer = json(429, errors("API rate limit exceeded"))
        answer.headers.append(HTTPHeader("retry-after", "\(seconds)"))
        return Refusal(answer: answer)
    }

    static func json(_ status: Int, _ value: JSONValue) -> SandboxAnswer {
        SandboxAnswer(
            status: status,
            headers: [HTTPHeader("content-type", "application/json; charset=utf-8")],
            body: value.bytes
        )
    }

    /// Takes a turn from a quota; throws when it is used up.
    func reserve(_ turn: (inout OneSignalState) -> Int?) throws(Refusal) {
        let seconds = simulator.withState { state in turn(&state) }
        if let seconds { throw Self.tooMany(seconds) }
    }
}
