public import Foundation
internal import ChaparCore
internal import ChaparSimulator

/// A device in the simulator of APNs.
public struct APNsDevice: Sendable, Hashable {
    /// The state of the app on the device.
    @nonexhaustive
    public enum State: Sendable, Hashable {
        /// It takes pushes.
        case registered
        /// It was removed at this time: 410 `Unregistered`.
        case unregistered(since: Date)
        /// Its token ended at this time: 410 `ExpiredToken`.
        case expired(since: Date)
    }

    /// The topic the token was made for: a bundle id, which covers its suffixes, or a whole topic.
    ///
    /// Nil for any topic.
    public var topic: String?
    /// The state of the app.
    public var state: State
    /// Whether the device can be reached now.
    ///
    /// Pushes to an unreachable device are stored, only the newest for each app.
    public var isOnline: Bool

    /// Makes a device.
    public init(topic: String? = nil, state: State = .registered, isOnline: Bool = true) {
        self.topic = topic
        self.state = state
        self.isOnline = isOnline
    }
}

/// The state of the simulated service: keys, devices, channels, deliveries, faults.
struct APNsState: Sendable {
    private(set) var keys: [String: APNsKeyRegistration] = [:]
    var devices: [APNsEnvironment: [String: APNsDevice]] = [:]
    var channels = APNsChannels()
    var inbox: APNsInbox
    var counters = APNsCounters()
    var faults: FaultEngine
    var random: SeededGenerator
    var magicSeen = BoundedSet<String>(limit: 100_000)
    private var tokenCache: [String: APNsProviderToken?] = [:]
    private var keyGeneration = 0
    private var devicePushes: [String: [Date]] = [:]

    init(seed: UInt64, inboxLimit: Int) {
        random = SeededGenerator(seed: seed)
        inbox = APNsInbox(limit: inboxLimit)
        faults = FaultEngine()
    }

    mutating func register(_ key: APNsKeyRegistration) {
        keys[key.keyID] = key
        forgetTokens()
    }

    mutating func revoke(keyID: String) {
        keys[keyID] = nil
        forgetTokens()
    }

    /// Returns the provider token of an `authorization` value; nil when it is invalid.
    ///
    /// Each text is verified once.
    mutating func providerToken(
        _ authorization: String?,
        connection: inout APNsConnectionState,
        isStrict: Bool
    ) -> APNsProviderToken? {
        guard let authorization else { return nil }
        if let last = connection.lastAuthorization, last.generation == keyGeneration, last.text == authorization {
            return last.token
        }
        let token: APNsProviderToken?
        if let known = tokenCache[authorization] {
            token = known
        } else {
            token = APNsProviderToken(authorization: authorization, keys: keys, isStrict: isStrict)
            if tokenCache.count >= 1000 { tokenCache.removeAll() }
            tokenCache[authorization] = .some(token)
        }
        connection.lastAuthorization = (authorization, keyGeneration, token)
        return token
    }

    /// Counts a push to a device and returns the number of pushes in the last minute.
    mutating func countPush(to token: String, now: Date) -> Int {
        if devicePushes.count >= 100_000 { devicePushes.removeAll() }
        var times = devicePushes[token] ?? []
        times.removeAll { now.timeIntervalSince($0) >= 60 }
        times.append(now)
        devicePushes[token] = times
        return times.count
    }

    /// Clears the inbox, the counters, the faults and the memory of magic tokens; keys, devices and channels stay.
    mutating func reset() {
        inbox = APNsInbox(limit: inbox.limit)
        counters = APNsCounters()
        faults = FaultEngine()
        magicSeen = BoundedSet(limit: 100_000)
        devicePushes.removeAll()
    }

    private mutating func forgetTokens() {
        tokenCache.removeAll()
        keyGeneration += 1
    }
}
