internal import Crypto
internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// `POST /v1/devices/{id}/events`: an app's reports that a message arrived or was opened, and of events of its own.
///
/// The report goes to the platform that sent the message; if the gateway sent the message, its delivery becomes
/// `delivered` or `opened`. An event of the app's own goes to a platform that takes such events.
package final class DeviceEventsAPI: Sendable {
    /// The most deliveries of a notification that are searched for one to the device.
    private static let largestSearch = 10_000

    let endpoint: SyncEndpoint
    private let memory = RecentEvents()
    /// The number in this gateway's message ids, once it has been read.
    private let instance = Mutex<UInt64?>(nil)

    package init(endpoint: SyncEndpoint) { self.endpoint = endpoint }

    private enum Field: Int, RequestField {
        case event, at, payload, notification, delivery, backend, name, data, options
        static let names = [
            "event", "at", "payload", "notification", "delivery", "backend", "name", "data", "options",
        ]
        /// The fields that say which message an event is about.
        static let ofMessage: [Field] = [.payload, .notification, .delivery]
        /// The fields of an event of the app's own.
        static let ofCustom: [Field] = [.name, .data, .options]
    }

    /// The word for an event of the app's own.
    private static let custom = "custom"
    private static let kinds = "Write delivered, opened or custom."

    private struct Report: Sendable {
        var event = PushEvent.delivered
        /// The event of the app's own; nil for one of a message.
        var custom: CustomEvent?
        var at: Date?
        var payload: JSONObject?
        var notification: NotificationID?
        /// The id of the gateway's own message.
        var message: MessageID?
        /// The backend whose message the payload is, if several are possible.
        var backend: String?
    }

    /// A platform's message, as read from a payload.
    private struct PlatformMessage {
        var backend: String
        var platformID: String
    }

    /// Handles a report.
    package func receive(_ request: Request, _ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app", "wait"])
        let now = endpoint.state.time.now
        let report = try await read(request, scope, at: now)
        let device = try await endpoint.device(scope.device(id))
        if let custom = report.custom { return try await pass(custom, report, device, scope, at: now) }
        var messages: [PlatformMessage] = []
        if let payload = report.payload { messages = try self.messages(in: payload, report, device, scope) }
        var addresses = messages.map {
            Address(ReceiptAddress(backend: $0.backend, platformID: $0.platformID, token: nil))
        }
        if let message = report.message ?? report.payload.flatMap(Self.ownMessage),
            let number = try await number(message)
        {
            addresses += Self.addresses(ofDelivery: number, scope.caller)
        }
        if let notification = report.notification {
            addresses += try await deliveries(of: notification, to: device, scope.caller)
        }
        if addresses.isEmpty {
            var issues = RequestIssues()
            let field = report.payload == nil ? "#/notification" : "#/payload"
            issues.add(
                field,
                "unknown_message",
                "It is no message of the gateway's, nor of a platform that wants events."
            )
            throw Problem(issues)
        }
        let found = try await receive(report, addresses, device, at: now)
        let received = found.compactMap(\.self)
        let (operations, repeated) = self.operations(for: try await meant(messages, found), report, device, at: now)
        do throws(Problem) {
            return try await endpoint.answer(operations, scope) { writer in
                writer.name("deliveries")
                writer.beginArray()
                for delivery in received { writer.delivery(delivery) }
                writer.endArray()
                writer.field("repeated", repeated)
            }
        } catch {
            memory.forget(operations.map(\.id))
            throw error
        }
    }

    /// Passes an event of the app's own on to the platforms that take such events.
    private func pass(
        _ event: CustomEvent,
        _ report: Report,
        _ device: Device,
        _ scope: RequestScope,
        at now: Date
    ) async throws(Problem) -> Response {
        let record = endpoint.record(device, scope)
        let backends = try endpoint.backends(report.backend, for: record, scope, "custom events") { $0.customEvents }
        var issues = RequestIssues()
        if backends.count > 1 {
            let names = backends.map(\.name).joined(separator: ", ")
            issues.add("#/backend", "backend_missing", "Each of \(names) takes such events: name the one it is for.")
        } else {
            for (_, reporter) in backends { for issue in reporter.issues(in: event, of: record) { issues.add(issue) } }
        }
        guard issues.isEmpty else { throw Problem(issues) }
        let all = backends.map { backend, _ in
            // Without a time a second event with the same values is another one.
            let text = JSONValue.object(event.operation).text
            let id = report.at.map { Self.id(of: [backend, text, RFC3339.string($0), device.id]) }
            return OutboxEntry(
                id: id ?? UUID(),
                backend: backend,
                device: device.id,
                user: device.user,
                kind: .event,
                body: event.operation,
                at: report.at ?? now
            )
        }
        let new = all.filter { memory.isNew($0.id, at: endpoint.state.time.steady) }
        do throws(Problem) {
            return try await endpoint.answer(new, scope) { writer in
                writer.name("deliveries")
                writer.beginArray()
                writer.endArray()
                writer.field("repeated", all.count - new.count)
            }
        } catch {
            memory.forget(new.map(\.id))
            throw error
        }
    }

    /// A delivery that a report is about, and the name of the reporter in its attempt log.
    private struct Address {
        var receipt: ReceiptAddress
        var reporter: String

        init(_ receipt: ReceiptAddress, reporter: String? = nil) {
            self.receipt = receipt
            self.reporter = reporter ?? receipt.backend
        }
    }

    /// Returns the addresses of a delivery of this gateway.
    ///
    /// A caller whose key names backends gets them only when the delivery goes through one of these backends.
    private static func addresses(ofDelivery number: Int64, _ caller: Caller) -> [Address] {
        let addresses =
            caller.view?.backends.map { ReceiptAddress(delivery: number, backend: $0.name) }
            ?? [ReceiptAddress(delivery: number)]
        return addresses.map { Address($0, reporter: EventJSON.appReporter) }
    }

    // MARK: Reading

    private func read(_ request: Request, _ scope: RequestScope, at now: Date) async throws(Problem) -> Report {
        var report = Report()
        var event = CustomEvent("")
        var isCustom = false
        var seen: Set<Int> = []
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            seen.insert(field.rawValue)
            switch field {
            case .event:
                guard let value = try scanner.identifier(&issues, "#/event", limit: 32) else { return }
                isCustom = value == Self.custom
                guard isCustom || PushEvent(rawValue: value) != nil else {
                    return issues.add("#/event", "unknown_event", Self.kinds)
                }
                report.event = PushEvent(rawValue: value) ?? .delivered
            case .at: report.at = try scanner.pastTime(&issues, "#/at", now: now)
            case .payload: report.payload = try scanner.members(&issues, "#/payload")
            case .notification:
                guard let text = try scanner.identifier(&issues, "#/notification", limit: 64) else { return }
                report.notification = NotificationID(text)
                if report.notification == nil {
                    issues.add("#/notification", "bad_id", "This is no notification's id.")
                }
            case .delivery:
                guard let text = try scanner.identifier(&issues, "#/delivery", limit: 64) else { return }
                report.message = MessageID(text)
                if report.message == nil { issues.add("#/delivery", "bad_id", "This is no id of a message.") }
            case .backend: report.backend = try scanner.identifier(&issues, "#/backend", limit: 64)
            case .name: event.name = try scanner.identifier(&issues, "#/name", limit: 128) ?? ""
            case .data: event.data = try scanner.members(&issues, "#/data") ?? JSONObject()
            case .options: event.options = try scanner.members(&issues, "#/options") ?? JSONObject()
            }
        } check: { issues in
            if !seen.contains(Field.event.rawValue) { issues.add("#/event", "missing", Self.kinds) }
            func refuse(_ fields: [Field], _ detail: String) {
                for field in fields where seen.contains(field.rawValue) {
                    issues.add("#/\(Field.names[field.rawValue])", "unsupported", detail)
                }
            }
            if isCustom {
                if !seen.contains(Field.name.rawValue) { issues.add("#/name", "missing", "Name the event.") }
                return refuse(Field.ofMessage, "A custom event is about no message of the gateway.")
            }
            refuse(Field.ofCustom, "This goes with \"event\": \"custom\" only.")
            if Field.ofMessage.count(where: { seen.contains($0.rawValue) }) != 1 {
                issues.add("#", "one_message", "Send exactly one of payload, notification and delivery.")
            }
        }
        if isCustom { report.custom = event }
        return report
    }

    /// Returns the message as each platform that recognises the payload reads it.
    ///
    /// Only the named backend is asked, or each backend that the caller may use.
    private func messages(
        in payload: JSONObject,
        _ report: Report,
        _ device: Device,
        _ scope: RequestScope
    ) throws(Problem) -> [PlatformMessage] {
        let reporters: [(name: String, ability: any EventReporter)]
        if let name = report.backend {
            reporters = try endpoint.backends(name, for: endpoint.record(device, scope), scope, "events") { $0.events }
        } else {
            reporters = scope.gateway.backends(of: try scope.app()).compactMap { one in
                one.backend.events.map { (one.name, $0) }
            }
        }
        var found: [PlatformMessage] = []
        for (name, reporter) in reporters {
            do throws(PushError) {
                guard let id = try reporter.platformID(in: payload) else { continue }
                found.append(PlatformMessage(backend: name, platformID: id))
            } catch {
                var issues = RequestIssues()
                issues.add("#/payload", "no_message_id", "\(name): \(error.message)")
                throw Problem(issues)
            }
        }
        return found
    }

    /// Selects the message of the backend that sent the delivery, when several platforms of a kind recognise the
    /// payload.
    ///
    /// - Parameters:
    ///   - messages: The message as each platform reads it.
    ///   - found: The deliveries that the report was about: first one for each message, then those that the app named.
    /// - Returns: The message as the backend of the delivery reads it; empty when no platform recognises the payload.
    /// - Throws: The answer 422: the request must name the backend.
    private func meant(
        _ messages: [PlatformMessage],
        _ found: [ReceivedDelivery?]
    ) async throws(Problem) -> [PlatformMessage] {
        guard messages.count > 1 else { return messages }
        if let place = messages.indices.first(where: { found[$0] != nil }) { return [messages[place]] }
        for delivery in found.compactMap(\.self) {
            let after = delivery.id.subtracting(clamping: 1)
            do throws(StoreError) {
                let stored = try await endpoint.state.store
                    .deliveries(of: delivery.notificationID, after: after, limit: 1).first
                let message = messages.first { $0.backend == stored?.backend }
                if let message, stored?.id == delivery.id { return [message] }
            } catch {
                throw Problem(error)
            }
        }
        var issues = RequestIssues()
        let names = messages.map(\.backend).joined(separator: ", ")
        issues.add("#/backend", "backend_missing", "Each of \(names) has such messages: name the one that sent it.")
        throw Problem(issues)
    }

    /// Returns the id of the gateway's own message, if a payload has one.
    private static func ownMessage(in payload: JSONObject) -> MessageID? {
        let id = payload["chapar_id"] ?? payload["data"]?["chapar_id"]
        return id?.stringValue.flatMap { MessageID($0) }
    }

    /// Returns the number of a message's delivery; nil for a message that is not this gateway's.
    private func number(_ message: MessageID) async throws(Problem) -> Int64? {
        var instance = instance.withLock { $0 }
        if instance == nil {
            do throws(StoreError) {
                instance = try await endpoint.state.store.instance()
            } catch {
                throw Problem(error)
            }
            self.instance.withLock { $0 = instance }
        }
        return instance.flatMap { message.delivery(instance: $0) }
    }

    /// Returns the deliveries of a notification that went to a device.
    private func deliveries(
        of notification: NotificationID,
        to device: Device,
        _ caller: Caller
    ) async throws(Problem) -> [Address] {
        var found: [Address] = []
        var after: Int64?
        var seen = 0
        while seen < Self.largestSearch {
            let page: [StoredDelivery]
            do throws(StoreError) {
                page = try await endpoint.state.store.deliveries(of: notification, after: after, limit: 500)
            } catch {
                throw Problem(error)
            }
            for delivery in page
            where Self.isFor(device, delivery.recipient) && caller.mayUse(backend: delivery.backend) {
                // While it waits for a report, the backend is the one that would take over.
                let reporter = delivery.state.isFinal ? delivery.backend : EventJSON.appReporter
                found.append(Address(ReceiptAddress(delivery: delivery.id), reporter: reporter))
            }
            guard page.count == 500, found.isEmpty else { break }
            seen += page.count
            after = page.last?.id
        }
        return found
    }

    private static func isFor(_ device: Device, _ recipient: Recipient) -> Bool {
        switch recipient {
        case .device(let id): id == device.id
        case .token(let token): device.tokens.contains { $0.token == token }
        default: false
        }
    }

    /// Whether a delivery to a recipient can have reached a device: it went to the device, its user, one of its tokens,
    /// or an audience.
    static func canBe(_ device: Device, _ recipient: Recipient) -> Bool {
        switch recipient {
        case .device, .token: isFor(device, recipient)
        case .user(let id): device.user.map { ExactText($0) } == ExactText(id)
        case .platformID, .topic, .tags, .everyone: true
        }
    }

    // MARK: Writing

    private func receive(
        _ report: Report,
        _ addresses: [Address],
        _ device: Device,
        at now: Date
    ) async throws(Problem) -> [ReceivedDelivery?] {
        let state = report.event == .opened ? DeliveryState.opened : .delivered
        let receipt = DeliveryReceipt(
            report.event == .opened ? .opened : .delivered,
            reason: report.event.rawValue,  // Two events at the same moment are different events.
            detail: "reported by the app",
            at: report.at ?? now
        )
        let entries = addresses.map { address in
            let backend = address.reporter
            let logEntry = EventJSON.receipt(receipt, backend: backend)
            // A caller that knows or guesses an id must not mark another device's message as opened.
            let isFor = { @Sendable (delivery: ReceivedDelivery) in Self.canBe(device, delivery.recipient) }
            return ReceiptEntry(address.receipt, state: state, logEntry: logEntry, isFor: isFor) { delivery in
                // Webhooks find the app by the backend.
                let sender = delivery.backend.isEmpty ? backend : delivery.backend
                return EventJSON.received(delivery, changesState: true, backend: sender, logEntry: logEntry, at: now)
            }
        }
        let results: [ReceiptResult]
        do throws(StoreError) {
            results = try await endpoint.state.record(entries)
        } catch {
            throw Problem(error)
        }
        if results.contains(.early) { throw .reportedEarly }
        return results.map(\.delivery)
    }

    /// Makes the outbox entries of an event; returns them and the number of those that were reported before.
    private func operations(
        for messages: [PlatformMessage],
        _ report: Report,
        _ device: Device,
        at now: Date
    ) -> (new: [OutboxEntry], repeated: Int) {
        let all = messages.map { Self.operation(report, $0.platformID, $0.backend, device, at: now) }
        let new = all.filter { memory.isNew($0.id, at: endpoint.state.time.steady) }
        return (new, all.count - new.count)
    }

    /// Returns the operation of an event, whose id is the same when the event is repeated.
    private static func operation(
        _ report: Report,
        _ platformID: String,
        _ backend: String,
        _ device: Device,
        at now: Date
    ) -> OutboxEntry {
        OutboxEntry(
            id: id(of: [backend, platformID, report.event.rawValue, device.id]),
            backend: backend,
            device: device.id,
            user: device.user,
            kind: .event,
            body: ["event": .string(report.event.rawValue), "message": .string(platformID)],
            at: report.at ?? now
        )
    }

    /// Returns the id of an operation, the same for the same parts.
    private static func id(of parts: [String]) -> UUID {
        var hash = SHA256()
        for part in parts { hash.update(data: Data("\(part.utf8.count):\(part)".utf8)) }
        var bytes = Array(hash.finalize().prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x80  // Version 8, variant 10: RFC 9562, section 5.8.
        bytes[8] = bytes[8] & 0x3F | 0x80
        return UUID(
            uuid: (
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9],
                bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]
            )
        )
    }
}

/// The events of the last day, so that a platform does not count an event twice when an app repeats it.
///
/// They are only in memory: after a restart a repeated event is sent again, with the same id.
private final class RecentEvents: Sendable {
    private static let span: TimeInterval = 86_400
    /// The most events; when there are more, the older half is forgotten.
    private static let capacity = 50_000

    private let seen = Mutex<[UUID: Date]>([:])

    /// Adds an event; returns whether it is new.
    func isNew(_ id: UUID, at now: Date) -> Bool {
        seen.withLock { seen in
            if let before = seen[id], now.timeIntervalSince(before) < Self.span { return false }
            if seen.count >= Self.capacity {
                let middle = seen.values.sorted()[seen.count / 2]
                seen = seen.filter { $0.value > middle }
            }
            seen[id] = now
            return true
        }
    }

    /// Forgets events that were not stored after all.
    func forget(_ ids: [UUID]) { seen.withLock { seen in for id in ids { seen[id] = nil } } }
}
