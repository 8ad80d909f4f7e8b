import ArgumentParser
import Foundation
import Logging
import ChaparCore
import ChaparHTTP

/// The flags that name the gateway to talk to.
///
/// Commands that work on a running gateway have them. They only read flags, `CHAPAR_URL` and the key's file, and make a
/// ``GatewayClient``, which opens nothing before its first call.
struct GatewayAddress: ParsableArguments {
    @Option(name: .customLong("url"), help: "The gateway to use, such as http://127.0.0.1:8080. Default: $CHAPAR_URL.")
    var named: String?

    @Option(
        help:
            "A file with the API key. Default: $CHAPAR_KEY, else the first key beside the store of $CHAPAR_CONFIG, else chapar.yaml.",
        completion: .file()
    )
    var keyFile: String?

    @Option(help: "The app, where several share the gateway and the key is not for one of them.")
    var app: String?

    @Flag(help: "Send the API key without encryption to a gateway that is not on this machine.")
    var allowPlainHTTP = false

    @Option(help: "Certificates to trust beside the system's, PEM.", completion: .file())
    var caFile: String?

    /// The address: the flag's, else that of `CHAPAR_URL`.
    var url: String? { named ?? Self.variable("CHAPAR_URL") }

    func validate() throws {
        if let named, HTTPEndpoint(url: named) == nil { throw ValidationError("--url: \(Self.isNoAddress)") }
    }

    /// Returns a client of the gateway that the flag or the environment names; nil when neither does.
    ///
    /// Without a key it uses the first key of the configuration's gateway, when that is the one addressed.
    func client(_ file: ConfigOption = ConfigOption(path: nil)) throws -> GatewayClient? {
        try url.map { try client($0, file) }
    }

    /// Returns a client of the gateway that the flag names; nil without the flag.
    func namedClient() throws -> GatewayClient? { try named.map { try client($0, ConfigOption(path: nil)) } }

    /// Returns a client of the gateway, for a command that needs one.
    func requiredClient() throws -> GatewayClient {
        guard let client = try client() else {
            throw CommandFailure("Say which gateway: --url http://127.0.0.1:8080, or $CHAPAR_URL.", .usage)
        }
        return client
    }

    private static func variable(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The problem without the text itself, which may contain a password anywhere.
    private static let isNoAddress =
        "is not an address. Write https://host or http://host:port, without user, password and path."

    private func client(_ url: String, _ file: ConfigOption) throws -> GatewayClient {
        guard let endpoint = HTTPEndpoint(url: url) else {
            throw CommandFailure("CHAPAR_URL: \(Self.isNoAddress)", .usage)
        }
        let environment = Self.variable("CHAPAR_KEY").map { Secret($0) }
        let trust = try caFile.map { path -> String in
            guard let data = FileManager.default.contents(atPath: path) else {
                throw CommandFailure("cannot read \(path)", .usage)
            }
            do throws(CredentialMistake) {
                return try PEMReader.certificates(in: try CredentialText.text(of: Array(data)))
            } catch {
                throw CommandFailure("\(path) \(error)", .usage)
            }
        }
        let given = try keyFile.map { try SecretFile.read($0) } ?? environment
        let key = try given ?? FirstKey.find(for: endpoint, configuration: file.path)
        guard key == nil || endpoint.scheme == .https || endpoint.isLoopback || allowPlainHTTP else {
            throw CommandFailure(
                "\(url) is not encrypted: everybody on the way could read the API key. Write https://, or --allow-plain-http "
                    + "where the way is safe",
                .usage
            )
        }
        return try GatewayClient(endpoint, key: key, trust: trust, app: app)
    }
}

/// A client of a gateway's API.
///
/// Each command with `--url` has one, made by ``GatewayAddress``, and closes it. A call is made once and times out
/// after 30 seconds, an erasure after an hour. Only ``postPatiently(_:_:attempts:)`` retries, under one idempotency
/// key. The caller judges the answers.
struct GatewayClient: Sendable {
    /// An answer of the gateway.
    struct Answer: Sendable {
        var status: Int
        var json: JSONValue
        var retryAfter: Duration?

        /// A problem's code: that of its first wrong field, when there is one.
        var code: String? {
            json["errors"]?.arrayValue?.first?["code"]?.stringValue ?? json["code"]?.stringValue
        }

        /// A problem's sentences for people, on one line each.
        var problem: String {
            let errors = (json["errors"]?.arrayValue ?? []).map {
                "\($0["pointer"]?.words ?? "#"): \($0["detail"]?.words ?? "")"
            }
            let head = [json["title"]?.words, json["detail"]?.words].compactMap { $0 }
            return (errors.isEmpty ? head : errors).joined(separator: "\n         ")
        }
    }

    private let endpoint: HTTPEndpoint
    private let app: String?
    private let pool: any HTTPPool
    private let read: HTTPCallTemplate
    private let write: HTTPCallTemplate
    private let replace: HTTPCallTemplate
    private let change: HTTPCallTemplate
    private let remove: HTTPCallTemplate
    private let erase: HTTPCallTemplate

    /// Makes a client; nothing is opened before the first call.
    init(_ endpoint: HTTPEndpoint, key: Secret?, trust: String? = nil, app: String? = nil, connections: Int = 8) throws
    {
        self.app = app
        var configuration = HTTPPoolConfiguration(endpoint: endpoint, version: .http1)
        configuration.extraTrustPEM = trust
        configuration.maximumConnections = connections
        configuration.maximumAnswerBytes = 64 << 20
        let silent = Logger(label: "chapar") { _ in SwiftLogNoOpLogHandler() }
        self.endpoint = endpoint
        do {
            pool = try NIOTransport(logger: silent).pool(configuration)
        } catch {
            throw CommandFailure("\(error)", .usage)
        }
        let fields = key.map { [HTTPHeader("authorization", "Bearer " + $0.reveal())] } ?? []
        read = HTTPCallTemplate(method: "GET", headers: fields, deadline: .seconds(30))
        remove = HTTPCallTemplate(method: "DELETE", headers: fields, deadline: .seconds(30))
        erase = HTTPCallTemplate(method: "DELETE", headers: fields, deadline: .seconds(3_600))
        let withBody = fields + [HTTPHeader("content-type", "application/json")]
        write = HTTPCallTemplate(method: "POST", headers: withBody, deadline: .seconds(30))
        replace = HTTPCallTemplate(method: "PUT", headers: withBody, deadline: .seconds(30))
        change = HTTPCallTemplate(method: "PATCH", headers: withBody, deadline: .seconds(30))
    }

    /// Returns a path with the app in it, when it is about devices, users, or data that a platform keeps for an app.
    private func located(_ path: String) -> String {
        let kept = ["topics", "channels", "tokens"]
        let steps = path.prefix { $0 != "?" }.split(separator: "/")
        let isKept = steps.count > 3 && steps[1] == "backends" && kept.contains(String(steps[3]))
        guard let app, isKept || path.hasPrefix("/v1/devices") || path.hasPrefix("/v1/users/") else { return path }
        return path + (path.contains("?") ? "&" : "?") + "app=" + FormEncoding.encode(app)
    }

    func get(_ path: String) async throws(HTTPFailure) -> Answer {
        Self.answer(try await pool.send(HTTPCall(read, path: located(path))))
    }

    func put(_ path: String, _ body: [UInt8]) async throws(HTTPFailure) -> Answer {
        Self.answer(try await pool.send(HTTPCall(replace, path: located(path), body: body)))
    }

    func patch(_ path: String, _ body: [UInt8]) async throws(HTTPFailure) -> Answer {
        Self.answer(try await pool.send(HTTPCall(change, path: located(path), body: body)))
    }

    func delete(_ path: String) async throws(HTTPFailure) -> Answer {
        Self.answer(try await pool.send(HTTPCall(remove, path: located(path))))
    }

    /// Sends a DELETE that searches the whole store, which takes long.
    func erase(_ path: String) async throws(HTTPFailure) -> Answer {
        Self.answer(try await pool.send(HTTPCall(erase, path: located(path))))
    }

    func post(_ path: String, _ body: [UInt8], idempotencyKey: String) async throws(HTTPFailure) -> Answer {
        let fields = [HTTPHeader("idempotency-key", idempotencyKey, .literal)]
        return Self.answer(try await pool.send(HTTPCall(write, path: located(path), headers: fields, body: body)))
    }

    /// Posts until the gateway has given a final answer: busy answers and lost connections are retried under the same
    /// idempotency key, so that nothing is sent twice.
    func postPatiently(_ path: String, _ body: [UInt8], attempts: Int = 6) async throws -> Answer {
        let key = UUID().uuidString
        var wait = Duration.milliseconds(200)
        var last: Result<Answer, HTTPFailure>
        var attempt = 1
        while true {
            do throws(HTTPFailure) {
                last = .success(try await post(path, body, idempotencyKey: key))
            } catch {
                last = .failure(error)
            }
            if case .success(let answer) = last, ![409, 429, 502, 503, 504].contains(answer.status) { return answer }
            guard attempt < attempts else { break }
            attempt += 1
            var pause = wait
            if case .success(let answer) = last { pause = max(wait, answer.retryAfter ?? .zero) }
            try await Task.sleep(for: min(pause, .seconds(10)))
            wait *= 2
        }
        switch last {
        case .success(let answer): return answer
        case .failure(let failure): throw unreachable(failure)
        }
    }

    /// Throws quickly when nothing answers at the address.
    func checkReachable() async throws {
        do throws(HTTPFailure) {
            _ = try await pool.send(HTTPCall(HTTPCallTemplate(method: "GET", deadline: .seconds(5)), path: "/healthz"))
        } catch {
            throw unreachable(error)
        }
    }

    /// Returns the failure with which a command ends after a failed call.
    func unreachable(_ failure: HTTPFailure) -> CommandFailure {
        CommandFailure("the gateway at \(endpoint) gave no answer: \(failure.detail.onOneLine)", .tryLater)
    }

    func close() async { await pool.shutdown(grace: .seconds(1)) }

    private static func answer(_ answer: HTTPAnswer) -> Answer {
        Answer(
            status: answer.status,
            json: (try? JSONValue(parsing: answer.body)) ?? .null,
            retryAfter: answer.header("retry-after").flatMap { Int64($0) }.map { .seconds(clamping: $0) }
        )
    }
}
