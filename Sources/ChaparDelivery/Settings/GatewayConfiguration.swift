public import Foundation
public import ChaparCore
public import ChaparComposition
internal import ChaparQueue

/// The settings of a configuration file, without the backends, which are built from it.
///
/// Made by `ConfigurationLoader` from a file, or by code. It is a value: a reload makes a new one.
public struct GatewayConfiguration: Sendable {
    /// The section `server`.
    public var server = Server()
    /// The section `server.tls`; nil speaks plain HTTP.
    public var tls: TLS?
    /// The section `limits`.
    public var limits = Limits()
    /// The section `store`.
    public var store = Store()
    /// The section `queue`.
    public var queue = Queue()
    /// The section `invalidation_guard`.
    public var invalidationGuard = InvalidationGuard()
    /// The section `apps` and the apps of the backends, by name.
    public var apps: [AppName] = [.default]
    /// `apps.NAME.receipts`: the apps whose messages have an id with which the app reports arrivals and openings.
    ///
    /// None by default.
    public var receipts: [AppName: Receipts] = [:]
    /// The section `routes`, in the order of the file.
    public var routes: [Route] = []
    /// The section `lists`: what messages may be about (`options.list`), and whether users who chose nothing get them.
    public var lists: [String: Bool] = [:]
    /// `token_priority`: the order in which a device's tokens are preferred when no route decides.
    ///
    /// Services that the file leaves out follow in the default order.
    public var tokenPriority = TokenService.priority
    /// `auth.api_keys`: the API keys of callers.
    ///
    /// Without an API key, and without ``isKeyless``, every request that needs a key is refused, and the program
    /// creates a first key.
    public var apiKeys: [APIKey] = []
    /// `auth.keyless`: whether every program that reaches the loopback address, or the socket's file, may do everything
    /// without a key.
    ///
    /// Default false; it has no effect when there are keys.
    public var isKeyless = false
    /// The section `log`.
    public var log = Log()
    /// The section `audit`; nil keeps no record.
    public var audit: Audit?
    /// The section `access_log`; nil writes none.
    public var accessLog: AccessLog?
    /// The section `webhooks`.
    public var webhooks = Webhooks()
    /// The section `tracing`; nil sends no spans.
    public var tracing: Tracing?

    /// Makes a configuration with every default.
    public init() {}

    /// The address that the API listens on, and the limits of its connections.
    public struct Server: Sendable, Hashable {
        /// `host`: the address to listen on; `127.0.0.1` by default.
        ///
        /// An address that is not a loopback address needs API keys.
        public var host = "127.0.0.1"
        /// `port`: the port to listen on; 8080 by default, 0 takes a free port.
        public var port = 8080
        /// `unix_socket`: the path of a Unix socket to listen on, instead of ``host`` and ``port``.
        ///
        /// A process may connect if it can write to the file; its mode is 0660.
        public var unixSocket: String?
        /// `max_body_bytes`: the most bytes of a request's body; 8 MiB by default.
        public var maximumBodyBytes = 8 << 20
        /// `max_requests`: the most requests handled at a time; further requests get 503.
        ///
        /// Default 10,000.
        public var maximumRequests = 10_000
        /// `trusted_proxies`: addresses and networks of proxies whose `X-Forwarded-For` is believed; none by default.
        public var trustedProxies: [String] = []
        /// Makes the defaults.
        public init() {}
    }

    /// The limits of requests and callers.
    public struct Limits: Sendable, Hashable {
        /// `content_bytes`: the most bytes of one notification's content, options and overrides together, as they were
        /// sent.
        ///
        /// They are stored once for a notification. Default 64 KiB: platforms take 4 KiB of each message, and a
        /// notification may have its texts in many languages, or for several platforms.
        public var contentBytes = 64 << 10
        /// `requests_per_second`: the most requests a second of an API key without a limit of its own; 0 is no limit.
        public var requestsPerSecond = 0
        /// `connections_per_peer`: the most connections of one address, or requests in progress of an address behind a
        /// trusted proxy.
        ///
        /// Default 1,000; never more than half of all connections.
        public var connectionsPerPeer = 1000
        /// `streams_per_key`: the most event streams of one API key; 20 by default.
        ///
        /// All keys together have 100.
        public var streamsPerKey = 20
        /// Makes the defaults.
        public init() {}
    }

    /// The store of accepted notifications.
    public struct Store: Sendable, Hashable {
        /// `kind`: the kind of store; for `postgres`, ``postgres`` says where it is.
        ///
        /// Default `sqlite`.
        public var kind = Kind.sqlite
        /// The keys of `kind: postgres`.
        public var postgres = Postgres()
        /// `path`: the database file, relative to the configuration's folder.
        ///
        /// Default `./chapar.db`.
        public var path = "./chapar.db"
        /// `durability`: `full` survives a power loss, `normal` only a crash of the process.
        ///
        /// Default full.
        public var durability = Durability.full
        /// `min_free_bytes`: the free space, in bytes, below which new work is refused.
        ///
        /// Default 256 MiB.
        public var minimumFreeBytes: Int64 = 256 << 20
        /// `max_waiting`: the number of waiting deliveries above which new work is refused.
        ///
        /// Default 5,000,000.
        public var maximumWaiting = 5_000_000
        /// `retention`: how long a finished notification can be looked up, default 7 days.
        public var retention = Duration.seconds(7 * 86400)
        /// `event_retention`: how long an event can be read again, default 1 day.
        public var eventRetention = Duration.seconds(86400)
        /// `max_bytes`: the number of bytes used in the store's files from which new work is refused; 0 is no limit.
        public var maximumBytes: Int64 = 0
        /// `encryption`: the keys that credentials in the store are encrypted with; none by default.
        public var encryption = Encryption()
        /// Makes the defaults.
        public init() {}

        /// The kinds of stores.
        @nonexhaustive
        public enum Kind: String, Sendable, CaseIterable {
            /// The embedded store: one file, one process.
            case sqlite
            /// A PostgreSQL database that several gateways share.
            case postgres
        }

        /// The place of a PostgreSQL database, and how this gateway uses it.
        public struct Postgres: Sendable, Hashable {
            /// `url`: the address of the database; it may have the password.
            public var url: Secret?
            /// `password`: the password of the database, in the place of the URL's.
            public var password: Secret?
            /// `schema`: the schema of the tables, default `chapar`.
            public var schema = "chapar"
            /// `node`: this gateway's name among those that share the database; nil is the host's name.
            public var node: String?
            /// `node_lease`: the time without a renewal after which other gateways take over this gateway's work.
            ///
            /// Default 15 s.
            public var nodeLease = Duration.seconds(15)
            /// `pooled`: whether a pooler that assigns connections per transaction stands before the database.
            public var isPooled = false
            /// `poll_only`: whether the gateway searches for other gateways' work once a second, instead of listening
            /// for it on a connection.
            public var pollsOnly = false
            /// Makes the defaults.
            public init() {}
        }

        /// The failures that a commit survives.
        @nonexhaustive
        public enum Durability: String, Sendable, CaseIterable {
            /// A power loss.
            case full
            /// A crash of the process.
            case normal
        }
    }

    /// The times and limits of delivery attempts.
    public struct Queue: Sendable, Hashable {
        /// `default_ttl`: how long a notification without a TTL is tried, default 24 h.
        public var defaultTimeToLive = Duration.seconds(86400)
        /// `first_retry`: the upper bound of the first wait, doubled with each attempt; the wait is drawn at random
        /// below it.
        ///
        /// Default 10 s.
        public var firstRetry = Duration.seconds(10)
        /// `max_retry`: the limit of that upper bound, default 15 min.
        public var maximumRetry = Duration.seconds(900)
        /// `max_attempts`: the number of attempts after which a delivery fails.
        ///
        /// Default 50.
        public var maximumAttempts = 50
        /// `lease`: the time without a report from a backend after which a batch is given up; 120 s by default.
        public var lease = Duration.seconds(120)
        /// `drain`: the time that messages with a platform get for their answers at shutdown; 25 s by default.
        public var drain = Duration.seconds(25)
        /// `idempotency_window`: how long an idempotency key is remembered, at least the default of 24 h.
        public var idempotencyWindow = Duration.seconds(86400)
        /// `payload_check`: whether a field that a platform would drop is refused or reported as a warning.
        public var payloadCheck = PayloadCheckMode.warn
        /// `fallback_after`: how long a delivery waits for a failing backend before it goes to the next backend of its
        /// plan.
        ///
        /// A route may have a value of its own. Nil, the default, waits until the time to live ends.
        public var fallbackAfter: Duration?
        /// Makes the defaults.
        public init() {}

        /// The treatment of a notification with fields that its platform would drop.
        @nonexhaustive
        public enum PayloadCheckMode: String, Sendable, CaseIterable {
            /// Accept it, with warnings in the answer.
            case warn
            /// Refuse it.
            case strict
        }
    }

    /// The backends for recipients that match.
    public struct Route: Sendable, Hashable {
        /// `name`: the name by which a request can select the route.
        public var name: String?
        /// The app of its backends and recipients.
        public var app: AppName
        /// `match.platform`: `ios` or `android`.
        public var platform: String?
        /// `match.service`: a token service.
        public var service: TokenService?
        /// `use`: one backend, `fallback: […]` with an optional `on_unknown`, or `fan_out: […]`.
        public var plan: DeliveryPlan

        /// Whether every backend of ``plan`` gets its own delivery (`fan_out`), instead of one after the other.
        public var isFanOut: Bool {
            get { plan.need != nil }
            set { plan.need = newValue ? (plan.need ?? .any) : nil }
        }

        /// Makes a route; `isFanOut` sends through every backend of the plan, as `DeliveryPlan.all` says it.
        public init(
            name: String? = nil,
            app: AppName = .default,
            platform: String? = nil,
            service: TokenService? = nil,
            plan: DeliveryPlan,
            isFanOut: Bool = false
        ) {
            self.name = name
            self.app = app
            self.platform = platform
            self.service = service
            self.plan = plan
            if isFanOut { self.isFanOut = true }
        }
    }

    /// A caller, with its scopes and limits.
    public struct APIKey: Sendable, Hashable {
        /// `name`: the caller's name, for logs and idempotency.
        public var name: String
        /// `hash`: the SHA-256 of the key, as `chapar keys create` prints it, lower-case hexadecimal without its
        /// prefix.
        ///
        /// There are several while the key is being rotated: each is valid.
        public var hashes: [String]
        /// `scopes`: what the key may be used for.
        public var scopes: Set<Scope>
        /// `app`: the app whose devices and users the key may use; nil for all apps.
        public var app: AppName?
        /// `backends`: the backends that the key may use; nil for all, or for all of ``app``.
        public var backends: Set<String>?
        /// `requests_per_second`: the most requests a second; nil is `limits.requests_per_second`, 0 no limit.
        public var requestsPerSecond: Int?
        /// `not_after`: the wall-clock time from which the key is invalid; nil is never.
        public var notAfter: Date?
        /// `queue_share`: the largest part of `store.max_waiting` that the key's waiting deliveries may take, above 0
        /// and at most 1.
        ///
        /// With nil it is half when another key may send, and all otherwise.
        public var queueShare: Double?
        /// `max_audience`: the most devices of one audience; nil is any number.
        public var maximumAudience: Int?
        /// Whether the program created it at its first start, since the configuration has no key.
        public var isFirst = false

        /// Makes a key.
        public init(
            name: String,
            hashes: [String],
            scopes: Set<Scope>,
            app: AppName? = nil,
            backends: Set<String>? = nil,
            requestsPerSecond: Int? = nil,
            notAfter: Date? = nil,
            queueShare: Double? = nil
        ) {
            self.requestsPerSecond = requestsPerSecond
            self.queueShare = queueShare
            self.name = name
            self.hashes = hashes
            self.scopes = scopes
            self.app = app
            self.backends = backends
            self.notAfter = notAfter
        }

        /// The permissions that a key can have.
        @nonexhaustive
        public enum Scope: String, Sendable, CaseIterable {
            /// Sending, and cancelling notifications sent with the key.
            case send
            /// Messages to every user of a platform: `everyone`, tags with nothing but `none`, a topic that reaches
            /// every user.
            ///
            /// It needs ``send`` as well, and `allow_broadcast` in the backend's section.
            case broadcast
            /// The device registry, with the fingerprints of its tokens.
            case devices
            /// Reading the states and events of notifications sent with the key, backends, and metrics.
            case read
            /// Finding and reading the notifications of every sender through the backends that the key may use, without
            /// device tokens and contents.
            case readAll = "read_all"
            /// The contents of what ``readAll`` finds.
            case readContent = "read_content"
            /// Metrics alone.
            case metrics
            /// The webhooks of the key's app, or of every app for a key without one, which get the events of all
            /// senders.
            case webhooks
            /// Everything, for all senders, including device tokens and operations.
            case admin
        }
    }

    /// The audit log of what callers did.
    public struct Audit: Sendable, Hashable {
        /// `path`: the file, relative to the configuration's folder; older files have a number at the end.
        public var path: String
        /// `max_bytes`: the most bytes of one file, default 64 MiB.
        public var maximumBytes = 64 << 20
        /// `files`: the most files, default 5; refused attempts have that number of files as well.
        public var files = 5
        /// The file of refused attempts: ``path`` with `refused` before the last part of its name, such as
        /// `audit.refused.jsonl`.
        public var refusedPath: String {
            let name = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
            guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return path + ".refused" }
            return path[..<dot] + ".refused" + path[dot...]
        }

        /// Makes the settings.
        public init(path: String) { self.path = path }
    }

    /// The log of single requests.
    public struct AccessLog: Sendable, Hashable {
        /// The requests that get a line.
        @nonexhaustive
        public enum Requests: String, Sendable, CaseIterable {
            /// Every one.
            case all
            /// Requests that send.
            case sends
        }

        /// `path`: the file, relative to the configuration's folder; older files have a number at the end.
        public var path: String
        /// `requests`: which requests are logged, default `all`.
        public var requests = Requests.all
        /// `max_bytes`: the most bytes of one file, default 64 MiB.
        public var maximumBytes = 64 << 20
        /// `files`: the most files, default 5.
        public var files = 5

        /// Makes the settings.
        public init(path: String) { self.path = path }
    }

    /// The level and the form of the program's log.
    public struct Log: Sendable, Hashable {
        /// The setting `level` of the log: the least severe level that is written; `info` by default.
        public var level = "info"
        /// The setting `format` of the log: `text` or `json`; `text` by default.
        public var format = Format.text
        /// Makes the defaults.
        public init() {}

        /// The form of a log line.
        @nonexhaustive
        public enum Format: String, Sendable, CaseIterable {
            /// Text for people.
            case text
            /// One JSON object per line.
            case json
        }
    }
}
