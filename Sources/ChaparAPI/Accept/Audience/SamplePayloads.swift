internal import ChaparComposition
internal import ChaparCore
internal import ChaparDelivery
internal import ChaparQueue

/// The messages that platforms would get for the samples of a dry run: their sizes, and what is found in them.
///
/// Generic over the platforms: backends say it by ``PushBackend/payloadSize(of:for:)`` and
/// ``PushBackend/check(_:for:)``.
struct SamplePayloads {
    private let notification: PushNotification
    private let choice: RoutingTable.Choice
    private let routing: RoutingTable
    private let uses: TokenUses
    /// The names of the backends that would refuse the message.
    private let refusing: Set<String>
    /// The findings of each backend, by its name: the same for each device.
    private var findings: [String: [Finding]] = [:]

    /// Prepares the messages of a dry run.
    init(_ draft: NotificationDraft, _ gateway: GatewaySnapshot) {
        var notification = draft.notification
        // The size is that of the message itself.
        notification.isDryRun = false
        if gateway.configuration.receipts[draft.appName] != nil { notification = notification.withReceiptSample }
        self.notification = notification
        choice = draft.choice
        routing = gateway.routing(of: draft.appName)
        uses = TokenUses(notification, routing.order)
        refusing = routing.backends(refusing: notification)
    }

    /// Returns the number of devices that the message does not reach, by cause, as a campaign would count them.
    ///
    /// Nothing is counted where the request names a route or a backend that does not exist.
    func skipped(of devices: [AudienceSubject]) -> [AudienceSkip: Int64] {
        var counts: [AudienceSkip: Int64] = [:]
        for subject in devices {
            let reach = try? routing.reach(of: subject.device, choice, uses, refusing: refusing)
            if case .skipped(let cause)? = reach { counts[cause, default: 0] += 1 }
        }
        return counts
    }

    /// Writes the messages for a device, by the backends of its plan in their order, as a member of an object that the
    /// caller has begun.
    mutating func write(for device: Device, to writer: inout JSONWriter) {
        writer.name("payloads")
        writer.beginArray()
        // A device without a plan is skipped.
        let backends = (try? routing.routing(for: device, choice, uses))?.plan.backends ?? []
        for name in backends {
            guard let backend = routing.backend(name) else { continue }
            writer.beginObject()
            writer.field("backend", name)
            let addressee = addressee(device, name, backend)
            if let addressee, let size = backend.payloadSize(of: notification, for: addressee) {
                writer.field("bytes", size.bytes)
                writer.field("limit", size.limit)
            }
            writer.name("warnings")
            writer.findings(findings(of: name, backend, addressee?.recipient.form ?? .token))
            writer.endObject()
        }
        writer.endArray()
    }

    private func addressee(_ device: Device, _ name: String, _ backend: any PushBackend) -> Addressee? {
        guard let kind = uses[name]?.kind else { return nil }
        let audience = backend.audience
        let token = device.token(for: audience, of: name, kind: kind, priority: routing.priority)
        if let token { return Addressee(.token(token.token), language: device.locale) }
        return audience.forms.contains(.device) ? Addressee(.device(device.name), language: device.locale) : nil
    }

    private mutating func findings(
        of name: String,
        _ backend: any PushBackend,
        _ form: Recipient.Form
    ) -> [Finding] {
        if let known = findings[name] { return known }
        let check = backend.check(notification, for: form)
        let found = check.faults + check.warnings
        findings[name] = found
        return found
    }
}
