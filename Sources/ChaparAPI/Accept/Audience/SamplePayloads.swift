internal import ChaparComposition
internal import ChaparCore
internal import ChaparDelivery
internal import ChaparQueue

/// The messages that platforms would get for the samples of a dry run: their sizes, and what is found in them.
///
/// It does not depend on the platforms: backends answer through ``PushBackend/payloadSize(of:for:)``,
/// ``PushBackend/payload(of:for:)`` and ``PushBackend/check(_:for:)``. The content is the caller's own, so the scope
/// `send` is enough to see it.
struct SamplePayloads {
    /// The most recipients of a notification that are looked at for one of each backend.
    private static let mostRecipients = 100

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
            if case .skipped(let cause)? = reach { counts[cause] = (counts[cause] ?? 0).adding(clamping: 1) }
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
            write(name, backend, addressee(device, name, backend), to: &writer)
        }
        writer.endArray()
    }

    /// Writes one message for each backend that an accepted notification may go through, that of the first recipient
    /// of it, as a member of an object that the caller has begun.
    ///
    /// - Parameters:
    ///   - new: The notification.
    ///   - devices: The devices of the registry among its recipients.
    ///   - writer: Takes the member.
    mutating func write(for new: NewNotification, _ devices: [RegistryRecipient], to writer: inout JSONWriter) {
        writer.name("payloads")
        writer.beginArray()
        var shown: Set<String> = []
        for (index, recipient) in new.recipients.prefix(Self.mostRecipients).enumerated() {
            let position = index < new.planOf.count ? Int(new.planOf[index]) : 0
            guard position < new.record.plans.count else { continue }
            for name in new.record.plans[position].backends where !shown.contains(name) {
                guard let backend = routing.backend(name) else { continue }
                shown.insert(name)
                var found: Addressee? = Addressee(recipient)
                if case .device(let key) = recipient, let own = devices.first(where: { $0.device.id == key }) {
                    found = addressee(own.device, name, backend)
                }
                write(name, backend, found, to: &writer)
            }
        }
        writer.endArray()
    }

    private mutating func write(
        _ name: String,
        _ backend: any PushBackend,
        _ addressee: Addressee?,
        to writer: inout JSONWriter
    ) {
        writer.beginObject()
        writer.field("backend", name)
        writer.field("kind", backend.kind.rawValue)
        if let addressee, let body = backend.payload(of: notification, for: addressee) {
            writer.name("body")
            writer.object(body.hiding(addressee.recipient))
        }
        if let addressee, let size = backend.payloadSize(of: notification, for: addressee) {
            writer.field("bytes", size.bytes)
            writer.field("limit", size.limit)
        }
        writer.name("warnings")
        writer.findings(findings(of: name, backend, addressee?.recipient.form ?? .token))
        writer.endObject()
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

extension JSONObject {
    /// Returns the object with the recipient's token shortened, should a plugin have it in a text.
    fileprivate func hiding(_ recipient: Recipient) -> JSONObject {
        guard case .token(let token) = recipient, token.value.utf8.count > 12 else { return self }
        let short = "\(token.value.prefix(4))…"
        guard JSONValue.object(self).text.contains(token.value) else { return self }
        var shown = JSONObject()
        for (name, value) in self { shown[name] = value.replacing(token.value, with: short) }
        return shown
    }
}

extension JSONValue {
    fileprivate func replacing(_ text: String, with other: String) -> JSONValue {
        switch self {
        case .string(let value): return .string(value.replacing(text, with: other))
        case .array(let values): return .array(values.map { $0.replacing(text, with: other) })
        case .object(let members):
            var shown = JSONObject()
            for (name, value) in members { shown[name] = value.replacing(text, with: other) }
            return .object(shown)
        case .null, .bool, .integer, .double: return self
        }
    }
}
