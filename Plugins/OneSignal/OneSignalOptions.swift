import Foundation
public import ChaparCore
public import ChaparOneSignalDevices

/// How a OneSignal app is reached and used.
///
/// The factory in `OneSignalPlugin.swift` reads it from a section of the configuration and checks it there; code sets
/// it by hand. What differs between OneSignal's two models follows from ``deviceAPI``.
public struct OneSignalOptions: Sendable {
    /// How the key is written into the `Authorization` field.
    @nonexhaustive
    public enum AuthScheme: String, Sendable, CaseIterable {
        /// `Key` for keys that begin with `os_v2_`, else `Basic`.
        case auto
        /// `Key …`, for keys of today.
        case key
        /// `Basic …` with the key as it is, for legacy keys.
        case basic
    }

    /// Which of OneSignal's two models devices are kept by.
    @nonexhaustive
    public enum DeviceAPI: String, Sendable, CaseIterable {
        /// Users who own subscriptions.
        case users
        /// The player API, for apps with SDKs from before the user model.
        case players
    }

    /// The entitlement of iOS tokens whose device does not say.
    public typealias Environment = OneSignalEnvironment

    /// Where the API listens.
    public static let address = HTTPBaseURL(HTTPEndpoint(host: "api.onesignal.com"))
    /// The segments that hold all subscriptions of an app: `All`, and two that OneSignal makes in each app.
    static let everyoneSegments: Set<String> = ["All", "Subscribed Users", "Total Subscriptions"]
    /// The most ids in one request of the user model and of the legacy mode.
    public static let batchLimits: [DeviceAPI: Int] = [.users: 20_000, .players: 2_000]

    /// The app's id, a UUID in lower case.
    public var appID: String
    /// The app's API key.
    public var apiKey: Secret
    /// Reads the key again after a refusal, when it comes from a file; nil when it does not.
    public var reloadKey: (@Sendable () -> Secret?)?
    /// How the key is written.
    public var authScheme = AuthScheme.auto
    /// Which model devices are kept by.
    public var deviceAPI = DeviceAPI.users
    /// The entitlement of iOS tokens whose device does not say.
    public var environment = Environment.production
    /// The most ids in one request; nil is the limit of the model.
    public var batchSize: Int?
    /// The segment that means everybody.
    public var everyoneSegment = "All"
    /// Whether a message may go to every user, and which segments hold all of them beside OneSignal's own and
    /// ``everyoneSegment``.
    public var broadcast = BroadcastRule()
    /// Whether device tokens are addressed as they are, which OneSignal advises against.
    public var allowsRawTokens = false
    /// Whether a time to send is left to OneSignal, where it can be cancelled.
    public var schedulesOnPlatform = false
    /// Whether counts are compared some time after each send to named ids; a shortfall is a notice of the backend.
    public var reconcilesCounts = false
    /// The most recipients in 15 minutes; 0 is no guard.
    public var maximumMessagesPer15Minutes = 0
    /// The most creates and cancels a second.
    public var requestLimit = 150
    /// The shortest time between two writes of one device.
    public var writeSpacing = Duration.seconds(1)
    /// The pauses before each further search for a subscription that OneSignal has not written yet.
    public var lookAgain: [Duration] = [.seconds(1), .seconds(2), .seconds(4)]
    /// Where the API listens; another address is that of a relay or a simulator.
    public var base = Self.address
    /// How to connect.
    public var common = CommonBackendOptions(timeout: .seconds(60))

    /// Makes options; nothing is checked here.
    public init(appID: String, apiKey: Secret) {
        self.appID = appID.lowercased()
        self.apiKey = apiKey
    }

    /// The most ids in one request.
    var chunkSize: Int { batchSize ?? Self.batchLimits[deviceAPI] ?? 2_000 }

    /// ``broadcast`` with every segment that holds every user of the app.
    var broadcastRule: BroadcastRule { broadcast.adding(topics: Self.everyoneSegments.union([everyoneSegment])) }

    /// The pool that calls go through.
    var pool: HTTPPoolConfiguration {
        var pool = HTTPPoolConfiguration(endpoint: base.endpoint, version: .http1)
        common.apply(to: &pool)
        pool.endpoint = base.endpoint
        return pool
    }
}

extension OneSignalOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    ///
    /// An `auth` in the section stands in the key's place.
    init?(_ section: ConfigSection, readsCommon: Bool = true) {
        let before = section.report.issues.count
        let appID = section.requiredString("app_id", "the app's id, a UUID").map {
            $0.trimmingCharacters(in: .whitespacesAndNewlines)
        }
        if let appID, UUID(uuidString: appID) == nil {
            section.reject("app_id", "is not a UUID", fix: "Settings > Keys & IDs shows it.")
        }
        self.init(appID: appID ?? "", apiKey: Secret(""))
        if section.holdsMap("auth") {
            apiKey = section.secret("api_key") ?? Secret("none")
        } else {
            readKey(section)
        }
        authScheme = section.choice("auth_scheme", default: .auto)
        deviceAPI = section.choice("device_api", default: .users)
        environment = section.choice("environment", default: .production)
        batchSize = section.integer("batch_size", in: 1...20_000)
        if deviceAPI == .players, let batchSize, batchSize > 2_000 {
            section.reject("batch_size", "\(batchSize) is more than the player API takes", fix: "Write at most 2000.")
        }
        everyoneSegment = section.string("everyone_segment", default: "All")
        broadcast = BroadcastRule(section)
        allowsRawTokens = section.bool("allow_raw_tokens", default: false)
        schedulesOnPlatform = section.bool("schedule_on_platform", default: false)
        reconcilesCounts = section.choice("reconcile", default: Reconcile.off) == .counts
        maximumMessagesPer15Minutes = section.integer("max_messages_per_15min", in: 0...1_000_000_000, default: 0)
        requestLimit = section.integer("request_limit", in: 1...6_000, default: 150)
        if readsCommon {
            (common, base) = section.connection(default: Self.address, connections: 8, timeout: .seconds(60))
        }
        guard section.report.issues.count == before else { return nil }
    }

    private enum Reconcile: String, CaseIterable { case off, counts }

    private mutating func readKey(_ section: ConfigSection) {
        let fromFile = section.file("api_key_file").map { Secret(Self.trimmed($0)) }
        if section.has("api_key_file"), section.has("api_key") {
            section.reject("api_key_file", "cannot stand beside api_key", fix: "Keep one of the two.")
        }
        guard let key = fromFile ?? section.secret("api_key") else {
            if !section.has("api_key"), !section.has("api_key_file") {
                section.missing("api_key", "the app's API key, as \"${ONESIGNAL_KEY}\"")
            }
            return
        }
        let text = key.reveal()
        let source = fromFile == nil ? "api_key" : "api_key_file"
        if key.isBlank {
            section.reject(source, "is empty")
        } else if UUID(uuidString: text) != nil {
            section.reject(source, "is an app id, not a key", fix: "Settings > Keys & IDs makes API keys.")
        } else if text.hasPrefix("os_v2_org_") {
            section.reject(source, "is an organisation's key", fix: "Use a key of the app: os_v2_app_…")
        } else if !text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
            section.reject(source, "holds characters that no key has")
        }
        apiKey = key
        // A key that is rotated in its file takes effect without a restart if the path is absolute, so that it is found
        // again.
        if fromFile != nil, let path = section.string("api_key_file"), path.hasPrefix("/") {
            reloadKey = { FileManager.default.contents(atPath: path).map { Secret(Self.trimmed(Array($0))) } }
        }
    }

    private static func trimmed(_ bytes: [UInt8]) -> String {
        String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
