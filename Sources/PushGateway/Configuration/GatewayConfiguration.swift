public import Foundation
public import PushCore
public import PushComposition
internal import PushQueue

/// The settings of a configuration file, but for the backends, which are built from it.
///
/// Made by ``ConfigurationLoader`` from a file, or by code directly. A value: a reload makes a new one.
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
    /// The section `routes`, in the order of the file.
    public var routes: [Route] = []
    /// `token_priority`: the order in which a device's tokens are preferred, where no route decides.
    ///
    /// Services that the file leaves out follow in the default order.
    public var tokenPriority = TokenService.priority
    /// `auth.api_keys`: who may call.
    ///
    /// Without one, and without ``isKeyless``, every request for which a key is needed is refused; the program makes a
    /// first key then.
    public var apiKeys: [APIKey] = []
    /// `auth.keyless`: without a key every program that reaches the loopback address, or the socket's file, may do
    /// everything.
    ///
    /// Default false; it means nothing beside keys.
    public var isKeyless = false
    /// The section `log`.
    public var log = Log()
    /// The section `audit`; nil keeps no record.
    public var audit: Audit?
    /// The section `access_log`; nil writes none.
    public var accessLog: AccessLog?

    /// Makes a configuration with every default.
    public init() {}

    /// Where and how the API listens.
    public struct Server: Sendable, Hashable {
        /// `host`, default `127.0.0.1`.
        ///
        /// Another address than a loopback one needs API keys.
        public var host = "127.0.0.1"
        /// `port`, default 8080; 0 takes a free one.
        public var port = 8080
        /// `unix_socket`: the path of a socket of the file system to listen on, instead of ``host`` and ``port``.
        ///
        /// Whoever may write to the file may connect; its mode is 0660.
        public var unixSocket: String?
        /// `max_body_bytes`: the largest request, default 8 MiB.
        public var maximumBodyBytes = 8 << 20
        /// `max_requests`: requests handled at a time; further ones get 503.
        ///
        /// Default 10,000.
        public var maximumRequests = 10_000
        /// `trusted_proxies`: addresses and networks of proxies whose `X-Forwarded-For` is believed; none by default.
        public var trustedProxies: [String] = []
        /// Makes the defaults.
        public init() {}
    }

    /// What a request may hold.
    public struct Limits: Sendable, Hashable {
        /// `content_bytes`: the most bytes of one notification's content, options and overrides together, as they were
        /// sent.
        ///
        /// They are stored once a notification. Default 64 KiB: platforms take 4 KiB of each message, and a
        /// notification may bring that in many languages, or for several platforms.
        public var contentBytes = 64 << 10
        /// `requests_per_second`: the most requests a second of each API key that says nothing else; 0 is no limit.
        public var requestsPerSecond = 0
        /// `connections_per_peer`: the most connections of one address, or requests in progress of one behind a trusted
        /// proxy.
        ///
        /// Default 1,000; never more than half of all connections.
        public var connectionsPerPeer = 1000
        /// `streams_per_key`: the most event streams of one API key, of 100 for all; default 20.
        public var streamsPerKey = 20
        /// Makes the defaults.
        public init() {}
    }

    /// Where accepted notifications live.
    public struct Store: Sendable, Hashable {
        /// `kind`: which store; with `postgres`, ``postgres`` says where it is.
        ///
        /// Default `sqlite`.
        public var kind = Kind.sqlite
        /// The keys of `kind: postgres`.
        public var postgres = Postgres()
        /// `path`: the database file, relative to the configuration's folder.
        ///
        /// Default `./chapar.db`.
        public var path = "./chapar.db"
        /// `durability`: `full` survives a power loss, `normal` a crash of the process only.
        ///
        /// Default full.
        public var durability = Durability.full
        /// `min_free_bytes`: with less free space new work is refused.
        ///
        /// Default 256 MiB.
        public var minimumFreeBytes: Int64 = 256 << 20
        /// `max_waiting`: with more waiting deliveries new work is refused.
        ///
        /// Default 5,000,000.
        public var maximumWaiting = 5_000_000
        /// `retention`: how long a finished notification can be looked up, default 7 days.
        public var retention = Duration.seconds(7 * 86400)
        /// `event_retention`: how long an event can be read again, default 1 day.
        public var eventRetention = Duration.seconds(86400)
        /// `max_bytes`: with so many bytes in use in the store's files new work is refused; 0 is no bound.
        public var maximumBytes: Int64 = 0
        /// `encryption`: the keys that credentials in the store are encrypted with; none by default.
        public var encryption = Encryption()
        /// Makes the defaults.
        public init() {}

        /// The stores there are.
        @nonexhaustive
        public enum Kind: String, Sendable, CaseIterable {
            /// The embedded store: one file, one process.
            case sqlite
            /// A PostgreSQL database that several gateways share.
            case postgres
        }

        /// Where a PostgreSQL database is, and how this gateway uses it.
        public struct Postgres: Sendable, Hashable {
            /// `url`: the database; it may hold the password.
            public var url: Secret?
            /// `password`: in place of the URL's.
            public var password: Secret?
            /// `schema`: where the tables are, default `chapar`.
            public var schema = "chapar"
            /// `node`: what this gateway is called among those that share the database; nil stands for the host's name.
            public var node: String?
            /// `node_lease`: after so long without a sign of life others take over this gateway's work.
            ///
            /// Default 15 s.
            public var nodeLease = Duration.seconds(15)
            /// `pooled`: a pooler that shares connections by the transaction stands before the database.
            public var isPooled = false
            /// `poll_only`: other gateways' work is looked for each second, without a connection that listens.
            public var pollsOnly = false
            /// Makes the defaults.
            public init() {}
        }

        /// What a commit survives.
        @nonexhaustive
        public enum Durability: String, Sendable, CaseIterable {
            /// A power loss.
            case full
            /// A crash of the process.
            case normal
        }
    }

    /// How deliveries are tried.
    public struct Queue: Sendable, Hashable {
        /// `default_ttl`: how long a notification without a TTL is tried, default 24 h.
        public var defaultTimeToLive = Duration.seconds(86400)
        /// `first_retry`: the upper bound of the first wait, doubled with each attempt; the wait is drawn at random
        /// below it.
        ///
        /// Default 10 s.
        public var firstRetry = Duration.seconds(10)
        /// `max_retry`: the upper bound's own bound, default 15 min.
        public var maximumRetry = Duration.seconds(900)
        /// `max_attempts`: then it fails.
        ///
        /// Default 50.
        public var maximumAttempts = 50
        /// `lease`: how long a backend may be silent about what it was handed before that is given up, default 120 s.
        public var lease = Duration.seconds(120)
        /// `drain`: how long open sends get at shutdown, default 25 s.
        public var drain = Duration.seconds(25)
        /// `idempotency_window`: how long an idempotency key is remembered, at least the default of 24 h.
        public var idempotencyWindow = Duration.seconds(86400)
        /// `payload_check`: whether a field that a platform would drop is refused or reported as a warning.
        public var payloadCheck = PayloadCheckMode.warn
        /// `patience`: how long a delivery waits for a failing backend before it goes on to the next of its plan,
        /// unless its route says otherwise.
        ///
        /// Default nil: as long as the delivery lives.
        public var fallbackDelay: Duration?
        /// Makes the defaults.
        public init() {}

        /// What happens to a notification with fields that its platform would drop.
        @nonexhaustive
        public enum PayloadCheckMode: String, Sendable, CaseIterable {
            /// Accepted, with warnings in the answer.
            case warn
            /// Refused.
            case strict
        }
    }

    /// Which backends a recipient goes through.
    public struct Route: Sendable, Hashable {
        /// `name`, by which a request can ask for it.
        public var name: String?
        /// The app of its backends, whose recipients it is for.
        public var app: AppName
        /// `match.platform`: `ios` or `android`.
        public var platform: String?
        /// `match.service`: a token service.
        public var service: TokenService?
        /// `use`: one backend, `fallback: […]` with an optional `on_unknown`, or `fan_out: […]`.
        public var plan: DeliveryPlan
        /// Whether every backend of ``plan`` gets a delivery of its own (`fan_out`), instead of one after the other.
        public var isFanOut: Bool

        /// Makes a route.
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
            self.isFanOut = isFanOut
        }
    }

    /// Who may call, and what for.
    public struct APIKey: Sendable, Hashable {
        /// `name`, for logs and idempotency.
        public var name: String
        /// `hash`: the SHA-256 of the key, as `chapar keys create` prints it, lower-case hexadecimal without its
        /// prefix.
        ///
        /// Several while the key is being rotated: each opens.
        public var hashes: [String]
        /// `scopes`.
        public var scopes: Set<Scope>
        /// `app`: the app whose devices and users it is for; nil is all.
        public var app: AppName?
        /// `backends`: the names of those that it may send through and work with; nil is all, or all of ``app``.
        public var backends: Set<String>?
        /// `requests_per_second`: the most requests a second; nil is `limits.requests_per_second`, 0 no limit.
        public var requestsPerSecond: Int?
        /// `not_after`: the time of day from which on it opens nothing; nil is never.
        public var notAfter: Date?
        /// `queue_share`: the largest part of `store.max_waiting` that the key's waiting deliveries may take, above 0
        /// and at most 1.
        ///
        /// Nil is half where another key may send, and all where none may.
        public var queueShare: Double?
        /// Whether the program made it at its first start, since the configuration has none.
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

        /// What a key may be used for.
        @nonexhaustive
        public enum Scope: String, Sendable, CaseIterable {
            /// Sending, and cancelling what was sent with the key.
            case send
            /// A message to every user of a platform: `everyone`, tags with nothing but `none`, a topic that reaches
            /// every user.
            ///
            /// Beside ``send``, and only where the backend's section says `allow_broadcast`.
            case broadcast
            /// The device registry, with the fingerprints of its tokens.
            case devices
            /// Reading the states and events of what was sent with the key, backends, and metrics.
            case read
            /// Metrics alone.
            case metrics
            /// Everything, whoever sent it, device tokens and operations included.
            case admin
        }
    }

    /// Where it is kept who did what.
    public struct Audit: Sendable, Hashable {
        /// `path`: the file, relative to the configuration's folder; older ones have a number after it.
        public var path: String
        /// `max_bytes` of one file, default 64 MiB.
        public var maximumBytes = 64 << 20
        /// `files`: how many there are at most, default 5; of refused attempts as many again.
        public var files = 5
        /// Where refused attempts stand: beside ``path``, with `refused` before the last part of its name, such as
        /// `audit.refused.jsonl`.
        public var refusedPath: String {
            let name = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
            guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return path + ".refused" }
            return path[..<dot] + ".refused" + path[dot...]
        }

        /// Makes the settings.
        public init(path: String) { self.path = path }
    }

    /// Where requests are listed, one by one.
    public struct AccessLog: Sendable, Hashable {
        /// Which requests get a line.
        @nonexhaustive
        public enum Requests: String, Sendable, CaseIterable {
            /// Every one.
            case all
            /// Those that send.
            case sends
        }

        /// `path`: the file, relative to the configuration's folder; older ones have a number after it.
        public var path: String
        /// `requests`, default `all`.
        public var requests = Requests.all
        /// `max_bytes` of one file, default 64 MiB.
        public var maximumBytes = 64 << 20
        /// `files`: how many there are at most, default 5.
        public var files = 5

        /// Makes the settings.
        public init(path: String) { self.path = path }
    }

    /// What is logged.
    public struct Log: Sendable, Hashable {
        /// `level`, default `info`.
        public var level = "info"
        /// `format`: `text` or `json`.
        ///
        /// Default text.
        public var format = Format.text
        /// Makes the defaults.
        public init() {}

        /// The form of a log line.
        @nonexhaustive
        public enum Format: String, Sendable, CaseIterable {
            /// For people.
            case text
            /// One JSON object a line.
            case json
        }
    }
}
