internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue

/// The tokens that the worker's backend accepts, for the devices of one claimed batch.
///
/// A backend never sees a device, unless its own audience has that form; it gets the token of a service that it
/// accepts.
struct DeviceAddresses: Sendable {
    /// The destination of a delivery.
    enum Address {
        /// Its recipient, unchanged.
        case asItIs
        /// To a token of this device.
        case token(DeviceToken, Device)
        /// The delivery goes to another backend of the plan, for the given reason: the device has no live token that
        /// this backend accepts, or only a token of the other environment.
        case elsewhere(reason: String)
    }

    /// Addresses for a batch in which every recipient stays unchanged.
    static let none = DeviceAddresses(devices: nil, backend: "", audiences: [:], backends: [], priority: [])

    /// The devices by id; nil when no recipient needs a lookup.
    let devices: [String: Device]?
    /// The worker's backend.
    let backend: String
    /// The audience of each configured backend, by its name.
    let audiences: [String: BackendAudience]
    /// The backends of the app.
    let backends: [(name: String, backend: any PushBackend)]
    let priority: [TokenService]
    /// The app of the worker's backend.
    ///
    /// A device or a user of another app has no address here; such a delivery can come from an operator's move.
    var app = AppName.default

    /// Whether a batch has a device, which must be looked up unless the backend takes devices themselves.
    static func areNeeded(for claims: [ClaimedDelivery]) -> Bool { claims.contains { $0.recipient.isDevice } }

    /// Returns the ids of the devices in a batch, each once.
    static func ids(in claims: [ClaimedDelivery]) -> [String] {
        var ids: Set<String> = []
        for claim in claims {
            if case .device(let id) = claim.recipient { ids.insert(id) }
        }
        return Array(ids)
    }

    /// Whether a delivery's address must be found, for which its notification must be read.
    func mustFind(_ claim: ClaimedDelivery) -> Bool { devices != nil && claim.recipient.isDevice }

    /// Returns which tokens a notification goes to.
    func uses(of notification: PushNotification) -> TokenUses { TokenUses(notification, backends) }

    /// Returns the next step of a delivery's plan after an attempt.
    ///
    /// - Parameters:
    ///   - claim: The delivery.
    ///   - uses: Which tokens its notification goes to.
    ///   - refused: The token that this backend has just refused, and whether the refusal holds at every backend; nil
    ///     when the message was not sent for another reason.
    ///   - first: The earliest step that may be returned.
    /// - Returns: The step; nil when no later one could reach the recipient.
    func nextStep(
        of claim: ClaimedDelivery,
        _ uses: TokenUses,
        refused: (token: DeviceToken, isCertain: Bool)?,
        from first: Int = 0
    ) -> Int? {
        let names = claim.plan.backends
        let later = claim.laterSteps(audiences, after: backend, isTokenRefused: refused != nil).drop { $0 < first }
        let dead = refused.flatMap { $0.isCertain ? $0.token : nil }
        guard let devices, case .device(let id) = claim.recipient else {
            guard let dead else { return later.first }
            // A token that is certainly dead is dead at every backend that accepts it.
            return later.first { !(audiences[names[$0]]?.services.contains(dead.service) ?? false) }
        }
        return later.first { step in
            guard let audience = audiences[names[step]], let use = uses[names[step]] else { return false }
            if audience.forms.contains(.device) { return true }
            guard var device = devices[id] else { return false }
            if let dead { device.tokens.removeAll { $0.token == dead } }
            return device.token(for: audience, of: names[step], kind: use.kind, priority: priority) != nil
        }
    }

    /// Returns the destination of a delivery.
    func address(of claim: ClaimedDelivery, _ uses: TokenUses) -> Address {
        switch claim.recipient {
        case .device(let key), .user(let key):
            if !app.owns(key) { return .elsewhere(reason: GatewayReason.noToken) }
        case .token, .platformID, .topic, .tags, .everyone: return .asItIs
        }
        guard let devices, case .device(let id) = claim.recipient else { return .asItIs }
        guard let audience = audiences[backend], let device = devices[id],
            let use = uses[backend],
            let token = device.token(for: audience, of: backend, kind: use.kind, priority: priority)
        else { return .elsewhere(reason: GatewayReason.noToken) }
        if token.environment.conflicts(with: audience.environment), hasBetterStep(claim, device, token, uses) {
            return .elsewhere(reason: GatewayReason.otherEnvironment)
        }
        return .token(token.token, device)
    }

    /// Whether a later backend of the plan has the environment that the app reported for its token.
    private func hasBetterStep(
        _ claim: ClaimedDelivery,
        _ device: Device,
        _ token: RegisteredToken,
        _ uses: TokenUses
    ) -> Bool {
        !claim.plan.laterSteps(after: claim.step) { name in
            guard let audience = audiences[name], !token.environment.conflicts(with: audience.environment),
                let use = uses[name]
            else { return false }
            return device.token(for: audience, of: name, kind: use.kind, priority: priority)?.token == token.token
        }
        .isEmpty
    }
}

extension ClaimedDelivery {
    /// Returns the steps after the current one whose backends are configured
    /// (``DeliveryPlan/laterSteps(_:after:at:isTokenRefused:)``).
    func laterSteps(
        _ audiences: [String: BackendAudience],
        after backend: String,
        isTokenRefused: Bool
    ) -> [Int] { plan.laterSteps(audiences, after: step, at: backend, isTokenRefused: isTokenRefused) }
}

extension DeliveryPlan {
    /// Returns the steps after a given step that have configured backends; the given step is at `backend`.
    ///
    /// Leaves out steps of the other environment, unless the token was refused
    /// (``BackendAudience/isOtherEnvironment(of:)``).
    func laterSteps(
        _ audiences: [String: BackendAudience],
        after step: Int,
        at backend: String,
        isTokenRefused: Bool
    ) -> [Int] {
        let here = audiences[backend]
        return laterSteps(after: step) { name in
            guard let audience = audiences[name] else { return false }
            return isTokenRefused || !(here.map(audience.isOtherEnvironment) ?? false)
        }
    }
}

extension Recipient {
    /// Whether it is a device of the registry.
    var isDevice: Bool { if case .device = self { true } else { false } }
}
