internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The events that a caller may see.
///
/// An administrator of the whole gateway sees all. Other callers see events of notifications whose sender they may see,
/// and of backends that they may use, with fingerprints instead of device tokens. Events that name a device need the
/// scope `devices`; for a key that names an app or backends, devices and users must belong to the backend's app.
struct EventView: Sendable {
    private let caller: Caller

    init(_ caller: Caller) { self.caller = caller }

    /// Returns the event as the caller may see it; nil when it may not.
    func shown(_ event: StoredEvent, type: String) -> [UInt8]? {
        if caller.seesAll { return event.json }
        guard case .object(var object)? = try? JSONValue(parsing: event.json), isAllowed(object, type) else {
            return nil
        }
        for name in ["recipient", "token"] where !caller.isAdministrator {
            guard let text = object[name]?.stringValue, let recipient = Recipient(storedForm: text) else { continue }
            object[name] = .string(recipient.shownForm)
        }
        // The detail of a notice may name users and devices.
        if type == "backend.notice", !caller.has(.devices) { object["detail"] = nil }
        return JSONValue.object(object).bytes
    }

    private func isAllowed(_ object: JSONObject, _ type: String) -> Bool {
        switch type.prefix(while: { $0 != "." }) {
        case "notification", "delivery":
            // Only administrators of the whole gateway see notifications that were sent without a key.
            caller.maySee(sender: object["caller"]?.stringValue ?? "")
        case "device", "operation": caller.has(.devices) && isInReach(object)
        case "backend": (object["device"] == nil || caller.has(.devices)) && isInReach(object)
        default: false
        }
    }

    /// Whether the caller may use the backend, and the device and the user belong to the backend's app.
    ///
    /// The name of the backend may have belonged to another app when the event was written.
    private func isInReach(_ object: JSONObject) -> Bool {
        guard let view = caller.view else { return true }
        guard let app = object["backend"]?.stringValue.flatMap(view.app(ofBackend:)) else { return false }
        return ["device", "user"].compactMap { object[$0]?.stringValue }.allSatisfy(app.owns)
    }
}
