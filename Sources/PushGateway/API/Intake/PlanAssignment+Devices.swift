internal import PushCore

/// Plans for devices of the registry.
extension PlanAssignment {
    /// The most devices without a message that a warning names each.
    private static let namedDevices = 100

    /// What decides a device's plan, the same for most devices.
    private struct Kind: Hashable {
        private struct Token: Hashable {
            var service: TokenService
            var environment: TokenEnvironment
            var refusedBy: [String]
        }

        private var platform: String?
        private var tokens: [Token]

        init(_ device: Device) {
            platform = device.effectivePlatform
            tokens = device.tokens.filter(\.isAlive).map { token in
                let refusedBy = token.tombstone == nil ? token.refusals.map(\.backend) : []
                return Token(service: token.token.service, environment: token.environment, refusedBy: refusedBy)
            }
        }
    }

    /// Finds the plan of every device.
    ///
    /// One that nothing reaches gets no message, which a warning tells; when none is reached, each is a mistake.
    mutating func assign(
        _ draft: NotificationDraft,
        _ routing: RoutingTable,
        _ issues: inout RequestIssues
    ) {
        var known: [Kind: Result<Places, RoutingTable.Failure>] = [:]
        var reached: [Recipient] = []
        var missed: [(recipient: RegistryRecipient, failure: RoutingTable.Failure)] = []
        for recipient in draft.devices {
            let kind = Kind(recipient.device)
            let found = known[kind] ?? places(of: recipient.device, draft.choice, routing, &issues)
            known[kind] = found
            switch found {
            case .success(let places):
                planOf.append(contentsOf: places)
                for _ in places { reached.append(.device(recipient.device.id)) }
            case .failure(.unknownRoute), .failure(.unknownBackend):
                if case .failure(let failure) = found { Self.report(failure, .device(""), "#/to", &issues) }
                return
            case .failure(let failure): missed.append((recipient, failure))
            }
        }
        recipients = reached
        if plans.count < 2 { planOf = [] }
        for (number, (recipient, failure)) in missed.enumerated() {
            let pointer = "#/to/\(draft.audienceField)/\(recipient.place)"
            let (code, detail) = Self.words(for: failure, recipient.device)
            if reached.isEmpty {
                issues.add(pointer, code, detail)
            } else if number < Self.namedDevices {
                warnings.append(PushWarning(pointer: pointer, code: code, detail: detail))
            } else {
                let rest = missed.count - number
                let sentence = "\(rest) more devices get no message for such reasons."
                warnings.append(PushWarning(pointer: "#/to", code: "more_devices", detail: sentence))
                break
            }
        }
    }

    private mutating func places(
        of device: Device,
        _ choice: RoutingTable.Choice,
        _ routing: RoutingTable,
        _ issues: inout RequestIssues
    ) -> Result<Places, RoutingTable.Failure> {
        do throws(RoutingTable.Failure) {
            return .success(places(of: try routing.routing(for: device, choice), &issues))
        } catch {
            return .failure(error)
        }
    }

    private static func words(for failure: RoutingTable.Failure, _ device: Device) -> (code: String, detail: String) {
        let services = device.tokens.compactMap { $0.isAlive ? $0.token.service.rawValue : nil }
        guard !services.isEmpty else {
            return ("no_live_token", "The device \(device.id) has no live token.")
        }
        let taker =
            if case .notAddressable(let backend) = failure { "\(backend) cannot address" } else {
                "No configured backend can address"
            }
        return (
            "audience_not_supported",
            "\(taker) the device \(device.id), which has tokens of \(services.joined(separator: ", "))."
        )
    }
}
