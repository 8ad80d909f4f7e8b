internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
internal import ChaparComposition
internal import ChaparCore
internal import ChaparQueue

/// `POST /v1/backends/{name}/clicks`: reports of an app or its server about what a user did with a platform's
/// notification.
///
/// The platform's plugin reads the payload and announces the result; the delivery that it is about moves on to
/// `delivered` or `opened`. A delivery about which the caller may not report is treated as unknown.
package struct ClicksAPI: Sendable {
    /// The most devices that are read of the user whom a click names.
    private static let largestSearch = 100

    let endpoint: SyncEndpoint

    /// Creates the endpoint, which records clicks in the store of `endpoint`.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private enum Field: Int, RequestField {
        case userInfo, action, user, installation, device, at, context
        static let names = [
            "user_info", "action_identifier", "user_id", "installation_id", "device", "at", "context",
        ]
    }

    /// Handles a click.
    package func receive(_ request: Request, _ name: Substring, _ scope: RequestScope) async throws(Problem) -> Response
    {
        try scope.allowParameters([])
        let now = endpoint.state.time.now
        let configured = scope.gateway.backends.first { $0.name == name }
        guard let configured, let reader = configured.backend.clicks else {
            throw .notFound("No backend of this name reads clicks.")
        }
        let click = try await read(request, scope, at: now)
        let taken: ClickResult
        do throws(PushError) {
            taken = try await reader.read(click)
        } catch {
            throw Problem(error)
        }
        let received = try await receive(taken.receipt, click, configured, scope.caller, at: now)
        return Response.json { writer in
            writer.name("notification")
            writer.object(taken.notification)
            writer.name("deliveries")
            writer.beginArray()
            for delivery in received { writer.delivery(delivery) }
            writer.endArray()
            writer.name("forwarding")
            switch taken.forwarding {
            case nil: writer.string("not_wanted")
            case .success?: writer.string("done")
            case .failure(let error)?:
                writer.string("failed")
                writer.name("error")
                writer.pushError(error)
            }
        }
    }

    private func read(_ request: Request, _ scope: RequestScope, at now: Date) async throws(Problem) -> ReportedClick {
        var click = ReportedClick(JSONObject(), action: nil, at: now)
        var hasPayload = false
        try await endpoint.body(of: request, scope, Field.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .userInfo:
                hasPayload = true
                click.payload = try scanner.members(&issues, "#/user_info") ?? click.payload
            case .action: click.action = try scanner.identifier(&issues, "#/action_identifier", limit: 256)
            case .user: click.user = try scanner.identifier(&issues, "#/user_id", limit: Device.maximumNameBytes)
            case .installation: click.installation = try scanner.identifier(&issues, "#/installation_id", limit: 256)
            case .device: click.device = try scanner.identifier(&issues, "#/device", limit: Device.maximumIDBytes)
            case .at: click.at = try scanner.pastTime(&issues, "#/at", now: now) ?? now
            case .context: click.context = try scanner.members(&issues, "#/context") ?? click.context
            }
        } check: { issues in
            if !hasPayload { issues.add("#/user_info", "missing", "Send the payload as the app received it.") }
        }
        return click
    }

    private func receive(
        _ receipt: DeliveryReceipt?,
        _ click: ReportedClick,
        _ configured: BackendRegistry.ConfiguredBackend,
        _ caller: Caller,
        at now: Date
    ) async throws(Problem) -> [ReceivedDelivery] {
        guard let receipt, let id = receipt.platformID else { return [] }
        let backend = configured.name
        let isFor = try await reportable(click, configured.app, caller)
        let logEntry = EventJSON.receipt(receipt, backend: backend)
        let state = receipt.deliveryState
        let entry = ReceiptEntry(
            ReceiptAddress(backend: backend, platformID: id, token: receipt.token),
            state: state,
            logEntry: logEntry,
            isFor: isFor
        ) { delivery in
            EventJSON.received(delivery, changesState: state != nil, backend: backend, logEntry: logEntry, at: now)
        }
        let found: [ReceiptResult]
        do throws(StoreError) {
            var results = try await endpoint.state.record([entry])
            if results == [.unknown], let other = entry.regardlessOfUser {
                results = try await endpoint.state.record([other])
            }
            found = results
        } catch {
            throw Problem(error)
        }
        if found.contains(.early) { throw .reportedEarly }
        return found.compactMap(\.delivery)
    }

    /// Returns a check of which deliveries a caller may report: those of notifications that it may see, and those to
    /// the device or the user that the click names, since an app reports what its server sent with another key.
    private func reportable(
        _ click: ReportedClick,
        _ app: AppName,
        _ caller: Caller
    ) async throws(Problem) -> @Sendable (ReceivedDelivery) -> Bool {
        guard !caller.seesAll else { return { _ in true } }
        let user = click.user.map(app.key)
        let devices: [Device]
        do throws(StoreError) {
            devices = try await self.devices(click.device.map(app.key), user, app)
        } catch {
            throw Problem(ofDevices: error)
        }
        return { delivery in
            if caller.maySee(sender: delivery.caller) { return true }
            if case .user(let id) = delivery.recipient, id == user { return true }
            return devices.contains { DeviceEventsAPI.canBe($0, delivery.recipient) }
        }
    }

    /// Returns the registry's device of a key; without a key the devices of a user.
    private func devices(_ id: String?, _ user: String?, _ app: AppName) async throws(StoreError) -> [Device] {
        let registry = endpoint.state.devices
        if let id {
            guard let device = try await registry.device(id) else { return [] }
            return [device]
        }
        guard let user else { return [] }
        let query = DeviceQuery(app: app, user: user)
        return try await registry.list(query, after: nil, limit: Self.largestSearch).devices
    }
}

extension JSONWriter {
    /// Writes the delivery that a receipt was about.
    mutating func delivery(_ delivery: ReceivedDelivery) {
        beginObject()
        field("notification", delivery.notificationID.description)
        field("delivery", delivery.notificationID.place(of: delivery.id))
        field("state", delivery.state.rawValue)
        endObject()
    }
}

extension ReceiptResult {
    /// The delivery that a receipt was about; nil when it is unknown, or has to come again.
    var delivery: ReceivedDelivery? {
        switch self {
        case .recorded(let delivery), .repeated(let delivery): delivery
        case .unknown, .early: nil
        }
    }
}

extension ReceiptEntry {
    /// The same entry for a delivery that went to a device of the receipt's user, not to the user; nil when the receipt
    /// names no user.
    var regardlessOfUser: ReceiptEntry? {
        guard let token = address.token, case .user? = Recipient(storedForm: token) else { return nil }
        var other = self
        other.address.token = nil
        return other
    }
}
