internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// Plans for devices of the registry.
extension PlanAssignment {
    /// The most devices without a message that warnings name one by one.
    private static let namedDevices = 100

    /// The properties that decide a device's plan; most devices share them.
    private struct Kind: Hashable {
        private struct Token: Hashable {
            var slot: TokenSlot
            var environment: TokenEnvironment
            var refusedBy: [String]
        }

        private var platform: String?
        private var tokens: [Token]

        init(_ device: Device, _ kinds: [TokenKind]) {
            platform = device.effectivePlatform
            tokens = device.tokens.filter { $0.isAlive && kinds.contains($0.kind) }.map { token in
                let refusedBy = token.tombstone == nil ? token.refusals.map(\.backend) : []
                return Token(slot: token.slot, environment: token.environment, refusedBy: refusedBy)
            }
        }
    }

    /// Finds the plan of every device.
    ///
    /// A device that no backend reaches gets no message and a warning; when no device is reached, each is a mistake.
    mutating func assign(
        _ draft: NotificationDraft,
        _ routing: RoutingTable,
        _ issues: inout RequestIssues
    ) {
        let uses = TokenUses(draft.notification, routing.order)
        let kinds = uses.kinds()
        var known: [Kind: Result<PlanRange, RoutingTable.Failure>] = [:]
        var reached: [Recipient] = []
        var missed: [(recipient: RegistryRecipient, failure: RoutingTable.Failure)] = []
        for recipient in draft.devices {
            let kind = Kind(recipient.device, kinds)
            let found = known[kind] ?? positions(of: recipient.device, draft.choice, routing, uses, &issues)
            known[kind] = found
            switch found {
            case .success(let positions):
                planOf.append(contentsOf: positions)
                for _ in positions { reached.append(.device(recipient.device.id)) }
            case .failure(.unknownRoute), .failure(.unknownBackend):
                if case .failure(let failure) = found { Self.report(failure, .device(""), "#/to", &issues) }
                return
            case .failure(let failure): missed.append((recipient, failure))
            }
        }
        recipients = reached
        if plans.count < 2 { planOf = [] }
        for (number, (recipient, failure)) in missed.enumerated() {
            let pointer = draft.pointer(ofRecipient: recipient.position)
            let (code, detail) = Self.reason(for: failure, recipient.device, uses, routing, draft)
            if reached.isEmpty {
                issues.add(pointer, code, detail)
            } else if number < Self.namedDevices {
                warnings.append(Finding(pointer: pointer, code: code, detail: detail))
            } else {
                let rest = missed.count - number
                let sentence = "\(rest) more devices get no message for such reasons."
                warnings.append(Finding(pointer: "#/to", code: "more_devices", detail: sentence))
                break
            }
        }
    }

    private mutating func positions(
        of device: Device,
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        _ uses: TokenUses,
        _ issues: inout RequestIssues
    ) -> Result<PlanRange, RoutingTable.Failure> {
        do throws(RoutingTable.Failure) {
            return .success(positions(of: try routing.routing(for: device, choice, uses), &issues))
        } catch {
            return .failure(error)
        }
    }

    private static func reason(
        for failure: RoutingTable.Failure,
        _ device: Device,
        _ uses: TokenUses,
        _ routing: RoutingTable,
        _ draft: NotificationDraft
    ) -> (code: String, detail: String) {
        let live = device.tokens.filter(\.isAlive)
        guard !live.isEmpty else {
            return ("no_live_token", "The device \(device.name) has no live token.")
        }
        // Names of other activities are left out.
        let slots = Set(
            live.map { $0.kind == .device ? $0.token.service.rawValue : "\($0.token.service)/\($0.kind.typeName)" }
        )
        .sorted().joined(separator: ", ")
        let named: [String]? = if case .notAddressable(let backends) = failure { backends } else { nil }
        let services = Set(live.map(\.token.service))
        let candidates = routing.order.filter { !$0.backend.audience.services.isDisjoint(with: services) }.map(\.name)
        let kinds = uses.kinds(of: named ?? candidates)
        guard kinds.contains(.device) else {
            // Activity names come from the request.
            let missing = kinds.map { $0.typeName + ($0.name.map { "/" + $0 } ?? "") }.joined(separator: ", ")
            let need =
                !kinds.isEmpty
                ? "The device \(device.name) has no live token of the kind \(missing); it has \(slots)."
                : draft.notification.activity != nil
                    ? "This is no update and no end of a Live Activity, and only these go to one."
                    : "Only the tokens of a Live Activity take such a message: name it in to.activity."
            return ("no_token_of_kind", need)
        }
        let subject =
            if let named { "\(named.joined(separator: ", ")) cannot address" } else {
                "No configured backend can address"
            }
        return (
            "audience_not_supported",
            "\(subject) the device \(device.name), which has tokens of \(slots)."
        )
    }
}
