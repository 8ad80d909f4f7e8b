/// The changes of devices by clients, and so the state that the synchronised platform must have in the end.
struct DeviceModel {
    /// The possible versions of a device, by the last answer and by requests without an answer; nil is removed.
    private var versions: [String: [String?]] = [:]
    /// Changes of this incarnation whose clients went away: they may still be made.
    private var unanswered: [String: [String?]] = [:]
    private var changing: Set<String> = []
    /// Devices of users whose erasure was not answered: the gateway may go on with it at any time.
    private var mayBeErased: Set<String> = []
    private var isKnown = true

    /// Whether a device may be changed now: one request at a time, so that their order is known.
    mutating func begin(_ device: String) -> Bool { changing.insert(device).inserted }

    /// Whether a device is surely registered now, so that an erasure of its user finds it.
    func isRegistered(_ device: String) -> Bool {
        guard let versions = versions[device] else { return false }
        return !versions.contains(nil) && unanswered[device] == nil && !mayBeErased.contains(device)
    }

    /// Whether the erasure of the device's user was ever asked for.
    private(set) var everErased: Set<String> = []

    /// The erasure of the user of these devices is asked for.
    mutating func beginErasure(_ devices: [String]) {
        changing.formUnion(devices)
        everErased.formUnion(devices)
    }

    /// Whether a request that changes a device is under way.
    func isChanging(_ device: String) -> Bool { changing.contains(device) }

    /// Ends a request that ``begin(_:)`` has begun; without a status it was not answered.
    ///
    /// Over a database a failure is not certain: the answer to the commit may have been lost.
    mutating func changed(_ device: String, to version: String?, status: Int?, isOverDatabase: Bool) {
        changing.remove(device)
        switch status {
        case nil: unanswered[device, default: []].append(version)
        case (200..<300)?, 404?: versions[device] = [version]
        case 503? where isOverDatabase: versions[device, default: [nil]].append(version)
        default: break  // Refused: nothing has changed.
        }
    }

    /// Ends the erasure of the user of these devices.
    mutating func erased(_ devices: [String], isAnswered: Bool) {
        for device in devices {
            changing.remove(device)
            if isAnswered {
                versions[device] = [nil]
                mayBeErased.remove(device)
            } else {
                mayBeErased.insert(device)
            }
        }
    }

    /// The gateway stopped: what was not answered may have been done or not.
    mutating func interrupt() {
        for (device, others) in unanswered { versions[device, default: [nil]] += others }
        unanswered = [:]
    }

    /// Checks nothing from now on: a platform that was not configured has missed changes.
    mutating func forget() { isKnown = false }

    /// Whether there is something to compare with what the platform has.
    var isJudged: Bool { isKnown && !versions.isEmpty }

    /// Where the platform's record differs from what it must be; nil when it is as it must be for every device.
    func difference(from platform: SimulatedPlatform) -> String? {
        guard isKnown else { return nil }
        for (device, versions) in versions.sorted(by: { $0.key < $1.key }) {
            let known = platform.devices[device] ?? nil
            let versions = versions + (unanswered[device] ?? []) + (mayBeErased.contains(device) ? [nil] : [])
            if !versions.contains(known) {
                return "\(platform.name) has \(device) as \(known ?? "none") instead of \(versions)"
            }
        }
        return nil
    }
}
