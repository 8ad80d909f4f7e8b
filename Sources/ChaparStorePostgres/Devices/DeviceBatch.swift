internal import ChaparCore
internal import ChaparQueue

/// The devices that the calls of a transaction may change, in memory: changes are decided here, and written by
/// ``DeviceWriter``.
///
/// It is filled under locks (``RegistryLocks``) with each device that the calls name, and each that has a token they
/// name. The rules of registration and refusal are `ChaparQueue`'s (`RegisteredToken`, `Device`).
struct DeviceBatch {
    /// A device before and after.
    struct Change {
        /// Its number; nil for a new one.
        let number: Int64?
        let old: Device?
        fileprivate(set) var new: Device?
    }

    private struct Ownership: Hashable {
        var app: AppName
        var token: DeviceToken
    }

    private var devices: [Change] = []
    private var places: [String: Int] = [:]
    private var owners: [Ownership: Int] = [:]
    /// The places of changed devices, in the order of their first change.
    private var touched: [Int] = []
    private var isTouched: Set<Int> = []
    /// The devices that the current call has changed, as they were before it, in the order of their first change.
    private var before: [(place: Int, device: Device?)] = []
    private var isBefore: Set<Int> = []
    /// The locked tokens: any other may belong to a device that is not in the batch.
    private let tokens: Set<DeviceToken>

    /// Makes a batch of stored devices and the tokens that are locked.
    init(_ stored: [StoredDevice], tokens: Set<DeviceToken> = []) {
        self.tokens = tokens
        for (place, found) in stored.enumerated() {
            devices.append(Change(number: found.number, old: found.device, new: found.device))
            places[found.device.id] = place
            for token in found.device.tokens {
                owners[Ownership(app: found.device.app, token: token.token)] = place
            }
        }
    }

    /// The devices that differ from their stored form, in the order of their first change.
    var changes: [Change] { touched.map { devices[$0] }.filter { $0.old != $0.new } }

    /// Returns what the current call has changed, for the outbox, and begins the next call; a device that loses a token
    /// comes before the one that gets it.
    mutating func takeContents() -> [OutboxChange.Content] {
        defer {
            before.removeAll(keepingCapacity: true)
            isBefore.removeAll(keepingCapacity: true)
        }
        return before.compactMap { OutboxChange.Content(from: $0.device, to: devices[$0.place].new) }
    }

    /// Returns a device as it is now; nil when there is none.
    func device(_ id: String) -> Device? { places[id].flatMap { devices[$0].new } }

    // MARK: Devices

    /// Creates or replaces devices.
    mutating func put(_ list: [Device]) -> [DevicePut] {
        var results = list.map { device -> DevicePut in
            guard let place = places[device.id], let old = devices[place].new else {
                return DevicePut(register(device.roundedToMilliseconds, at: nil), isNew: true)
            }
            var new = device.replacing(old).roundedToMilliseconds
            new.createdAt = old.createdAt
            return DevicePut(register(new, at: place), isNew: false)
        }
        // A later device of the call may have taken a token from an earlier one.
        for index in results.indices {
            if let now = device(results[index].device.id) { results[index].device = now }
        }
        return results
    }

    /// The result of a patch.
    enum Patched: Sendable {
        /// The device as it is now; nil when there is none.
        case done(Device?)
        /// Nothing was changed: the device would get these tokens, which are not locked.
        case lacks(Set<DeviceToken>)
    }

    /// Changes a device.
    mutating func patch(_ id: String, _ change: (inout Device) -> Void) -> Patched {
        guard let place = places[id], let old = devices[place].new else { return .done(nil) }
        var new = old
        change(&new)
        let missing = Set(new.tokens.map(\.token)).subtracting(tokens).subtracting(old.tokens.map(\.token))
        guard missing.isEmpty else { return .lacks(missing) }
        new.id = id
        new = new.roundedToMilliseconds
        new.createdAt = old.createdAt
        return .done(register(new, at: place))
    }

    /// Removes a device; false when there is none.
    mutating func delete(_ id: String) -> Bool {
        guard let place = places[id], devices[place].new != nil else { return false }
        set(nil, at: place)
        return true
    }

    /// Stores a device at its place, or at a new one, without tokens that another device has registered later.
    private mutating func register(_ device: Device, at place: Int?) -> Device {
        var new = device
        let held = place.flatMap { devices[$0].new?.tokens } ?? []
        for token in device.tokens where !held.contains(token) {
            guard let owner = owners[Ownership(app: device.app, token: token.token)],
                let known = devices[owner].new?.tokens.first(where: { $0.token == token.token })
            else {
                new.setToken(token.registered(over: nil))
                continue
            }
            if owner == place {
                new.setToken(token.registered(over: known))
            } else if known.isYounger(than: token) {
                new.removeToken(of: token.slot)
            } else {
                changeTokens(at: owner) { $0.removeToken(of: known.slot) }
                new.setToken(token.registered(over: known))
            }
        }
        let place = place ?? devices.count
        if place == devices.count {
            devices.append(Change(number: nil, old: nil, new: nil))
            places[new.id] = place
        }
        set(new, at: place)
        return new
    }

    private mutating func changeTokens(at place: Int, _ change: (inout Device) -> Void) {
        guard var device = devices[place].new else { return }
        change(&device)
        set(device, at: place)
    }

    private mutating func set(_ new: Device?, at place: Int) {
        if let old = devices[place].new {
            for token in old.tokens {
                let ownership = Ownership(app: old.app, token: token.token)
                if owners[ownership] == place { owners[ownership] = nil }
            }
        }
        if isBefore.insert(place).inserted { before.append((place, devices[place].new)) }
        devices[place].new = new
        if let new {
            for token in new.tokens { owners[Ownership(app: new.app, token: token.token)] = place }
        }
        if isTouched.insert(place).inserted { touched.append(place) }
    }

    // MARK: Tokens

    /// Removes tokens from their devices.
    mutating func remove(_ tokens: [DeviceToken], in app: AppName) {
        for token in tokens {
            guard let (place, known) = owner(of: token, in: app) else { continue }
            changeTokens(at: place) { $0.removeToken(of: known.slot) }
        }
    }

    /// Records refusals of single backends; returns those of tokens that all alternatives have refused.
    mutating func record(_ refusals: [TokenRefusal]) -> [TokenRefusal] {
        var exhausted: [TokenRefusal] = []
        for refusal in refusals {
            guard let (place, known) = owner(of: refusal.token, in: refusal.app) else {
                if refusal.isLast { exhausted.append(refusal) }
                continue
            }
            switch known.effect(of: refusal) {
            case .none: break
            case .refused(let token): changeTokens(at: place) { $0.setToken(token) }
            case .exhausted: exhausted.append(refusal)
            }
        }
        return exhausted
    }

    /// Marks tokens invalid, or quarantines them; returns those that are new.
    mutating func refuse(_ refusals: [TokenRefusal], isQuarantined: Bool) -> [InvalidatedToken] {
        var invalidated: [InvalidatedToken] = []
        for refusal in refusals {
            guard let (place, known) = owner(of: refusal.token, in: refusal.app),
                let dead = known.refused(refusal, isQuarantined: isQuarantined), let tombstone = dead.tombstone
            else { continue }
            changeTokens(at: place) { $0.setToken(dead) }
            if let device = devices[place].new { invalidated.append(InvalidatedToken(device, dead, tombstone)) }
        }
        return invalidated
    }

    /// Changes up to `limit` tokens that are quarantined for a backend; returns them as they were.
    mutating func change(
        quarantinedOf backend: String,
        limit: Int,
        _ change: (RegisteredToken) -> RegisteredToken
    ) -> [InvalidatedToken] {
        var changed: [InvalidatedToken] = []
        for place in devices.indices {
            guard let device = devices[place].new else { continue }
            for token in device.tokens where changed.count < limit {
                guard let tombstone = token.tombstone, tombstone.isQuarantined, tombstone.backend == backend else {
                    continue
                }
                changeTokens(at: place) { $0.setToken(change(token)) }
                changed.append(InvalidatedToken(device, token, tombstone))
            }
        }
        return changed
    }

    private func owner(of token: DeviceToken, in app: AppName) -> (place: Int, token: RegisteredToken)? {
        guard let place = owners[Ownership(app: app, token: token)],
            let known = devices[place].new?.tokens.first(where: { $0.token == token })
        else { return nil }
        return (place, known)
    }
}

extension InvalidatedToken {
    init(_ device: Device, _ token: RegisteredToken, _ tombstone: Tombstone) {
        self.init(device: device.id, user: device.user, token: token.token, kind: token.kind, tombstone: tombstone)
    }
}
