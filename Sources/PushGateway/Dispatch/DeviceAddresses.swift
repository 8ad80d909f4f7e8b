internal import PushCore

/// Finds, for the devices of one claimed batch, the tokens that the lane's backend takes.
///
/// A backend never sees a device, unless its own audience has that form; it gets the token of a service it takes.
struct DeviceAddresses: Sendable {
    /// Where a delivery goes.
    enum Address {
        /// To its recipient as it stands.
        case asItIs
        /// To a token of the device, which speaks this language.
        case token(DeviceToken, language: String?)
        /// The device has no live token that the backend takes.
        case missing
    }

    /// Every delivery goes to its recipient as it stands.
    static let none = DeviceAddresses(devices: nil, audience: BackendAudience(), priority: [])

    /// The devices by id; nil when no recipient is to be looked up.
    let devices: [String: Device]?
    let audience: BackendAudience
    let priority: [TokenService]

    /// Whether a batch has a device, which has to be looked up unless the backend takes devices themselves.
    static func areNeeded(for claims: [ClaimedDelivery]) -> Bool { claims.contains { $0.recipient.isDevice } }

    /// The ids of the devices in a batch, each once.
    static func ids(in claims: [ClaimedDelivery]) -> [String] {
        var ids: Set<String> = []
        for claim in claims {
            if case .device(let id) = claim.recipient { ids.insert(id) }
        }
        return Array(ids)
    }

    /// The next step of a delivery's plan whose backend is configured; nil when there is none, or when the device has no
    /// live token for any that follows.
    func nextStep(of claim: ClaimedDelivery, _ audiences: [String: BackendAudience]) -> Int? {
        let names = claim.plan.backends
        let later = (claim.step + 1..<max(names.count, claim.step + 1)).filter { audiences[names[$0]] != nil }
        guard let devices, case .device(let id) = claim.recipient else { return later.first }
        let isReachable = later.contains { step in
            guard let audience = audiences[names[step]] else { return false }
            return audience.forms.contains(.device) || devices[id]?.liveToken(for: audience) != nil
        }
        return isReachable ? later.first : nil
    }

    /// Where a delivery goes.
    func address(of recipient: Recipient) -> Address {
        guard let devices, case .device(let id) = recipient else { return .asItIs }
        guard let device = devices[id], let token = device.liveToken(for: audience, priority: priority) else {
            return .missing
        }
        return .token(token, language: device.locale)
    }
}

extension Recipient {
    /// Whether it is a device of the registry.
    var isDevice: Bool { if case .device = self { true } else { false } }
}
