internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// A device that a request addresses, by its id or by its user.
struct RegistryRecipient: Sendable {
    var device: Device
    /// The index in the request's list that named it.
    var position: Int
}

/// The lookup of `to.devices`, `to.users` and `to.activity`: one delivery for each device, decided when the
/// notification is accepted.
extension NotificationDraft {
    /// Whether its recipients must be looked up in the registry before it can be checked.
    ///
    /// It is false for devices or users of a platform, which a request addresses when it names a backend that accepts
    /// them.
    func needsRegistry(_ routing: RoutingTable) -> Bool {
        if isLookedUp { return false }
        if notification.activity != nil { return true }
        switch recipients.first {
        case .device, .user: break
        default: return false
        }
        guard let backend, let form = recipients.first?.form else { return true }
        return !(routing.backend(backend)?.audience.forms.contains(form) ?? false)
    }

    /// Replaces the ids and users that the request names by the registry's devices.
    ///
    /// An id without a device is a mistake, a user without devices a warning; no device at all is a mistake.
    mutating func lookUp(in store: any DeviceStore, _ issues: inout RequestIssues) async throws(StoreError) {
        if let activity = notification.activity {
            try await lookUp(activity, in: store, &issues)
        } else if audienceField == "users" {
            try await lookUpUsers(in: store, &issues)
        } else {
            try await lookUpDevices(in: store, &issues)
        }
        recipients = devices.map { .device($0.device.id) }
        positions = []
        isLookedUp = true
    }

    /// Turns a message to an audience into its test: a notification to chosen devices of the same app, sent at once.
    ///
    /// The content, the options and the route stay those of the campaign, which is not made.
    mutating func become(
        _ test: CampaignTest,
        in store: any DeviceStore,
        _ issues: inout RequestIssues
    ) async throws(StoreError) {
        (audienceRequest, audience, exclude) = (nil, nil, nil)
        audienceOptions = OptionsReader.AudienceOptions()
        campaign = CampaignOptions()
        notification.sendAt = nil
        audienceField = Self.testField
        recipients = test.devices.map { appName.keyed(.device($0)) }
        positions = test.positions
        try await lookUp(in: store, &issues)
    }

    /// Returns the users of recipients that are devices; empty when none has one.
    func users(of recipients: [Recipient]) -> [String?] {
        guard devices.contains(where: { $0.device.user != nil }) else { return [] }
        let users = Dictionary(devices.map { ($0.device.id, $0.device.user) }) { first, _ in first }
        return recipients.map { recipient in
            if case .device(let id) = recipient { users[id] ?? nil } else { nil }
        }
    }

    private mutating func lookUpDevices(
        in store: any DeviceStore,
        _ issues: inout RequestIssues
    ) async throws(StoreError) {
        let ids = recipients.map { if case .device(let id) = $0 { id } else { "" } }
        let found = try await store.devices(ids)
        for (index, id) in ids.enumerated() {
            let position = position(ofRecipient: index)
            if let device = found[id], ExactText(device.id) == ExactText(id) {
                devices.append(RegistryRecipient(device: device, position: position))
            } else {
                issues.add(
                    pointer(ofRecipient: position),
                    "unknown_device",
                    "The registry has no such device."
                )
            }
        }
    }

    /// Finds the devices that show a Live Activity.
    private mutating func lookUp(
        _ activity: String,
        in store: any DeviceStore,
        _ issues: inout RequestIssues
    ) async throws(StoreError) {
        let limit = AudienceReader.maximumRecipients
        let kind = TokenKind.liveActivityUpdate(activity: activity)
        let found = try await store.devices(withTokenOf: kind, in: appName, limit: limit + 1)
        devices = found.map { RegistryRecipient(device: $0, position: 0) }
        if found.isEmpty {
            issues.add("#/to/activity", "audience_empty", "No device has registered a token of this Live Activity.")
        } else if found.count > limit {
            issues.add(
                "#/to/activity",
                "too_many_recipients",
                "More than \(limit) devices show this Live Activity: a broadcast channel reaches them all."
            )
        }
    }

    private mutating func lookUpUsers(
        in store: any DeviceStore,
        _ issues: inout RequestIssues
    ) async throws(StoreError) {
        let users = recipients.map { if case .user(let id) = $0 { id } else { "" } }
        let limit = AudienceReader.maximumRecipients
        let found = try await store.devices(ofUsers: users, limit: limit + 1)
        guard found.count <= limit else {
            issues.add(
                "#/to/users",
                "too_many_recipients",
                "These users have more than \(limit) devices; use several notifications of a batch."
            )
            return
        }
        let named = users.enumerated().map { (ExactText($1), position(ofRecipient: $0)) }
        let places = Dictionary(named) { first, _ in first }
        var reached: Set<Int> = []
        for device in found {
            guard let position = device.user.flatMap({ places[ExactText($0)] }) else { continue }
            reached.insert(position)
            devices.append(RegistryRecipient(device: device, position: position))
        }
        guard !found.isEmpty else {
            issues.add("#/to/users", "audience_empty", "None of these users has a device.")
            return
        }
        for position in users.indices.map(position(ofRecipient:)) where !reached.contains(position) {
            warnings.append(
                Finding(pointer: "#/to/users/\(position)", code: "no_device", detail: "This user has no device.")
            )
        }
    }
}
