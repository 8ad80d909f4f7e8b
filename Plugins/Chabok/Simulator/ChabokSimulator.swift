internal import Foundation
public import ChaparCore
public import ChaparSimulator
internal import Synchronization

/// Chabok on real TLS sockets: both states of the platform, strict, with faults.
///
/// Each state has a host and an access token of its own, and its own installations, messages and tags.
public final class ChabokSimulator: Sendable {
    /// The four shapes of the answer to a send.
    @nonexhaustive
    public enum Shape: String, Sendable, CaseIterable {
        /// `{"count": n}`, the documented one.
        case count
        /// `{"id": …, "count": n}`.
        case idAndCount = "id_and_count"
        /// An array of the objects above, also for one message.
        case array
        /// `{"ids": […]}`.
        case ids
    }

    /// The behaviour of the platform.
    public struct Rules: Sendable {
        /// The app's id.
        public var appID = "shop"
        /// The access token of each state, by its listener.
        public var accessTokens: [SandboxListener: String] = [
            ChabokSimulator.sandbox: "chabok-sandbox-token", ChabokSimulator.production: "chabok-production-token",
        ]
        /// The shape of answers to sends; an array of messages gets an array, except with `ids`.
        public var shape = Shape.idAndCount
        /// Whether a user without an installation counts as one device.
        public var acceptsAnyUser = false

        /// Makes the defaults.
        public init() {}

        /// The rules of a sandbox: every user can be reached.
        public static var demonstration: Rules {
            var rules = Rules()
            rules.acceptsAnyUser = true
            return rules
        }
    }

    /// A request that arrived.
    public struct Request: Sendable, Hashable {
        /// The listener that got it.
        public var listener: SandboxListener
        /// Its method.
        public var method: String
        /// Its path, without the query.
        public var path: String
        /// The query's fields.
        public var query: [String: String]
        /// The access token of the header field.
        public var headerToken: String?
        /// Its body; null without one.
        public var body: JSONValue
    }

    /// An accepted message.
    public struct Message: Sendable, Hashable {
        /// Its id.
        public var id: String
        /// The user, or `*`; empty for a query.
        public var user: String
        /// The number of devices addressed.
        public var devices: Int
        /// Its body, with the time of creation.
        public var body: JSONObject
    }

    /// The listener of the test state.
    public static let sandbox: SandboxListener = "chabok-sandbox"
    /// The listener of the production state.
    public static let production: SandboxListener = "chabok"
    /// The most requests that are kept.
    static let recorded = 10_000

    /// The host of its listeners.
    public let host: SandboxWebHost
    private let guarded: Mutex<ChabokState>
    private let ports: [SandboxListener: Int]

    /// Makes a simulator that does not listen yet.
    public init(
        _ rules: Rules = Rules(),
        ports: [SandboxListener: Int] = [:],
        authority: SandboxCertificateAuthority? = nil,
        time: any TimeSource = SystemTime()
    ) throws {
        host = SandboxWebHost(.init(), authority: try authority ?? SandboxCertificateAuthority(), time: time)
        guarded = Mutex(ChabokState(rules))
        self.ports = ports
    }

    /// Starts a simulator, runs `body`, and shuts it down, also after an error.
    public static func run<Value>(
        _ rules: Rules = Rules(),
        time: any TimeSource = SystemTime(),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (ChabokSimulator) async throws -> Value
    ) async throws -> Value {
        try await ChabokSimulator(rules, time: time).whileRunning(body)
    }

    /// Starts the listeners; throws when a port is taken.
    public func start() async throws {
        try await host.start(
            [Self.sandbox, Self.production].map {
                .init(name: $0, port: ports[$0] ?? 0, handler: ChabokHandler(self, listener: $0))
            }
        )
    }

    /// Returns the base address of a state.
    public func url(_ listener: SandboxListener) -> String { "\(host.url(listener))/api" }
    /// The secret that the written configuration expects at the end of a webhook's address; random in each run.
    public let webhookSecret = UUID().uuidString.lowercased()
    /// The behaviour of the platform from now on.
    public var rules: Rules {
        get { withState { $0.rules } }
        set { withState { $0.rules = newValue } }
    }
    /// The newest requests, oldest first, including refused ones.
    public var requests: [Request] { withState { $0.requests } }

    /// Returns the messages that a state accepted, oldest first.
    public func messages(_ listener: SandboxListener = sandbox) -> [Message] {
        withState { $0.spaces[listener]?.messages ?? [] }
    }

    /// Returns the installations of a state, by id.
    public func installations(_ listener: SandboxListener = sandbox) -> [String: JSONObject] {
        withState { $0.spaces[listener]?.installations ?? [:] }
    }

    /// Returns the tags of a user with their values.
    public func tags(of user: String, _ listener: SandboxListener = sandbox) -> [String: String] {
        withState { $0.spaces[listener]?.tags[user] ?? [:] }
    }

    /// Adds an installation and returns its id.
    @discardableResult
    public func addInstallation(
        of user: String,
        _ fields: JSONObject = ["deviceType": "ios", "deviceToken": "5e5e"],
        _ listener: SandboxListener = sandbox
    ) -> String {
        withState { state in
            var fields = fields
            fields["userId"] = .string(user)
            return state.spaces[listener, default: .init()].addInstallation(fields)
        }
    }

    /// Forgets an installation, as the platform does.
    public func forget(_ installation: String, _ listener: SandboxListener = sandbox) {
        withState { $0.spaces[listener]?.installations[installation] = nil }
    }

    /// Records that a user's device has done something with a message: `delivered`, `seen`, `dismiss`.
    public func mark(_ message: String, _ list: String, by user: String, _ listener: SandboxListener = sandbox) {
        withState { $0.spaces[listener]?.marks[message, default: [:]][list, default: []].append(user) }
    }

    /// Adds uninstalled devices to a state's report.
    public func addUninstalls(_ rows: [JSONObject], _ listener: SandboxListener = sandbox) {
        withState { $0.spaces[listener, default: .init()].uninstalls += rows }
    }

    func withState<Value: Sendable>(_ body: (inout sending ChabokState) -> sending Value) -> Value {
        guarded.withLock(body)
    }
}

extension ChabokSimulator: WebSimulator {}

/// The state of the simulator; the platform's two states share only the rules and the record of requests.
struct ChabokState: Sendable {
    struct Space: Sendable {
        var installations: [String: JSONObject] = [:]
        var messages: [ChabokSimulator.Message] = []
        var tags: [String: [String: String]] = [:]
        var marks: [String: [String: [String]]] = [:]
        var uninstalls: [JSONObject] = []
        private var number = 0

        mutating func newID(_ prefix: String) -> String {
            number += 1
            return "\(prefix)\(number)"
        }

        mutating func addInstallation(_ fields: JSONObject) -> String {
            let id = newID("i")
            installations[id] = fields
            installations[id]?["id"] = .string(id)
            return id
        }

        func devices(of user: String) -> Int {
            installations.values.count { $0["userId"]?.stringValue == user }
        }
    }

    var rules: ChabokSimulator.Rules
    var requests: [ChabokSimulator.Request] = []
    var spaces: [SandboxListener: Space] = [ChabokSimulator.sandbox: Space(), ChabokSimulator.production: Space()]

    init(_ rules: ChabokSimulator.Rules) { self.rules = rules }

    mutating func record(_ request: ChabokSimulator.Request) {
        requests.append(request)
        if requests.count > ChabokSimulator.recorded { requests.removeFirst(ChabokSimulator.recorded / 2) }
    }
}
