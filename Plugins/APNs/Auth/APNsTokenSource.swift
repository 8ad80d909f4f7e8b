import Foundation
public import Logging
public import ChaparCore
import Synchronization

/// The provider tokens of one (team, key): mints them, gives one to each connection, and obeys both of Apple's time
/// rules.
///
/// Apple wants a token changed at least once an hour and at most once in 20 minutes on a connection. So a new one is
/// minted when the newest is 30 minutes old, and never within 20 minutes of the last. A connection keeps the token that
/// it began with until that is 50 to 54 minutes old. At most two tokens live at once, and none is sent that is older
/// than 55 minutes. When Apple says that tokens change too often, none is minted for 20 minutes, except to replace a
/// token of 55 minutes: minting waits, sending does not. When Apple calls a young token expired, another connection
/// tries it. If it is refused there too, it is withheld from further connections for a second and then tried again,
/// with waits that double up to a minute, since two wrong answers prove nothing. Signing is short, so it happens under
/// the lock: a thousand refusals at once get the same new token.
///
/// The newest token survives a restart in the `StateStore`, which several nodes share, since Apple counts the tokens of
/// all nodes together. ``APNsBackend`` uses it through its connection policy, other code as an `AuthStrategy`.
public final class APNsTokenSource: Sendable {
    /// The spans of the rules, in seconds.
    enum Rule {
        static let leastBetweenMints: Int64 = 20 * 60
        static let newTokenAfter: Int64 = 30 * 60
        static let moveAfter: Int64 = 50 * 60
        static let neverOlderThan: Int64 = 55 * 60
        static let tolerableSkew: Double = 60
        /// The first time, in seconds, for which a young token is withheld after refusals on two connections; it
        /// doubles up to `longestHold`.
        static let firstHold: Int64 = 1
        static let longestHold: Int64 = 60
    }

    /// A problem for health and logs, with the time until which it is shown.
    struct Alert: Sendable, Hashable {
        let text: String
        let until: Int64
    }

    struct State {
        var newest: APNsProviderToken?
        /// The token each connection began with.
        ///
        /// An entry is removed when its token may not be sent any more.
        var pins: [UInt64: APNsProviderToken] = [:]
        /// The time from which the newest token is suspected: a refusal on a connection that was opened later confirms
        /// it.
        var suspectSince: ContinuousClock.Instant?
        /// The time until which the newest token is withheld after refusals on two connections; the first connection
        /// after that tries it again.
        var heldUntil: Int64?
        /// The time, in seconds, for which the next refusal withholds it.
        var nextHold = Rule.firstHold
        /// The time before which no token is minted, since Apple said that tokens change too often.
        var noMintBefore: Int64 = 0
        var alert: Alert?
        /// The number of the newest token that was refused as expired and has a successor: connections that carry it
        /// must be replaced.
        var refusedGeneration: UInt64 = 0
        var mustReplaceConnections = false
        var generation: UInt64 = 0
        var isRestored = false
        var isUnsaved = false
    }

    let key: APNsAuthKey
    let keyID: String
    let teamID: String
    let addresses: [HTTPEndpoint]
    let state = Mutex(State())
    private let time: any TimeSource
    private let store: (any StateStore)?
    private let logger: Logger

    /// Apple's own hosts, for sending and for channels.
    public static let appleHosts = APNsOptions.Environment.allCases.flatMap { environment in
        [443, 2197].map { APNsOptions.host(environment, $0) } + [APNsOptions.management(environment)]
    }

    /// Makes a source; nothing is minted before the first use.
    ///
    /// - Parameters:
    ///   - key: The key that signs.
    ///   - keyID: The key's id.
    ///   - teamID: The team's id.
    ///   - addresses: The only addresses whose requests carry a token when the source is used as an `AuthStrategy`.
    ///   - store: The store in which the newest token survives a restart.
    ///   - logger: Its log.
    public convenience init(
        key: APNsAuthKey,
        keyID: String,
        teamID: String,
        for addresses: [HTTPEndpoint] = APNsTokenSource.appleHosts,
        store: (any StateStore)? = nil,
        logger: Logger
    ) {
        self.init(
            key: key,
            keyID: keyID,
            teamID: teamID,
            for: addresses,
            time: SystemTime(),
            store: store,
            logger: logger
        )
    }

    /// Makes a source with a given clock.
    package init(
        key: APNsAuthKey,
        keyID: String,
        teamID: String,
        for addresses: [HTTPEndpoint] = APNsTokenSource.appleHosts,
        time: any TimeSource,
        store: (any StateStore)? = nil,
        logger: Logger
    ) {
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
        self.addresses = addresses
        self.time = time
        self.store = store
        self.logger = logger
    }

    var now: Int64 { Int64(clamping: time.now.timeIntervalSince1970.rounded(.down)) }

    /// The number of tokens that this process has minted or taken from the store; for tests.
    var generation: UInt64 { state.withLock { $0.generation } }

    /// The present problem, in a sentence with its fix; nil when there is none.
    var alert: String? {
        let now = now
        return state.withLock { $0.alert.flatMap { now < $0.until ? $0.text : nil } }
    }

    // MARK: Tokens for connections

    /// Returns the header field for calls on a connection: with the token that it began with, until that is 50 to 54
    /// minutes old.
    func header(for connection: HTTPConnectionInfo) throws(HTTPFailure) -> HTTPHeader {
        let now = now
        let result = state.withLock { state -> Result<HTTPHeader, HTTPFailure> in
            // Spread by the connection's number, so that the connections do not all change within one second.
            let moveAfter = Rule.moveAfter.adding(clamping: 60 * Int64(connection.id % 5))  // Fits: below five.
            if let pin = state.pins[connection.id], now.subtracting(clamping: pin.issuedAt) < moveAfter {
                return .success(pin.header)
            }
            return usable(&state, now).map { token in
                state.pins = state.pins.filter { now.subtracting(clamping: $0.value.issuedAt) < Rule.neverOlderThan }
                state.pins[connection.id] = token
                return token.header
            }
        }
        return try result.get()
    }

    /// Returns the newest token, and mints one first when that is due.
    func newest() throws(HTTPFailure) -> APNsProviderToken {
        let now = now
        return try state.withLock { usable(&$0, now) }.get()
    }

    private func usable(_ state: inout State, _ now: Int64) -> Result<APNsProviderToken, HTTPFailure> {
        guard let newest = state.newest else { return mint(&state, now) }
        if let until = state.heldUntil, now < until {
            return .failure(HTTPFailure(.notProcessed, .credentials, state.alert?.text ?? APNsRejections.clockHint))
        }
        let age = now.subtracting(clamping: newest.issuedAt)
        let mayMint =
            age.magnitude >= Rule.leastBetweenMints && (now >= state.noMintBefore || age >= Rule.neverOlderThan)
        // A negative age means that the clock was set back after the token was minted: the token counts as expired.
        let isDue = age >= Rule.newTokenAfter || age < 0 || state.suspectSince != nil
        return isDue && mayMint ? mint(&state, now) : .success(newest)
    }

    private func mint(_ state: inout State, _ now: Int64) -> Result<APNsProviderToken, HTTPFailure> {
        do {
            let token = try APNsProviderToken.mint(
                key: key,
                keyID: keyID,
                teamID: teamID,
                issuedAt: now,
                generation: state.generation + 1
            )
            adopt(token, in: &state)
            state.isUnsaved = true
            return .success(token)
        } catch {
            return .failure(HTTPFailure(.notProcessed, .credentials, "the provider token cannot be signed"))
        }
    }

    private func adopt(_ token: APNsProviderToken, in state: inout State) {
        state.newest = token
        state.generation = token.generation
        state.suspectSince = nil
        (state.heldUntil, state.nextHold) = (nil, Rule.firstHold)
    }

    // MARK: Refusals

    /// Handles Apple's answer that the token of a connection has expired.
    func expired(on connection: HTTPConnectionInfo) {
        let now = now
        state.withLock { state in
            guard let newest = state.newest, let pin = state.pins.removeValue(forKey: connection.id) else { return }
            if pin.generation < newest.generation {
                Self.replace(pin.generation, in: &state)  // There is a newer token already.
            } else if now.distance(clamping: newest.issuedAt) >= Rule.leastBetweenMints, now >= state.noMintBefore {
                _ = mint(&state, now)
                Self.replace(pin.generation, in: &state)
                state.suspectSince = .now  // If the new one is refused too, it is not the token's age.
            } else if let since = state.suspectSince, connection.openedAt > since {
                Self.hold(&state, now)
            } else if state.suspectSince == nil {
                state.suspectSince = .now  // Perhaps only this connection is at fault: the next shows it.
            }
        }
    }

    /// Withholds the newest token from further connections for a while, after which one of them may try it again.
    private static func hold(_ state: inout State, _ now: Int64) {
        // The token was accepted for some time after the last hold, so the waits begin anew.
        if let until = state.heldUntil, now >= until.adding(clamping: Rule.longestHold) {
            state.nextHold = Rule.firstHold
        }
        let until = now.adding(clamping: state.nextHold)
        state.heldUntil = until
        state.nextHold = min(state.nextHold.adding(clamping: state.nextHold), Rule.longestHold)
        state.suspectSince = .now  // Connections that are open already prove nothing.
        state.alert = Alert(text: APNsRejections.clockHint, until: until.adding(clamping: Rule.longestHold))
    }

    /// Requests that all connections be replaced, once for each refused token.
    private static func replace(_ generation: UInt64, in state: inout State) {
        guard generation > state.refusedGeneration else { return }
        state.refusedGeneration = generation
        state.mustReplaceConnections = true
    }

    /// Whether all connections are to be replaced: true once after a refused token was replaced.
    func consumeReplacement() -> Bool {
        state.withLock { state in
            defer { state.mustReplaceConnections = false }
            return state.mustReplaceConnections
        }
    }

    /// Decides what follows Apple's answer that the token of `generation` has expired.
    func expired(generation: UInt64) -> AuthDecision {
        let now = now
        return state.withLock { state in
            guard let newest = state.newest, generation == newest.generation else { return .retry }
            guard now.distance(clamping: newest.issuedAt) >= Rule.leastBetweenMints, now >= state.noMintBefore else {
                state.alert = Alert(
                    text: APNsRejections.clockHint,
                    until: newest.issuedAt.adding(clamping: Rule.leastBetweenMints)
                )
                return .giveUp(APNsRejections.clockHint)
            }
            if case .failure(let failure) = mint(&state, now) { return .giveUp(failure.detail) }
            return .retry
        }
    }

    /// Stops minting for 20 minutes, since Apple said that tokens change too often.
    func tooManyUpdates() {
        let until = now.adding(clamping: Rule.leastBetweenMints)
        state.withLock { state in
            state.noMintBefore = until
            state.alert = Alert(text: APNsRejections.tooManyHint, until: until)
        }
    }

    /// Clears the newest token of suspicion: a request that had been refused succeeded with it.
    func confirm() {
        state.withLock { state in
            state.suspectSince = nil
            state.nextHold = Rule.firstHold
            if state.heldUntil != nil { (state.heldUntil, state.alert) = (nil, nil) }
        }
    }

    /// Compares this machine's clock with Apple's, when an answer has a date.
    func compareClock(with date: Date?) {
        guard let date else { return }
        let offset = time.now.timeIntervalSince(date)
        guard abs(offset) > Rule.tolerableSkew else { return }
        let way = offset > 0 ? "ahead" : "behind"
        let text =
            "This machine's clock is \(Int(clamping: abs(offset))) s \(way). Set it, or Apple refuses the provider tokens."
        let until = now.adding(clamping: 3600)
        state.withLock { $0.alert = Alert(text: text, until: until) }
    }

    // MARK: Over restarts

    /// Loads, mints or saves the token before a send, when one of these is due; in most calls none is.
    func prepare() async {
        let now = now
        let isDue = state.withLock { state in
            guard state.isRestored, !state.isUnsaved, let newest = state.newest else { return true }
            let age = now.subtracting(clamping: newest.issuedAt)
            return age >= Rule.newTokenAfter && now >= state.noMintBefore || age >= Rule.neverOlderThan
        }
        guard isDue else { return }
        await restore()
        _ = try? newest()  // A failure comes back on the connection, to the calls it concerns.
        await save()
    }

    private func restore() async {
        let stored: [UInt8]?
        do {
            stored = try await store?.loadState(stateName)
        } catch {
            logger.debug("provider token not loaded", metadata: ["error": "\(error)"])
            stored = nil
        }
        let now = now
        state.withLock { state in
            state.isRestored = true
            guard let stored, let token = Self.decode(stored, generation: state.generation + 1),
                token.issuedAt > state.newest?.issuedAt ?? .min,
                (-Rule.leastBetweenMints..<Rule.moveAfter).contains(now.subtracting(clamping: token.issuedAt)),
                token.isMade(by: key, keyID: keyID, teamID: teamID)
            else { return }
            adopt(token, in: &state)
            state.isUnsaved = false
        }
    }

    private func save() async {
        let token = state.withLock { state -> APNsProviderToken? in
            defer { state.isUnsaved = false }
            return state.isUnsaved ? state.newest : nil
        }
        guard let token, let store else { return }
        do {
            try await store.saveState(stateName, Self.encode(token))
        } catch {
            logger.debug("provider token not kept", metadata: ["error": "\(error)"])
        }
    }

    private var stateName: String { "apns.provider-token.\(teamID).\(keyID)" }

    private static func encode(_ token: APNsProviderToken) -> [UInt8] {
        JSONValue.object(["jwt": .string(token.jwt.reveal()), "iat": .integer(token.issuedAt)]).bytes
    }

    private static func decode(_ bytes: [UInt8], generation: UInt64) -> APNsProviderToken? {
        guard let value = try? JSONValue(parsing: bytes), let jwt = value["jwt"]?.stringValue,
            let issuedAt = value["iat"]?.integerValue
        else { return nil }
        return APNsProviderToken(jwt: Secret(jwt), issuedAt: issuedAt, generation: generation)
    }
}
