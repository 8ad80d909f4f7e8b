internal import Foundation
internal import ChaparCore
public import ChaparModules
internal import ChaparQueue

/// gorush's HTTP API in front of the gateway, so that its callers only change the address.
///
/// The requests, answers and errors of `POST /api/push` are gorush's. Accepted notifications are stored before the
/// answer.
public struct GorushModule: GatewayModule {
    /// The version of gorush whose requests are read, with this program's name behind it.
    static let version = "1.22.0+chapar"
    /// The most JSON values of a body: a tree of many small ones takes far more memory than its text.
    static let maximumValues = 400_000
    /// The most notifications that the gateway takes at once.
    private static let maximumMessages = 1000

    /// The beginning of its paths.
    public let prefix: String
    let options: GorushOptions
    private let resources: [String: Resource]

    /// Makes a module.
    public init(_ options: GorushOptions) {
        self.options = options
        prefix = options.prefix + "/"
        var resources: [String: Resource] = [:]
        for path in GorushOptions.Path.allCases { resources[options.path(path)] = .path(path) }
        for (path, resource) in [("/version", Resource.version), ("/", .welcome)] {
            resources[options.prefix + path] = resource
        }
        if !options.prefix.isEmpty { resources[options.prefix] = .welcome }
        self.resources = resources
    }

    /// The resource that a path names.
    private enum Resource {
        case path(GorushOptions.Path)
        case version
        case welcome
    }

    private func find(_ path: Substring) -> (String, Resource)? {
        let path = path.count > 1 && path.hasSuffix("/") ? path.dropLast() : path
        return resources[String(path)].map { (String(path), $0) }
    }

    /// Returns the endpoint that a path names, with or without a slash at its end.
    public func endpoint(_ path: Substring) -> ModuleEndpoint? {
        guard let (path, resource) = find(path) else { return nil }
        let methods: [String: ModuleEndpoint.Access] =
            switch resource {
            case .version, .welcome, .path(.health): ["GET": .open]
            case .path(.push): ["POST": .send]
            case .path(.configuration): ["GET": .admin]
            case .path(.appStatistics), .path(.systemStatistics), .path(.metrics): ["GET": .metrics]
            }
        var endpoint = ModuleEndpoint(path, methods)
        endpoint.takesAnyContentType = true
        endpoint.takesBasicCredentials = true
        endpoint.largestBody = options.maximumBody
        return endpoint
    }

    /// Answers a request.
    public func answer(
        _ request: ModuleRequest,
        through gate: any ModuleGate
    ) async throws(ModuleProblem) -> ModuleAnswer {
        guard let (_, resource) = find(request.path[...]) else {
            throw ModuleProblem(404, "not_found", "404 page not found")
        }
        switch resource {
        case .path(.push): return try await push(request, gate)
        case .path(.health): return Self.answer(200, type: nil, [])
        case .version:
            return Self.json(200, ["source": "https://github.com/appleboy/gorush", "version": .string(Self.version)])
        case .welcome: return Self.json(200, ["text": "Welcome to notification server."])
        case .path(.configuration): return Self.answer(200, type: "text/plain; charset=utf-8", Array(options.yaml.utf8))
        case .path(.appStatistics):
            return Self.json(200, .object(GorushStatistics(await gate.metrics()).app(version: Self.version)))
        case .path(.systemStatistics):
            return Self.json(200, .object(GorushStatistics(await gate.metrics()).system(at: Date())))
        case .path(.metrics):
            let text = await gate.metrics()
            let type = "text/plain; version=0.0.4; charset=utf-8"
            return Self.answer(200, type: type, Array((GorushStatistics(text).metrics + text).utf8))
        }
    }

    /// Answers a refusal of the gateway as gorush answers its own: the status and a message.
    public func answer(to problem: ModuleProblem) -> ModuleAnswer? {
        let fields = problem.errors.map { "\($0.pointer): \($0.detail)" }
        let parts = [problem.title, problem.detail].compactMap { $0 } + fields
        var answer = Self.refusal(problem.status, parts.joined(separator: ". "))
        if let wait = problem.retryAfter {
            let seconds = max(1, wait.components.seconds.adding(clamping: wait.components.attoseconds > 0 ? 1 : 0))
            answer.headers.append(HTTPHeader("retry-after", String(seconds)))
        }
        return answer
    }

    // MARK: Sending

    private func push(_ request: ModuleRequest, _ gate: any ModuleGate) async throws(ModuleProblem) -> ModuleAnswer {
        let separators = request.body.count { [UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "{")].contains($0) }
        guard separators <= Self.maximumValues else {
            throw ModuleProblem(413, "too_many_values", "The body has more than \(Self.maximumValues) JSON values")
        }
        let entries: [GorushEntry]
        do throws(GorushRequest.Refusal) {
            entries = try GorushRequest.entries(request.body, limit: options.maximumNotifications)
        } catch {
            return Self.refusal(400, error.message)
        }
        let mapping = GorushMapping(
            options: options,
            backends: Set(gate.backends),
            now: Int64(clamping: Date().timeIntervalSince1970),
            problem: gate.problem(with:)
        )
        let mapped = entries.map { mapping.map($0) }
        let messages = mapped.flatMap(\.messages)
        guard messages.count <= Self.maximumMessages else {
            throw ModuleProblem(
                413,
                "too_many_messages",
                "The request is more than \(Self.maximumMessages) messages of \(GorushMapping.tokensPerMessage) tokens"
            )
        }
        var accepted: [ModuleAcceptance] = []
        if !messages.isEmpty {
            accepted = try await gate.accept(
                messages.map(\.notification),
                idempotencyKey: request.header("idempotency-key"),
                request: request.body
            )
        }
        guard accepted.count == messages.count else {
            throw ModuleProblem(500, "failed", "The gateway gave no answer for some of the notifications")
        }
        var answer = PushAnswer(hidesTokens: options.hidesTokens)
        var taken: [(NotificationID, GorushEntry)] = []
        var next = 0
        for (entry, result) in zip(entries, mapped) {
            if result.isConfigured { answer.count += entry.count }
            let platform = result.isConfigured ? entry.platform : nil
            for failure in result.failures { answer.log(entry, platform, failure.token, failure.error) }
            for message in result.messages {
                switch accepted[next] {
                case .accepted(let id): taken.append((id, entry))
                case .refused(let sentence):
                    for token in message.tokens { answer.log(entry, platform, token, sentence) }
                @unknown default: break
                }
                next += 1
            }
        }
        if options.isSync, !taken.isEmpty { try await wait(for: taken, gate, &answer) }
        return answer.answer
    }

    /// Waits for the platforms' answers, at most for the configured time, and adds failures to the answer's `logs`.
    ///
    /// Deliveries that go on after it count as pending: their ends come as events of the gateway, and to webhooks.
    private func wait(
        for taken: [(NotificationID, GorushEntry)],
        _ gate: any ModuleGate,
        _ answer: inout PushAnswer
    ) async throws(ModuleProblem) {
        let outcomes: [NotificationID: [ModuleDelivery]]
        do throws(PushError) {
            outcomes = try await gate.outcomes(of: taken.map(\.0), within: options.syncTimeout)
        } catch {
            // The notifications are on disk and are sent, so the answer is no error when their outcomes cannot be read.
            answer.pending += taken.count
            return
        }
        for (id, entry) in taken {
            for delivery in outcomes[id] ?? [] {
                guard delivery.state.isFinal else {
                    answer.pending += 1
                    continue
                }
                guard let reason = delivery.reason else { continue }
                var token = ""
                if case .token(let own) = delivery.recipient { token = own.value }
                answer.log(entry, entry.platform, token, reason)
            }
        }
    }

    // MARK: Answers

    static func refusal(_ status: Int, _ message: String) -> ModuleAnswer {
        json(status, ["code": .integer(Int64(status)), "message": .string(message)])
    }

    static func json(_ status: Int, _ value: JSONValue) -> ModuleAnswer {
        answer(status, type: "application/json; charset=utf-8", value.bytes)
    }

    private static func answer(_ status: Int, type: String?, _ body: [UInt8]) -> ModuleAnswer {
        var headers = [HTTPHeader("x-gorush-version", version), HTTPHeader("cache-control", "no-store")]
        if let type { headers.append(HTTPHeader("content-type", type)) }
        return ModuleAnswer(status, headers: headers, body: body)
    }
}

/// The answer to a request that was taken: the number of its targets, and a log entry for each that failed.
private struct PushAnswer {
    let hidesTokens: Bool
    var count = 0
    /// The deliveries that had not ended when the wait did.
    var pending = 0
    private var logs: [JSONValue] = []

    init(hidesTokens: Bool) { self.hidesTokens = hidesTokens }

    mutating func log(_ entry: GorushEntry, _ platform: GorushEntry.Platform?, _ token: String, _ error: String) {
        var log = JSONObject()
        log["notif_id"] = entry.notifID.map { .string($0) }
        log["type"] = "failed-push"
        log["platform"] = .string(platform?.word ?? "")
        log["token"] = .string(hidesTokens ? GorushTokens.masked(token) : token)
        log["message"] = .string(entry.message ?? "")
        log["error"] = .string(error)
        logs.append(.object(log))
    }

    var answer: ModuleAnswer {
        var answer = GorushModule.json(
            200,
            ["counts": .integer(Int64(count)), "logs": .array(logs), "success": "ok"]
        )
        if pending > 0 { answer.headers.append(HTTPHeader("x-chapar-pending", String(pending))) }
        return answer
    }
}

/// Tokens as gorush shows them.
enum GorushTokens {
    /// Masks a token: all of one with fewer than 20 characters, else its first and its last ten characters, wherever
    /// they occur in it.
    static func masked(_ token: String) -> String {
        let stars = String(repeating: "*", count: 10)
        guard token.count >= 20 else { return String(repeating: "*", count: token.count) }
        return token.replacing(String(token.prefix(10)), with: stars)
            .replacing(String(token.suffix(10)), with: stars)
    }
}
