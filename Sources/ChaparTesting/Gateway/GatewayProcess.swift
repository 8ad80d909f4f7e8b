internal import Foundation
public import ChaparCore
internal import Synchronization

/// A custom gateway program as a child process: an end-to-end test in a few lines.
///
/// The program is the one that the test's package builds, beside the test bundle. It gets a configuration in its own
/// folder, listens on a free port of this machine, and ends with the test.
///
/// ```swift
/// try await Simulator.run(PagerService()) { simulator in
///     let files = ["ca.pem": simulator.certificatePEM]
///     let backends = ["pager": simulator.section(caFile: "ca.pem")]
///     try await GatewayProcess.run("pager-gateway", backends: backends, files: files) { gateway in
///         let ends = try await gateway.send(to: simulator.service.recipient, "Hello")
///         #expect(ends == ["accepted_by_platform"] && simulator.service.taken == 1)
///     }
/// }
/// ```
public final class GatewayProcess: Sendable {
    /// The answer to a request.
    public struct Answer: Sendable {
        /// The HTTP status.
        public let status: Int
        /// The body; null when it is no JSON.
        public let json: JSONValue
    }

    /// The result of a command of the program.
    public struct Output: Sendable {
        /// The exit code.
        public let status: Int32
        /// Its stdout.
        public let text: String
        /// Its stderr.
        public let errors: String
    }

    /// The URL of the gateway, such as `http://127.0.0.1:40123`.
    public let url: String
    private let program: URL
    private let folder: URL
    private let port: UInt16

    private init(program: URL, folder: URL, url: String, port: UInt16) {
        self.program = program
        self.folder = folder
        self.url = url
        self.port = port
    }

    /// Runs `body` with a gateway that sends through these backends.
    ///
    /// - Parameters:
    ///   - name: The program's name, as the package calls its executable.
    ///   - backends: The sections under `backends`, by their names.
    ///   - files: Files of the configuration's folder, by their names; sections can name them without a path.
    ///   - environment: Variables beside those of the test.
    ///   - isolation: The caller's actor, where `body` runs.
    ///   - body: The test.
    /// - Returns: What `body` returns.
    /// - Throws: ``ConformanceFailure`` when the program does not start, with what it said; else what `body` throws.
    public static func run<Value>(
        _ name: String,
        backends: [String: JSONObject],
        files: [String: String] = [:],
        environment: [String: String] = [:],
        isolation: isolated (any Actor)? = #isolation,
        _ body: (GatewayProcess) async throws -> Value
    ) async throws -> Value {
        let folder = FileManager.default.temporaryDirectory.appending(path: "\(name)-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }  // The system removes what cannot be removed here.
        var sections = JSONObject()
        for (name, section) in backends { sections[name] = .object(section) }
        let configuration: JSONValue = [
            "server": ["host": "127.0.0.1", "port": 0], "store": ["path": "gateway.db"], "auth": ["keyless": true],
            "backends": .object(sections),
        ]
        // JSON is YAML.
        for (name, text) in files.merging(["gateway.yaml": configuration.text], uniquingKeysWith: { $1 }) {
            try Data(text.utf8).write(to: folder.appending(path: name))
        }
        let program = try find(name)
        let child = try ChildProcess(
            program,
            ["serve", "--json", "--config", folder.appending(path: "gateway.yaml").path],
            environment: environment,
            folder: folder
        )
        defer { child.end() }
        let address = try await child.firstLine(within: .seconds(60))
        let json = try? JSONValue(parsing: Array(address.utf8))
        guard let url = json?["url"]?.stringValue, let port = json?["port"]?.integerValue.map({ UInt16(clamping: $0) })
        else { throw ConformanceFailure("\(name) serve --json said \"\(address)\"; stderr: \(child.errors)") }
        return try await body(GatewayProcess(program: program, folder: folder, url: url, port: port))
    }

    /// Posts a notification for one recipient and waits for its end.
    ///
    /// - Parameters:
    ///   - recipient: The recipient: a token, or another form that a request can name.
    ///   - body: The text.
    ///   - backend: The backend to use, where the routes do not say.
    /// - Returns: The state of each delivery, such as `accepted_by_platform`.
    /// - Throws: ``ConformanceFailure`` when the gateway does not take it, or it does not end within a minute.
    public func send(to recipient: Recipient, _ body: String, backend: String? = nil) async throws -> [String] {
        let audience: JSONValue =
            switch recipient {
            case .token(let token):
                ["tokens": [["token": .string(token.value), "service": .string(token.service.rawValue)]]]
            case .user(let user): ["users": [.string(user)]]
            case .device(let device): ["devices": [.string(device)]]
            case .platformID(let id): ["platform_ids": [.string(id)]]
            case .topic(let topic): ["topic": .string(topic)]
            case .tags(let tags): ["tags": ["any": .array(tags.any.map { .string($0) })]]
            case .everyone: ["everyone": true]
            }
        var request: JSONObject = ["to": audience, "content": ["body": .string(body)]]
        request["backend"] = backend.map { .string($0) }
        let accepted = try await post("/v1/notifications", .object(request))
        guard accepted.status == 202, let id = accepted.json["id"]?.stringValue else {
            throw ConformanceFailure("the gateway answered \(accepted.status): \(accepted.json.text)")
        }
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            let items = try await get("/v1/notifications/\(id)/deliveries").json["items"]?.arrayValue ?? []
            let states = items.compactMap { $0["state"]?.stringValue }
            if !states.isEmpty, states.allSatisfy({ DeliveryState(rawValue: $0)?.isFinal ?? false }) { return states }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw ConformanceFailure("notification \(id) did not end within a minute")
    }

    /// Reads a document of the API.
    public func get(_ path: String) async throws -> Answer { try await request("GET", path, nil) }

    /// Posts a document to the API.
    public func post(_ path: String, _ body: JSONValue) async throws -> Answer {
        try await request("POST", path, body)
    }

    /// Puts a document to the API, such as a device.
    public func put(_ path: String, _ body: JSONValue) async throws -> Answer { try await request("PUT", path, body) }

    /// Changes a part of a document of the API.
    public func patch(_ path: String, _ body: JSONValue) async throws -> Answer {
        try await request("PATCH", path, body)
    }

    /// Deletes the document at a path of the API.
    public func delete(_ path: String) async throws -> Answer { try await request("DELETE", path, nil) }

    private func request(_ method: String, _ path: String, _ body: JSONValue?) async throws -> Answer {
        let (status, bytes) = try await LoopbackHTTP.exchange(port: port, method, path, body?.bytes)
        return Answer(status: status, json: (try? JSONValue(parsing: bytes)) ?? .null)
    }

    /// Runs a command of the program, in the folder of its configuration `gateway.yaml`, to its end.
    ///
    /// `CHAPAR_URL` and `CHAPAR_CONFIG` name this gateway.
    public func command(_ arguments: String...) async throws -> Output {
        let variables = ["CHAPAR_URL": url, "CHAPAR_CONFIG": "gateway.yaml"]
        let child = try ChildProcess(program, arguments, environment: variables, folder: folder)
        defer { child.end() }
        let status = try await child.wait(within: .seconds(60))
        return Output(status: status, text: child.output, errors: child.errors)
    }

    /// Returns the program that stands beside the test bundle.
    private static func find(_ name: String) throws -> URL {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let folders = [own] + CommandLine.arguments.filter { $0.hasSuffix(".xctest") }
        for folder in folders {
            let program = URL(filePath: folder).deletingLastPathComponent().appending(path: name)
            if FileManager.default.isExecutableFile(atPath: program.path) { return program }
        }
        throw ConformanceFailure(
            "there is no program \"\(name)\" beside the test: add it to the test target's dependencies"
        )
    }
}
