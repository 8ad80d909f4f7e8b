public import PushCore
public import PushQueue

/// A part of a gateway's HTTP API that a plugin brings, beside the platforms: release notes are one.
///
/// The gateway asks it about every path under its prefix, checks the caller, reads the body, and sends what it answers.
/// A module has no access to servers; what it needs of the gateway goes through a ``ModuleGate``.
public protocol GatewayModule: Sendable {
    /// How its paths begin, such as `/v1/apps/`.
    var prefix: String { get }

    /// What a path without its query names; nil when there is nothing.
    func endpoint(_ path: Substring) -> ModuleEndpoint?

    /// Answers a request to one of its endpoints, which the caller may use.
    func answer(_ request: ModuleRequest, through gate: any ModuleGate) async throws(ModuleProblem) -> ModuleAnswer
}

/// What a path of a module names, and who may use it how.
public struct ModuleEndpoint: Sendable, Equatable {
    /// Who may use a method.
    @nonexhaustive
    public enum Access: Sendable, Equatable {
        /// Everybody.
        case open
        /// Keys with the scope `read`.
        case read
        /// Keys with the scope `admin`; for a path of an app those that may use every backend of the app.
        case admin
    }

    /// The path with its variable parts as names, for metrics: `/v1/apps/{app}/versions.json`.
    public var pattern: String
    /// The methods, such as `GET`, with the scope that each needs; the scope of GET holds for HEAD.
    public var methods: [String: Access]
    /// The app of the path; nil for a path of no app.
    ///
    /// Where several apps share the gateway, a key for other apps gets the answer 404.
    public var app: String?

    /// Makes an endpoint.
    public init(_ pattern: String, _ methods: [String: Access], app: String? = nil) {
        self.pattern = pattern
        self.methods = methods
        self.app = app
    }
}

/// A request to a module.
public struct ModuleRequest: Sendable {
    /// The method, upper case; a HEAD comes as a GET.
    public var method: String
    /// The path, without its query.
    public var path: String
    /// The query's fields, decoded; of a repeated one the first counts.
    public var query: [String: String]
    /// The header fields, names in lower case.
    public var headers: [HTTPHeader]
    /// The body; empty for a GET.
    public var body: [UInt8]

    /// Makes a request.
    public init(
        method: String,
        path: String,
        query: [String: String] = [:],
        headers: [HTTPHeader] = [],
        body: [UInt8] = []
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
    }

    /// The first value of the field `name`, which is given in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// What a module answers.
public struct ModuleAnswer: Sendable {
    /// The HTTP status.
    public var status: Int
    /// The header fields, names in lower case.
    public var headers: [HTTPHeader]
    /// The body.
    public var body: [UInt8]

    /// Makes an answer.
    public init(_ status: Int, headers: [HTTPHeader] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// Why a module does not do what it was asked: the gateway answers it as problem details.
public struct ModuleProblem: Error, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The stable word for programs.
    public var code: String
    /// What is wrong, in a few words.
    public var title: String
    /// What to do about it.
    public var detail: String?
    /// The wrong fields.
    public var errors: [Finding]
    /// When to try again, where that helps.
    public var retryAfter: Duration?

    /// Makes a problem.
    public init(
        _ status: Int,
        _ code: String,
        _ title: String,
        detail: String? = nil,
        errors: [Finding] = [],
        retryAfter: Duration? = nil
    ) {
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.errors = errors
        self.retryAfter = retryAfter
    }
}

/// What a module may ask of the gateway it is part of.
public protocol ModuleGate: Sendable {
    /// A page of the devices of the app with this name, in the order of registration; a gateway with one app gives that
    /// one's, whatever the name.
    ///
    /// - Throws: `PushError.Code.invalidRequest` when the gateway has several apps and none of this name.
    func devices(of app: String, after cursor: DeviceCursor?, limit: Int) async throws(PushError) -> DevicePage

    /// The backend through which a device is reached; nil when none reaches it.
    ///
    /// `names` are the backends to choose from, in order; nil leaves it to the routes.
    func backend(for device: Device, among names: [String]?) -> String?

    /// The names of the configured backends, in the order of the file.
    var backends: [String] { get }

    /// Accepts a notification as `POST /v1/notifications` does; the same key gives the first answer again.
    func accept(_ notification: JSONObject, idempotencyKey: String) async throws(PushError) -> NotificationID

    /// How the devices of a notification stand, by their ids within the app; empty when it is forgotten.
    func states(of notification: NotificationID) async throws(PushError) -> [String: DeliveryState]
}

/// What a plugin exports for a module: how it is made from its section of a configuration file.
public struct ModuleFactory: Sendable {
    /// The key of its section, such as `release_notes`.
    public let key: String
    /// Makes a module of its section; nil after reporting at least one issue.
    public let make: @Sendable (ConfigSection, BackendContext) -> (any GatewayModule)?

    /// Makes a factory.
    public init(_ key: String, make: @escaping @Sendable (ConfigSection, BackendContext) -> (any GatewayModule)?) {
        self.key = key
        self.make = make
    }
}
