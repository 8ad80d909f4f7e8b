public import ChaparCore
public import ChaparQueue

/// A part of a gateway's HTTP API that a plugin adds, beside the platforms, such as release notes.
///
/// The gateway calls it for every path under its prefix, checks the caller, reads the body, and sends the answer. A
/// module has no access to servers; it uses the gateway through a ``ModuleGate``.
public protocol GatewayModule: Sendable {
    /// The beginning of its paths, such as `/v1/apps/`.
    ///
    /// The module is also asked about the prefix without the slash at its end.
    var prefix: String { get }

    /// Returns the endpoint of a path without its query; nil when there is none.
    func endpoint(_ path: Substring) -> ModuleEndpoint?

    /// Answers a request to one of its endpoints, after the gateway has checked that the caller may use it.
    func answer(_ request: ModuleRequest, through gate: any ModuleGate) async throws(ModuleProblem) -> ModuleAnswer

    /// Returns the answer to a request that was refused, in the module's own form; nil leaves it to the gateway, which
    /// sends problem details.
    ///
    /// Called for every refusal on one of its paths: without a key, beyond a limit, while the gateway stops.
    func answer(to problem: ModuleProblem) -> ModuleAnswer?
}

extension GatewayModule {
    /// Leaves refusals to the gateway.
    public func answer(to problem: ModuleProblem) -> ModuleAnswer? { nil }
}

/// The endpoint that a path of a module names, with the access that each method needs.
public struct ModuleEndpoint: Sendable, Equatable {
    /// The callers that may use a method.
    @nonexhaustive
    public enum Access: Sendable, Equatable {
        /// Every caller, even without a key.
        case open
        /// Keys with the scope `read`.
        case read
        /// Keys with the scope `metrics`, which `read` includes.
        case metrics
        /// Keys with the scope `send`.
        case send
        /// Keys with the scope `admin`; for a path of an app, those that may use every backend of the app.
        case admin
    }

    /// The path with its variable parts as names, for metrics: `/v1/apps/{app}/versions.json`.
    public var pattern: String
    /// The methods, such as `GET`, with the access that each needs; the access of GET holds for HEAD.
    public var methods: [String: Access]
    /// The app of the path; nil for a path that belongs to no app.
    ///
    /// Where several apps share the gateway, a key for other apps gets a 404.
    public var app: String?
    /// Whether a body of any content type is taken, for callers of another system; else it must be JSON.
    ///
    /// The requirement of JSON keeps the pages of other sites away. Without it the gateway refuses their requests by
    /// the header fields that browsers add.
    public var takesAnyContentType = false
    /// Whether a key may also be the password of `Authorization: Basic`, for callers that only have an address to set.
    public var takesBasicCredentials = false
    /// The largest body, in bytes, below the gateway's own limit.
    public var largestBody = 1 << 20

    /// Makes an endpoint.
    public init(_ pattern: String, _ methods: [String: Access], app: String? = nil) {
        self.pattern = pattern
        self.methods = methods
        self.app = app
    }
}

/// A request to a module.
public struct ModuleRequest: Sendable {
    /// The method, upper case; a HEAD is passed as a GET.
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

    /// Returns the first value of the field `name`, which is given in lower case.
    public func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
}

/// The answer of a module.
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

/// The reason why a module refuses a request; the gateway sends it as problem details.
public struct ModuleProblem: Error, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The stable word for programs.
    public var code: String
    /// The problem, in a few words.
    public var title: String
    /// The fix.
    public var detail: String?
    /// The wrong fields.
    public var errors: [Finding]
    /// The time after which to try again, where that helps.
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

/// The services of the gateway that a module may use.
public protocol ModuleGate: Sendable {
    /// Returns a page of the devices of an app, in the order of registration; a gateway with one app returns that
    /// one's for any name.
    ///
    /// - Throws: `PushError.Code.invalidRequest` when the gateway has several apps and none of this name.
    func devices(of app: String, after cursor: DeviceCursor?, limit: Int) async throws(PushError) -> DevicePage

    /// Returns the backend that reaches a device; nil when none does.
    ///
    /// `names` are the backends to choose from, in order; nil leaves it to the routes.
    func backend(for device: Device, among names: [String]?) -> String?

    /// The names of the configured backends, in the order of the file.
    var backends: [String] { get }

    /// Accepts a notification like `POST /v1/notifications`; a repeated key returns the first answer.
    func accept(_ notification: JSONObject, idempotencyKey: String) async throws(PushError) -> NotificationID

    /// Accepts notifications like `POST /v1/notifications/batch`: those that can be accepted, in one commit.
    ///
    /// - Parameters:
    ///   - notifications: At most 1,000 notifications.
    ///   - idempotencyKey: The caller's key, under which a repetition of `request` gets the first result; nil without.
    ///   - request: The bytes that a repetition repeats.
    /// - Returns: A result for each notification, in their order.
    /// - Throws: The problem of the whole: a full queue, a store that fails, a key that was used with other bytes.
    ///   Then none is stored.
    func accept(
        _ notifications: [JSONObject],
        idempotencyKey: String?,
        request: [UInt8]
    ) async throws(ModuleProblem) -> [ModuleAcceptance]

    /// Waits until the deliveries of notifications have ended, at most for a span.
    ///
    /// It ends early when the gateway stops.
    /// - Returns: The deliveries of each notification, in the order of the recipients.
    func outcomes(
        of notifications: [NotificationID],
        within span: Duration
    ) async throws(PushError) -> [NotificationID: [ModuleDelivery]]

    /// Returns what is wrong with a token, as a sentence; nil for one that its platform may take.
    func problem(with token: DeviceToken) -> String?

    /// Returns the states of a notification's devices, by their ids within the app; empty when it is no longer stored.
    func states(of notification: NotificationID) async throws(PushError) -> [String: DeliveryState]

    /// Returns the metrics that the caller may see, in the text form of Prometheus.
    func metrics() async -> String
}

/// The result for one of several notifications that a module sent at once.
@nonexhaustive
public enum ModuleAcceptance: Sendable, Equatable {
    /// It is on disk.
    case accepted(NotificationID)
    /// It was refused, and is not stored; the sentence says why, with the fields.
    case refused(String)
}

/// A delivery of a notification that a module sent.
public struct ModuleDelivery: Sendable, Equatable {
    /// The recipient.
    public var recipient: Recipient
    /// The state.
    public var state: DeliveryState
    /// Why it was not accepted, in the platform's words; nil for a delivery that was, or that goes on.
    public var reason: String?

    /// Makes a delivery.
    public init(_ recipient: Recipient, _ state: DeliveryState, reason: String? = nil) {
        self.recipient = recipient
        self.state = state
        self.reason = reason
    }
}

/// The entry point of a plugin with a module: makes it from its section of a configuration file.
public struct ModuleFactory: Sendable {
    /// The key of its section, such as `release_notes`.
    public let key: String
    /// Makes a module from its section; nil after reporting at least one issue.
    public let make: @Sendable (ConfigSection, BackendContext) -> (any GatewayModule)?

    /// Makes a factory.
    public init(_ key: String, make: @escaping @Sendable (ConfigSection, BackendContext) -> (any GatewayModule)?) {
        self.key = key
        self.make = make
    }
}
